-- The log of notifications.

CREATE TABLE hookrow_notifications (
    id BIGSERIAL PRIMARY KEY,
    fingerprint BYTEA NOT NULL,
    record_type VARCHAR(64),
    message_id VARCHAR(255),
    recipient VARCHAR(320),
    occurred_at TIMESTAMP WITH TIME ZONE,
    outcome VARCHAR(32) NOT NULL,
    first_outcome VARCHAR(32) NOT NULL,
    status SMALLINT NOT NULL,
    attempts BIGINT NOT NULL,
    received_at TIMESTAMP WITH TIME ZONE NOT NULL,
    last_received_at TIMESTAMP WITH TIME ZONE NOT NULL,
    ended_at TIMESTAMP WITH TIME ZONE NOT NULL,
    retry_at TIMESTAMP WITH TIME ZONE,
    body TEXT,
    CONSTRAINT hookrow_notifications_fingerprint UNIQUE (fingerprint)
);

CREATE INDEX hookrow_notifications_parked_retry_at
    ON hookrow_notifications (retry_at) WHERE retry_at IS NOT NULL;

CREATE INDEX hookrow_notifications_parked_message_id
    ON hookrow_notifications (message_id) WHERE retry_at IS NOT NULL;
