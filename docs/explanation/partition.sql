-- Partitions the log by month, once. Receivers continue meanwhile, except during the last step.
-- Run `psql --file partition.sql` as the owner of the log, on PostgreSQL 13 or later. If it fails,
-- run it again before the month ends, or cancel it as docs/explanation/performance.md describes.

\set ON_ERROR_STOP on

DO $$
DECLARE
    kind text;
    owner name;
BEGIN
    SELECT relkind, pg_get_userbyid(relowner) INTO kind, owner
    FROM pg_class WHERE oid = 'hookrow_notifications'::regclass;
    IF kind = 'p' THEN
        RAISE 'The log is already partitioned.';
    ELSIF owner <> current_user THEN
        RAISE 'The log and its partitions must have the same owner: run SET ROLE % first.',
            quote_ident(owner);
    END IF;
END $$;

-- A fingerprint begins with the second of its event, so that a month is a range of fingerprints.
CREATE OR REPLACE FUNCTION hookrow_from(month date) RETURNS bytea LANGUAGE sql STABLE AS
$$ SELECT substring(int8send(extract(epoch FROM month::timestamp)::bigint) FROM 5) $$;

-- Creates the partition of a month. Call it some days before the month begins.
CREATE OR REPLACE FUNCTION hookrow_partition(month date) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format(
        'CREATE TABLE %I PARTITION OF hookrow_notifications FOR VALUES FROM (%L) TO (%L) WITH ('
        ' autovacuum_vacuum_scale_factor = 0.01,'
        ' autovacuum_vacuum_insert_scale_factor = 0.05,'
        ' autovacuum_vacuum_cost_delay = 0)',
        to_char(month, '"hookrow_notifications_"YYYY_MM'),
        hookrow_from(month), hookrow_from((month + interval '1 month')::date)
    );
END $$;

-- The current table is attached without building an index or reading its rows if it already has
-- the index on id of the other partitions, and a validated constraint on the fingerprint. An invalid
-- index of an earlier run is rebuilt, and so is the constraint, because the month may have changed.
DO $$ BEGIN
    SET LOCAL lock_timeout = '1s';
    IF EXISTS (
        SELECT FROM pg_index
        WHERE indexrelid = to_regclass('hookrow_before_id') AND NOT indisvalid
    ) THEN
        DROP INDEX hookrow_before_id;
    END IF;
END $$;

CREATE INDEX CONCURRENTLY IF NOT EXISTS hookrow_before_id ON hookrow_notifications (id);

DO $$ BEGIN
    SET LOCAL lock_timeout = '1s';
    ALTER TABLE hookrow_notifications DROP CONSTRAINT IF EXISTS hookrow_before;
    EXECUTE format(
        'ALTER TABLE hookrow_notifications ADD CONSTRAINT hookrow_before'
        ' CHECK (fingerprint < %L) NOT VALID',
        hookrow_from((date_trunc('month', now() AT TIME ZONE 'UTC') + interval '1 month')::date)
    );
END $$;

ALTER TABLE hookrow_notifications VALIDATE CONSTRAINT hookrow_before;

-- The last step blocks the receivers for some milliseconds. It is one transaction.
BEGIN;
SET LOCAL lock_timeout = '1s';
ALTER TABLE hookrow_notifications RENAME TO hookrow_before;
ALTER INDEX hookrow_notifications_pkey RENAME TO hookrow_before_pkey;
ALTER INDEX hookrow_notifications_fingerprint RENAME TO hookrow_before_fingerprint;
ALTER INDEX hookrow_parked RENAME TO hookrow_before_parked;
ALTER INDEX hookrow_parked_message_id RENAME TO hookrow_before_parked_message_id;
ALTER INDEX hookrow_notifications_changes RENAME TO hookrow_before_changes;
ALTER INDEX hookrow_recoveries RENAME TO hookrow_before_recoveries;
ALTER INDEX hookrow_expired RENAME TO hookrow_before_expired;
ALTER INDEX hookrow_change_numbers RENAME TO hookrow_before_change_numbers;
CREATE TABLE hookrow_notifications (
    LIKE hookrow_before INCLUDING DEFAULTS,
    CONSTRAINT hookrow_notifications_fingerprint UNIQUE (fingerprint)
) PARTITION BY RANGE (fingerprint);
CREATE INDEX hookrow_notifications_id ON hookrow_notifications (id);
CREATE INDEX hookrow_parked
    ON hookrow_notifications (retry_at, id) WHERE retry_at IS NOT NULL;
CREATE INDEX hookrow_parked_message_id
    ON hookrow_notifications (message_id) WHERE retry_at IS NOT NULL;
CREATE INDEX hookrow_notifications_changes
    ON hookrow_notifications (recipient)
    WHERE record_type = 'SubscriptionChange' OR reason IS NOT NULL;
CREATE INDEX hookrow_recoveries
    ON hookrow_notifications (id)
    WHERE first_outcome <> 'recorded' AND outcome = 'recorded' AND recovery_counted IS NULL;
CREATE INDEX hookrow_expired
    ON hookrow_notifications (id)
    WHERE retry_at IS NULL AND body IS NOT NULL AND outcome IN
        ('dispatch_not_found', 'failed', 'recipient_mismatch', 'subscriber_not_found');
CREATE INDEX hookrow_change_numbers
    ON hookrow_notifications (change_number, id) WHERE change_number IS NOT NULL;
ALTER SEQUENCE hookrow_notifications_id_seq OWNED BY hookrow_notifications.id;
DO $$
DECLARE
    next date := date_trunc('month', now() AT TIME ZONE 'UTC') + interval '1 month';
    privilege text;
BEGIN
    EXECUTE format(
        'ALTER TABLE hookrow_notifications ATTACH PARTITION hookrow_before'
        ' FOR VALUES FROM (MINVALUE) TO (%L)', hookrow_from(next)
    );
    PERFORM hookrow_partition(next);
    PERFORM hookrow_partition((next + interval '1 month')::date);
    -- Copy the privileges on the log and on its columns.
    FOR privilege IN
        SELECT format(
            'GRANT %s %s ON hookrow_notifications TO %s %s',
            privilege_type, columns,
            CASE grantee WHEN 0 THEN 'PUBLIC' ELSE grantee::regrole::text END,
            CASE WHEN is_grantable THEN 'WITH GRANT OPTION' END
        )
        FROM (
            SELECT '' AS columns, relacl AS acl
            FROM pg_class WHERE oid = 'hookrow_before'::regclass
            UNION ALL
            SELECT format('(%I)', attname), attacl
            FROM pg_attribute WHERE attrelid = 'hookrow_before'::regclass
        ) AS given, aclexplode(acl)
    LOOP
        EXECUTE privilege;
    END LOOP;
END $$;
CREATE TABLE hookrow_notifications_rest PARTITION OF hookrow_notifications DEFAULT;
COMMIT;
