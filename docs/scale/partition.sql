-- Puts the log into partitions by month, once; all but the last step go on beside the receivers.
-- psql --file partition.sql --set ON_ERROR_STOP=1; PostgreSQL 13 and later.

-- A fingerprint begins with the second of what it tells of: months are ranges of it.
CREATE FUNCTION hookrow_from(month date) RETURNS bytea LANGUAGE sql STABLE AS
$$ SELECT substring(int8send(extract(epoch FROM month::timestamp)::bigint) FROM 5) $$;

-- Makes the partition of a month. Call it some days before the month begins.
CREATE FUNCTION hookrow_partition(month date) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format(
        'CREATE TABLE %I PARTITION OF hookrow_notifications FOR VALUES FROM (%L) TO (%L)',
        to_char(month, '"hookrow_notifications_"YYYY_MM'),
        hookrow_from(month), hookrow_from((month + interval '1 month')::date)
    );
END $$;

-- Attached, the present table needs no look at its rows where it has proved what they are,
-- and no new index where it has one that is like the other partitions'.
DO $$ BEGIN
    EXECUTE format(
        'ALTER TABLE hookrow_notifications ADD CONSTRAINT hookrow_before'
        ' CHECK (fingerprint < %L) NOT VALID',
        hookrow_from((date_trunc('month', now() AT TIME ZONE 'UTC') + interval '1 month')::date)
    );
END $$;
ALTER TABLE hookrow_notifications VALIDATE CONSTRAINT hookrow_before;

CREATE INDEX CONCURRENTLY hookrow_before_id ON hookrow_notifications (id);

-- The last step holds the receivers up for some milliseconds. It either happens whole or not.
BEGIN;
SET LOCAL lock_timeout = '1s';
ALTER TABLE hookrow_notifications RENAME TO hookrow_before;
ALTER INDEX hookrow_notifications_pkey RENAME TO hookrow_before_pkey;
ALTER INDEX hookrow_notifications_fingerprint RENAME TO hookrow_before_fingerprint;
ALTER INDEX hookrow_notifications_parked_retry_at RENAME TO hookrow_before_parked_retry_at;
ALTER INDEX hookrow_notifications_parked_message_id RENAME TO hookrow_before_parked_message_id;
CREATE TABLE hookrow_notifications (
    LIKE hookrow_before INCLUDING DEFAULTS,
    CONSTRAINT hookrow_notifications_fingerprint UNIQUE (fingerprint)
) PARTITION BY RANGE (fingerprint);
CREATE INDEX hookrow_notifications_id ON hookrow_notifications (id);
CREATE INDEX hookrow_notifications_parked_retry_at
    ON hookrow_notifications (retry_at) WHERE retry_at IS NOT NULL;
CREATE INDEX hookrow_notifications_parked_message_id
    ON hookrow_notifications (message_id) WHERE retry_at IS NOT NULL;
ALTER SEQUENCE hookrow_notifications_id_seq OWNED BY hookrow_notifications.id;
DO $$
DECLARE
    next date := date_trunc('month', now() AT TIME ZONE 'UTC') + interval '1 month';
BEGIN
    EXECUTE format(
        'ALTER TABLE hookrow_notifications ATTACH PARTITION hookrow_before'
        ' FOR VALUES FROM (MINVALUE) TO (%L)', hookrow_from(next)
    );
    PERFORM hookrow_partition(next);
    PERFORM hookrow_partition((next + interval '1 month')::date);
END $$;
CREATE TABLE hookrow_notifications_rest PARTITION OF hookrow_notifications DEFAULT;
COMMIT;
