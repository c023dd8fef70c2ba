-- The log of notifications, and the tables that accompany it.
--
-- There are no partial indexes. The first columns of an index have the same values, or are null, in
-- all entries that no query reads by it: these are together, and new ones come last. Three generated
-- columns are null for that reason. One of them is stored, so that the server need not read a body
-- again to remove an old version from the index.
--
-- hookrow_parked: the parked entries in the order in which a sweep searches them, also if many are
-- due at one time.
-- hookrow_notifications_changes: a person's history of suppressions and reactivations. Other types
-- that suppress have a reason.
-- hookrow_recoveries: entries that were refused at first, are recorded now, and are not yet counted
-- as recovered.
-- hookrow_expired: entries that are neither recorded nor retried any more, but can be replayed, by id.
-- hookrow_change_numbers: entries that changed rows, in the order in which a consumer reads them; those
-- without a number yet, which have a 0, come first.
CREATE TABLE hookrow_notifications (
    id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    fingerprint BINARY(16) NOT NULL,
    record_type VARCHAR(64),
    message_id VARCHAR(255),
    recipient VARCHAR(320),
    occurred_at DATETIME(6),
    outcome VARCHAR(32) NOT NULL,
    first_outcome VARCHAR(32) NOT NULL,
    status SMALLINT NOT NULL,
    attempts BIGINT NOT NULL,
    retries BIGINT DEFAULT 0 NOT NULL,
    received_at DATETIME(6) NOT NULL,
    last_received_at DATETIME(6) NOT NULL,
    ended_at DATETIME(6) NOT NULL,
    retry_at DATETIME(6),
    reason VARCHAR(64),
    trace_id VARCHAR(255),
    provider VARCHAR(32),
    entry VARCHAR(64),
    source VARCHAR(16) NOT NULL,
    recovery_counted BOOLEAN,
    change_number BIGINT,
    body LONGTEXT,
    parked_message_id VARCHAR(255) AS (
        CASE WHEN retry_at IS NOT NULL THEN message_id END
    ) VIRTUAL,
    changed_recipient VARCHAR(320) AS (
        CASE WHEN record_type = _utf8mb4'SubscriptionChange' OR reason IS NOT NULL
            THEN recipient END
    ) VIRTUAL,
    is_expired BOOLEAN AS (
        CASE WHEN retry_at IS NULL AND body IS NOT NULL AND outcome IN (
            _utf8mb4'dispatch_not_found', _utf8mb4'failed', _utf8mb4'recipient_mismatch',
            _utf8mb4'subscriber_not_found'
        ) THEN 1 END
    ) STORED,
    CONSTRAINT hookrow_notifications_fingerprint UNIQUE (fingerprint),
    INDEX hookrow_parked (retry_at, id),
    INDEX hookrow_parked_message_id (parked_message_id),
    INDEX hookrow_notifications_changes (changed_recipient),
    INDEX hookrow_recoveries (outcome, recovery_counted, first_outcome),
    INDEX hookrow_expired (is_expired, id),
    INDEX hookrow_change_numbers (change_number, id)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE hookrow_hours (
    hour DATETIME(6) NOT NULL,
    record_type VARCHAR(64) NOT NULL,
    reason VARCHAR(64) NOT NULL,
    first_outcome VARCHAR(32) NOT NULL,
    entry VARCHAR(64) NOT NULL,
    entries BIGINT NOT NULL,
    recovered BIGINT DEFAULT 0 NOT NULL,
    PRIMARY KEY (hour, record_type, reason, first_outcome, entry)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE hookrow_meta (
    name VARCHAR(64) NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- `row_key` holds two keys of 255 characters, and is as long as the limit of a key, 3,072 bytes,
-- allows.
CREATE TABLE hookrow_suppression_changes (
    role VARCHAR(32) NOT NULL,
    row_key VARCHAR(736) NOT NULL,
    changed_at DATETIME(6) NOT NULL,
    PRIMARY KEY (role, row_key)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- The rows that transactions lock.
INSERT IGNORE INTO hookrow_meta (name, value) VALUES
    ('lock_counting', ''), ('lock_pruning', ''), ('lock_writers_0', ''), ('lock_writers_1', '');
