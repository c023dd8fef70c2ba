-- Subscribers, lists, subscriptions and dispatches.

CREATE TABLE hookrow_subscribers (
    id INTEGER NOT NULL PRIMARY KEY,
    email VARCHAR(320) NOT NULL,
    suppressed_at DATETIME,
    suppression_reason TEXT,
    suppression_changed_at DATETIME,
    created_at DATETIME DEFAULT (strftime('%Y-%m-%d %H:%M:%f000', 'now')) NOT NULL
);

CREATE UNIQUE INDEX hookrow_subscribers_email
    ON hookrow_subscribers (lower(email));

-- The suppressed subscribers, by the time of suppression.
CREATE INDEX hookrow_subscribers_suppressed
    ON hookrow_subscribers (suppressed_at, id) WHERE suppressed_at IS NOT NULL;

-- The suppressed subscribers by reason, unless it is too long for an index.
CREATE INDEX hookrow_subscribers_reason
    ON hookrow_subscribers (suppression_reason, suppressed_at, id)
    WHERE suppressed_at IS NOT NULL AND length(suppression_reason) <= 64;

CREATE TABLE hookrow_lists (
    id INTEGER NOT NULL PRIMARY KEY,
    name VARCHAR(255) NOT NULL,
    created_at DATETIME DEFAULT (strftime('%Y-%m-%d %H:%M:%f000', 'now')) NOT NULL
);

CREATE TABLE hookrow_subscriptions (
    id INTEGER NOT NULL PRIMARY KEY,
    list_id BIGINT NOT NULL REFERENCES hookrow_lists (id),
    subscriber_id BIGINT NOT NULL REFERENCES hookrow_subscribers (id),
    suppressed_at DATETIME,
    suppression_reason TEXT,
    suppression_changed_at DATETIME,
    created_at DATETIME DEFAULT (strftime('%Y-%m-%d %H:%M:%f000', 'now')) NOT NULL,
    CONSTRAINT hookrow_subscriptions_unique UNIQUE (list_id, subscriber_id)
);

CREATE INDEX hookrow_subscriptions_subscriber_id ON hookrow_subscriptions (subscriber_id);

-- A message to several subscribers may have one id: providers give one to To, Cc and Bcc.
CREATE TABLE hookrow_dispatches (
    id INTEGER NOT NULL PRIMARY KEY,
    provider_message_id VARCHAR(255),
    subscriber_id BIGINT NOT NULL REFERENCES hookrow_subscribers (id),
    list_id BIGINT REFERENCES hookrow_lists (id),
    delivered_at DATETIME,
    opened_at DATETIME,
    suppressed_at DATETIME,
    suppression_reason TEXT,
    suppression_changed_at DATETIME,
    first_opened_at DATETIME,
    clicked_at DATETIME,
    bounced_at DATETIME,
    bounce_type VARCHAR(64),
    complained_at DATETIME,
    created_at DATETIME DEFAULT (strftime('%Y-%m-%d %H:%M:%f000', 'now')) NOT NULL,
    CONSTRAINT hookrow_dispatches_message_id UNIQUE (provider_message_id, subscriber_id)
);

CREATE INDEX hookrow_dispatches_subscriber_id ON hookrow_dispatches (subscriber_id);

CREATE INDEX hookrow_dispatches_list_id ON hookrow_dispatches (list_id);
