-- Subscribers, lists, subscriptions and dispatches.
--
-- Each table states its engine, row format and collation, so that the server's defaults do not
-- matter. Its indexes are a part of the statement, which the server executes completely or not at
-- all. There are no partial indexes, so that some also have the rows that no query reads by them.
-- A foreign key creates an index of its column with its own name, unless there is one.

-- `email_folded` folds only ASCII letters, as hookrow does. lower() would fold others, too, except in
-- the character set ascii, in which the bytes of other letters stay as they are.
CREATE TABLE hookrow_subscribers (
    id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    email VARCHAR(320) NOT NULL,
    email_folded VARCHAR(320) AS (
        CONVERT(CAST(LOWER(CONVERT(CAST(email AS BINARY) USING ascii)) AS BINARY) USING utf8mb4)
    ) STORED,
    suppressed_at DATETIME(6),
    suppression_reason MEDIUMTEXT,
    suppression_changed_at DATETIME(6),
    created_at DATETIME(6) DEFAULT (UTC_TIMESTAMP(6)) NOT NULL,
    UNIQUE INDEX hookrow_subscribers_email (email_folded),
    INDEX hookrow_subscribers_suppressed (suppressed_at, id),
    INDEX hookrow_subscribers_reason (suppression_reason(64), suppressed_at, id)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE hookrow_lists (
    id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    name VARCHAR(255) NOT NULL,
    created_at DATETIME(6) DEFAULT (UTC_TIMESTAMP(6)) NOT NULL
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE hookrow_subscriptions (
    id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    list_id BIGINT NOT NULL,
    subscriber_id BIGINT NOT NULL,
    suppressed_at DATETIME(6),
    suppression_reason MEDIUMTEXT,
    suppression_changed_at DATETIME(6),
    created_at DATETIME(6) DEFAULT (UTC_TIMESTAMP(6)) NOT NULL,
    CONSTRAINT hookrow_subscriptions_list_id_fkey
        FOREIGN KEY (list_id) REFERENCES hookrow_lists (id),
    CONSTRAINT hookrow_subscriptions_subscriber_id_fkey
        FOREIGN KEY (subscriber_id) REFERENCES hookrow_subscribers (id),
    CONSTRAINT hookrow_subscriptions_unique UNIQUE (list_id, subscriber_id)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- A message to several subscribers may have one id: providers give one to To, Cc and Bcc.
CREATE TABLE hookrow_dispatches (
    id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    provider_message_id VARCHAR(255),
    subscriber_id BIGINT NOT NULL,
    list_id BIGINT,
    delivered_at DATETIME(6),
    opened_at DATETIME(6),
    suppressed_at DATETIME(6),
    suppression_reason MEDIUMTEXT,
    suppression_changed_at DATETIME(6),
    first_opened_at DATETIME(6),
    clicked_at DATETIME(6),
    bounced_at DATETIME(6),
    bounce_type VARCHAR(64),
    complained_at DATETIME(6),
    created_at DATETIME(6) DEFAULT (UTC_TIMESTAMP(6)) NOT NULL,
    CONSTRAINT hookrow_dispatches_subscriber_id_fkey
        FOREIGN KEY (subscriber_id) REFERENCES hookrow_subscribers (id),
    CONSTRAINT hookrow_dispatches_list_id_fkey
        FOREIGN KEY (list_id) REFERENCES hookrow_lists (id),
    CONSTRAINT hookrow_dispatches_message_id UNIQUE (provider_message_id, subscriber_id)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
