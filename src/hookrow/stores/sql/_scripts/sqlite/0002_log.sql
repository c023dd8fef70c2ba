-- The log of notifications, and the tables that accompany it.

CREATE TABLE hookrow_notifications (
    id INTEGER NOT NULL PRIMARY KEY,
    fingerprint BLOB NOT NULL,
    record_type VARCHAR(64),
    message_id VARCHAR(255),
    recipient VARCHAR(320),
    occurred_at DATETIME,
    outcome VARCHAR(32) NOT NULL,
    first_outcome VARCHAR(32) NOT NULL,
    status SMALLINT NOT NULL,
    attempts BIGINT NOT NULL,
    retries BIGINT DEFAULT 0 NOT NULL,
    received_at DATETIME NOT NULL,
    last_received_at DATETIME NOT NULL,
    ended_at DATETIME NOT NULL,
    retry_at DATETIME,
    reason VARCHAR(64),
    trace_id VARCHAR(255),
    provider VARCHAR(32),
    entry VARCHAR(64),
    source VARCHAR(16) NOT NULL,
    recovery_counted BOOLEAN,
    change_number BIGINT,
    body TEXT,
    CONSTRAINT hookrow_notifications_fingerprint UNIQUE (fingerprint)
);

-- The parked entries in the order in which a sweep searches them, also if many are due at one time.
CREATE INDEX hookrow_parked
    ON hookrow_notifications (retry_at, id) WHERE retry_at IS NOT NULL;

CREATE INDEX hookrow_parked_message_id
    ON hookrow_notifications (message_id) WHERE retry_at IS NOT NULL;

-- A person's history of suppressions and reactivations. Other types that suppress have a reason.
CREATE INDEX hookrow_notifications_changes
    ON hookrow_notifications (recipient)
    WHERE record_type = 'SubscriptionChange' OR reason IS NOT NULL;

-- Entries that were refused at first, are recorded now, and are not yet counted as recovered.
CREATE INDEX hookrow_recoveries
    ON hookrow_notifications (id)
    WHERE first_outcome <> 'recorded' AND outcome = 'recorded' AND recovery_counted IS NULL;

-- Entries that are neither recorded nor retried any more, but can be replayed.
CREATE INDEX hookrow_expired
    ON hookrow_notifications (id)
    WHERE retry_at IS NULL AND body IS NOT NULL AND outcome IN
        ('dispatch_not_found', 'failed', 'recipient_mismatch', 'subscriber_not_found');

-- Entries that changed rows, in the order in which a consumer reads them; those without a number yet,
-- which have a 0, come first.
CREATE INDEX hookrow_change_numbers
    ON hookrow_notifications (change_number, id) WHERE change_number IS NOT NULL;

CREATE TABLE hookrow_hours (
    hour DATETIME NOT NULL,
    record_type VARCHAR(64) NOT NULL,
    reason VARCHAR(64) NOT NULL,
    first_outcome VARCHAR(32) NOT NULL,
    entry VARCHAR(64) NOT NULL,
    entries BIGINT NOT NULL,
    recovered BIGINT DEFAULT 0 NOT NULL,
    PRIMARY KEY (hour, record_type, reason, first_outcome, entry)
);

CREATE TABLE hookrow_meta (
    name VARCHAR(64) NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
);

CREATE TABLE hookrow_suppression_changes (
    role VARCHAR(32) NOT NULL,
    row_key TEXT NOT NULL,
    changed_at DATETIME NOT NULL,
    PRIMARY KEY (role, row_key)
);
