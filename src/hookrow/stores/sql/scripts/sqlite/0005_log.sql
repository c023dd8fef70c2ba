-- More about each notification, and the tables that accompany the log.

ALTER TABLE hookrow_notifications ADD COLUMN reason VARCHAR(64);

ALTER TABLE hookrow_notifications ADD COLUMN trace_id VARCHAR(255);

ALTER TABLE hookrow_notifications ADD COLUMN provider VARCHAR(32);

ALTER TABLE hookrow_notifications ADD COLUMN source VARCHAR(16);

ALTER TABLE hookrow_notifications ADD COLUMN recovery_counted BOOLEAN;

CREATE TABLE hookrow_hours (
    hour DATETIME NOT NULL,
    record_type VARCHAR(64) NOT NULL,
    reason VARCHAR(64) NOT NULL,
    first_outcome VARCHAR(32) NOT NULL,
    entries BIGINT NOT NULL,
    recovered BIGINT DEFAULT 0 NOT NULL,
    PRIMARY KEY (hour, record_type, reason, first_outcome)
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
