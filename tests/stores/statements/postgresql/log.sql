-- bounds
SELECT (SELECT min(id) FROM "hookrow_notifications"), (SELECT max(id) FROM "hookrow_notifications");

-- the first id since a time
SELECT received_at, ended_at FROM "hookrow_notifications" WHERE id >= %s ORDER BY id LIMIT 1;

-- newest
SELECT id, octet_length(body) FROM "hookrow_notifications" WHERE id BETWEEN %s AND %s ORDER BY id DESC LIMIT 10;

-- newest
SELECT fingerprint, record_type, message_id, recipient, occurred_at, outcome, status, attempts, received_at, last_received_at, ended_at, retry_at, body, reason, provider, source, trace_id, entry, change_number, id, first_outcome, retries FROM "hookrow_notifications" WHERE id = ANY(%s::bigint[]);

-- newest without bodies
SELECT fingerprint, record_type, message_id, recipient, occurred_at, outcome, status, attempts, received_at, last_received_at, ended_at, retry_at, NULL, reason, provider, source, trace_id, entry, change_number, id, first_outcome, retries FROM "hookrow_notifications" WHERE id BETWEEN %s AND %s ORDER BY id DESC LIMIT 10;

-- newest by every condition
SELECT id, octet_length(body) FROM "hookrow_notifications" WHERE id + 0 BETWEEN %s AND %s AND outcome = %s AND first_outcome = %s AND reason = %s AND record_type = %s AND recipient = %s AND message_id = %s AND entry = %s AND id = ANY(%s::bigint[]) AND received_at >= %s AND received_at < %s AND retry_at IS NOT NULL AND retry_at IS NULL AND body IS NOT NULL AND outcome IN ('dispatch_not_found', 'failed', 'recipient_mismatch', 'subscriber_not_found') AND (record_type = 'SubscriptionChange' OR reason IS NOT NULL) AND outcome IN ('dispatch_not_found', 'recipient_mismatch', 'recorded', 'unmapped') AND attempts > 0 AND provider IS NOT NULL ORDER BY id + 0 DESC LIMIT 10;

-- newest changes of a person
SELECT id, octet_length(body) FROM "hookrow_notifications" WHERE id BETWEEN %s AND %s AND recipient = %s AND (record_type = 'SubscriptionChange' OR reason IS NOT NULL) AND outcome IN ('dispatch_not_found', 'recipient_mismatch', 'recorded', 'unmapped') ORDER BY id DESC LIMIT 10;

-- oldest
SELECT id, octet_length(body) FROM "hookrow_notifications" WHERE id BETWEEN %s AND %s ORDER BY id LIMIT 10;

-- oldest of other types
SELECT id, octet_length(body) FROM "hookrow_notifications" WHERE id BETWEEN %s AND %s AND (record_type IS NULL OR record_type NOT IN (%s, %s, %s, %s, %s, %s)) ORDER BY id LIMIT 10;

-- count
SELECT count(*) FROM (SELECT 1 FROM "hookrow_notifications" WHERE true LIMIT 10) AS found;

-- parked entries of messages
SELECT id, octet_length(body) FROM "hookrow_notifications" WHERE message_id IN (%s, %s) AND retry_at IS NOT NULL AND id > %s ORDER BY id;

-- hopeful entries
SELECT set_config('plan_cache_mode', 'force_custom_plan', true);

-- hopeful entries
SELECT n.retry_at, n.id FROM "hookrow_notifications" AS n WHERE n.retry_at IS NOT NULL AND (n.retry_at, n.id) > (%s, %s) ORDER BY n.retry_at, n.id LIMIT 1 OFFSET 1;

-- hopeful entries
SELECT n.id FROM "hookrow_notifications" AS n WHERE n.retry_at IS NOT NULL AND (n.retry_at <= %s OR n.retry_at > %s) AND coalesce(n.entry, '') || ' ' || coalesce(n.provider, '') = ANY(%s::text[]) AND n.retry_at IS NOT NULL AND (n.retry_at, n.id) > (%s, %s) AND (n.retry_at, n.id) <= (%s, %s) AND n.outcome IN ('dispatch_not_found', 'recipient_mismatch', 'subscriber_not_found') AND (
    EXISTS (SELECT 1 FROM "hookrow_dispatches" AS d CROSS JOIN "hookrow_subscribers" AS s
        WHERE d."provider_message_id" = (n.message_id)::character varying AND s."id" = d."subscriber_id" AND lower(s."email" COLLATE "C") = n.recipient)
    OR ((n.reason IS NOT NULL OR n.record_type = 'SubscriptionChange')
        AND n.outcome = 'subscriber_not_found'
        AND EXISTS (SELECT 1 FROM "hookrow_subscribers" AS s WHERE lower(s."email" COLLATE "C") = n.recipient))
) ORDER BY n.id;

-- due entries, FAILING
SELECT n.id FROM "hookrow_notifications" AS n WHERE n.retry_at IS NOT NULL AND (n.retry_at <= %s OR n.retry_at > %s) AND coalesce(n.entry, '') || ' ' || coalesce(n.provider, '') = ANY(%s::text[]) AND n.outcome IN ('failed', 'recipient_mismatch') ORDER BY CAST(floor(date_part('epoch', n.retry_at)) AS bigint) - CAST(floor(date_part('epoch', n.received_at)) AS bigint), n.id LIMIT 10;

-- due entries, MISSING
SELECT n.id FROM "hookrow_notifications" AS n WHERE n.retry_at IS NOT NULL AND (n.retry_at <= %s OR n.retry_at > %s) AND coalesce(n.entry, '') || ' ' || coalesce(n.provider, '') = ANY(%s::text[]) AND n.outcome IN ('dispatch_not_found', 'subscriber_not_found') ORDER BY n.received_at DESC, n.id LIMIT 10;

-- take
SELECT id, octet_length(body) FROM "hookrow_notifications" WHERE id = ANY(%s::bigint[]) AND (retry_at <= %s OR retry_at > %s) ORDER BY id FOR UPDATE SKIP LOCKED;

-- take
UPDATE "hookrow_notifications" SET retry_at = %s, retries = retries + 1 WHERE id = %s;

-- count retries
UPDATE "hookrow_notifications" SET retries = retries + 1 WHERE id = ANY(%s::bigint[]);

-- expire
UPDATE "hookrow_notifications" SET retry_at = NULL WHERE id = ANY(ARRAY(SELECT n.id FROM "hookrow_notifications" AS n WHERE n.retry_at IS NOT NULL AND (n.retry_at <= %s OR n.retry_at > %s) AND coalesce(n.entry, '') || ' ' || coalesce(n.provider, '') = ANY(%s::text[]) AND n.received_at < %s AND n.outcome IN ('dispatch_not_found', 'subscriber_not_found') LIMIT 1000 FOR UPDATE SKIP LOCKED));

-- the backlog
SELECT count(*), min(CASE WHEN retry_at <= %s THEN retry_at END) FROM "hookrow_notifications" WHERE retry_at IS NOT NULL;

-- the backlog
SELECT count(*) FROM (SELECT 1 FROM "hookrow_notifications" WHERE true AND retry_at IS NULL AND body IS NOT NULL AND outcome IN ('dispatch_not_found', 'failed', 'recipient_mismatch', 'subscriber_not_found') LIMIT 100000) AS found;

-- the backlog of an entry
SELECT count(*), min(CASE WHEN retry_at <= %s THEN retry_at END) FROM "hookrow_notifications" WHERE retry_at IS NOT NULL AND entry = %s;

-- the backlog of an entry
SELECT count(*) FROM (SELECT 1 FROM "hookrow_notifications" WHERE true AND entry = %s AND retry_at IS NULL AND body IS NOT NULL AND outcome IN ('dispatch_not_found', 'failed', 'recipient_mismatch', 'subscriber_not_found') LIMIT 100000) AS found;

-- entries that wait, by origin
SELECT entry, provider, count(retry_at), min(CASE WHEN retry_at <= %s THEN retry_at END), count(CASE WHEN retry_at IS NULL THEN 1 END), count(CASE WHEN retry_at IS NULL AND outcome IN ('subscriber_not_found') THEN 1 END) FROM (SELECT entry, provider, retry_at, outcome FROM "hookrow_notifications" WHERE retry_at IS NOT NULL UNION ALL SELECT * FROM (SELECT entry, provider, retry_at, outcome FROM "hookrow_notifications" WHERE true AND retry_at IS NULL AND body IS NOT NULL AND outcome IN ('dispatch_not_found', 'failed', 'recipient_mismatch', 'subscriber_not_found') AND NOT (outcome IN ('subscriber_not_found') AND (recipient IS NULL OR recipient = '')) LIMIT 100000) AS expired) AS waiting GROUP BY entry, provider;

-- count a chunk by hour

WITH RECURSIVE found AS (
    SELECT attnum, attname, atttypid AS type, atttypmod AS mod, attnotnull AS filled,
        attgenerated <> '' AS generated,
        atthasdef OR attidentity <> '' OR relkind = 'v' AS defaults,
        has_column_privilege(attrelid, attnum, 'SELECT') AS selects,
        has_column_privilege(attrelid, attnum, 'UPDATE') AS updates,
        coalesce(NOT collisdeterministic, false) AS lenient,
        format_type(atttypid, atttypmod) || CASE WHEN attcollation <> typcollation
            THEN ' COLLATE ' || attcollation::regcollation::text ELSE '' END AS declared
    FROM pg_attribute JOIN pg_class AS c ON c.oid = attrelid JOIN pg_type AS d ON d.oid = atttypid
    LEFT JOIN pg_collation AS l ON l.oid = attcollation
    WHERE c.oid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped
    UNION ALL
    SELECT attnum, attname, typbasetype, typtypmod, filled OR typnotnull, generated,
        defaults OR typdefault IS NOT NULL, selects, updates, lenient, declared
    FROM found JOIN pg_type ON oid = found.type WHERE typtype = 'd'
)
SELECT attname, format_type(t.oid, -1), format_type(t.oid, mod), typcategory::text, NOT filled,
    generated, defaults, mod,
    ARRAY(SELECT enumlabel::text FROM pg_enum WHERE enumtypid = t.oid ORDER BY enumsortorder),
    declared, lenient, selects, updates
FROM found JOIN pg_type AS t ON t.oid = found.type WHERE typtype <> 'd' ORDER BY attnum
;

-- count a chunk by hour
SELECT p FROM unnest(%s::text[]) AS p WHERE NOT coalesce(has_table_privilege(to_regclass(%s), p), false);

-- count a chunk by hour
SELECT current_setting('transaction_isolation');

-- count a chunk by hour
SELECT pg_try_advisory_xact_lock(%s);

-- count a chunk by hour
INSERT INTO "hookrow_meta" AS kept (name, value)
VALUES (%s, %s)
ON CONFLICT (name) DO NOTHING;

-- count a chunk by hour
SELECT name, value FROM "hookrow_meta" WHERE name IN (%s, %s, %s) ORDER BY name DESC FOR UPDATE;

-- count a chunk by hour
SELECT coalesce(max(id), 0) FROM "hookrow_notifications";

-- count a chunk by hour

SELECT CASE WHEN name <> '' THEN coalesce(pg_sequence_last_value(name::regclass), 0) END
FROM pg_get_serial_sequence(%s, 'id') AS name
;

-- count a chunk by hour

WITH RECURSIVE tree(id) AS (
    SELECT to_regclass(%s)::oid
    UNION SELECT inhrelid FROM pg_inherits JOIN tree ON inhparent = id
), writers AS (
    SELECT DISTINCT virtualtransaction FROM pg_locks
    WHERE locktype = 'relation' AND relation IN (SELECT id FROM tree)
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND mode = 'RowExclusiveLock' AND pid IS DISTINCT FROM pg_backend_pid()
)
SELECT CAST(extract(epoch FROM pg_postmaster_start_time()) AS text),
    ARRAY(SELECT virtualtransaction FROM writers)
;

-- count a chunk by hour
INSERT INTO "hookrow_meta" AS kept (name, value)
VALUES (%s, %s)
ON CONFLICT (name) DO UPDATE SET
value = excluded.value;

-- count a chunk by hour
SELECT id FROM "hookrow_notifications" WHERE first_outcome <> 'recorded' AND outcome = 'recorded' AND recovery_counted IS NULL AND id <= coalesce((SELECT CAST(value AS bigint) FROM "hookrow_meta" WHERE name = 'hours_watermark'), 0) ORDER BY id LIMIT 5000 FOR UPDATE SKIP LOCKED;

-- count the next chunk
SELECT min(id) FROM "hookrow_notifications" WHERE id > %s AND id <= %s;

-- count the next chunk
INSERT INTO "hookrow_hours" AS kept (hour, record_type, reason, first_outcome, entry, entries, recovered)
SELECT timezone('UTC', date_trunc('hour', timezone('UTC', received_at))), CASE WHEN record_type IN ('Bounce', 'Click', 'Delivery', 'Open', 'SpamComplaint', 'SubscriptionChange') THEN record_type ELSE 'other' END, CASE WHEN reason IS NULL THEN '' WHEN reason IN ('HardBounce', 'ManualSuppression', 'SpamComplaint') THEN reason ELSE 'other' END, first_outcome, coalesce(entry, ''), count(*), 0 FROM "hookrow_notifications" WHERE id > %s AND id <= %s GROUP BY date_trunc('hour', timezone('UTC', received_at)), 2, 3, 4, 5
ON CONFLICT (hour, record_type, reason, first_outcome, entry) DO UPDATE SET
entries = kept.entries + excluded.entries,
recovered = kept.recovered + excluded.recovered;

-- counts by hour
SELECT CASE WHEN received_at >= %s THEN CAST(floor(date_part('epoch', received_at)) AS bigint) / 3600 END, CASE WHEN record_type IN ('Bounce', 'Click', 'Delivery', 'Open', 'SpamComplaint', 'SubscriptionChange') THEN record_type ELSE 'other' END, CASE WHEN reason IS NULL THEN '' WHEN reason IN ('HardBounce', 'ManualSuppression', 'SpamComplaint') THEN reason ELSE 'other' END, first_outcome, coalesce(entry, ''), count(*), count(CASE WHEN first_outcome <> 'recorded' AND outcome = 'recorded' THEN 1 END), CAST(floor(date_part('epoch', min(ended_at))) AS bigint) FROM (SELECT received_at, ended_at, record_type, reason, outcome, first_outcome, entry FROM "hookrow_notifications" WHERE id > coalesce((SELECT CAST(value AS bigint) FROM "hookrow_meta" WHERE name = 'hours_watermark'), 0) ORDER BY id DESC LIMIT 100000) AS entries GROUP BY 1, 2, 3, 4, 5 UNION ALL SELECT CAST(floor(date_part('epoch', hour)) AS bigint) / 3600, record_type, reason, first_outcome, entry, CAST(sum(entries) AS bigint), CAST(sum(recovered) AS bigint), NULL FROM "hookrow_hours" WHERE hour >= %s AND first_outcome NOT IN ('missing secret', 'wrong secret', 'expired', 'old secret', 'unavailable') GROUP BY 1, 2, 3, 4, 5 UNION ALL SELECT CASE WHEN received_at >= %s THEN CAST(floor(date_part('epoch', received_at)) AS bigint) / 3600 END, CASE WHEN record_type IN ('Bounce', 'Click', 'Delivery', 'Open', 'SpamComplaint', 'SubscriptionChange') THEN record_type ELSE 'other' END, CASE WHEN reason IS NULL THEN '' WHEN reason IN ('HardBounce', 'ManualSuppression', 'SpamComplaint') THEN reason ELSE 'other' END, first_outcome, coalesce(entry, ''), 0, count(*), NULL FROM (SELECT received_at, ended_at, record_type, reason, outcome, first_outcome, entry FROM "hookrow_notifications" WHERE first_outcome <> 'recorded' AND outcome = 'recorded' AND recovery_counted IS NULL AND id <= coalesce((SELECT CAST(value AS bigint) FROM "hookrow_meta" WHERE name = 'hours_watermark'), 0) ORDER BY id DESC LIMIT 10000) AS entries GROUP BY 1, 2, 3, 4, 5;

-- counts by minute
SELECT CASE WHEN received_at >= %s THEN CAST(floor(date_part('epoch', received_at)) AS bigint) / 60 END, CASE WHEN record_type IN ('Bounce', 'Click', 'Delivery', 'Open', 'SpamComplaint', 'SubscriptionChange') THEN record_type ELSE 'other' END, CASE WHEN reason IS NULL THEN '' WHEN reason IN ('HardBounce', 'ManualSuppression', 'SpamComplaint') THEN reason ELSE 'other' END, first_outcome, coalesce(entry, ''), count(*), count(CASE WHEN first_outcome <> 'recorded' AND outcome = 'recorded' THEN 1 END), CAST(floor(date_part('epoch', min(ended_at))) AS bigint) FROM (SELECT received_at, ended_at, record_type, reason, outcome, first_outcome, entry FROM "hookrow_notifications" WHERE id > %s ORDER BY id DESC LIMIT 100000) AS entries GROUP BY 1, 2, 3, 4, 5;

-- recent entries
SELECT outcome, record_type, entry, count(*), max(last_received_at) FROM (SELECT outcome, record_type, entry, last_received_at FROM "hookrow_notifications" ORDER BY id DESC LIMIT 10) AS newest GROUP BY 1, 2, 3;

-- those of an entry
SELECT outcome, record_type, entry, count(*), max(last_received_at) FROM (SELECT outcome, record_type, entry, last_received_at FROM "hookrow_notifications" WHERE id > (SELECT max(id) FROM "hookrow_notifications") - 100000 AND entry = %s ORDER BY id DESC LIMIT 10) AS newest GROUP BY 1, 2, 3;

-- deliveries
SELECT message_id, occurred_at FROM "hookrow_notifications" WHERE id > (SELECT max(id) FROM "hookrow_notifications") - 100000 AND record_type = 'Delivery' AND outcome = 'recorded' AND message_id IS NOT NULL AND occurred_at IS NOT NULL AND received_at >= %s ORDER BY id DESC LIMIT 10;

-- deliveries of an entry
SELECT message_id, occurred_at FROM "hookrow_notifications" WHERE id > (SELECT max(id) FROM "hookrow_notifications") - 100000 AND record_type = 'Delivery' AND outcome = 'recorded' AND message_id IS NOT NULL AND occurred_at IS NOT NULL AND received_at >= %s AND entry = %s ORDER BY id DESC LIMIT 10;

-- add requests
INSERT INTO "hookrow_hours" AS kept (hour, record_type, reason, first_outcome, entry, entries, recovered)
VALUES (%s, '', '', %s, %s, %s, 0), (%s, '', '', %s, %s, %s, 0), (%s, '', '', %s, %s, %s, 0), (%s, '', '', %s, %s, %s, 0), (%s, '', '', %s, %s, %s, 0)
ON CONFLICT (hour, record_type, reason, first_outcome, entry) DO UPDATE SET
entries = kept.entries + excluded.entries,
recovered = kept.recovered + excluded.recovered;

-- requests
SELECT first_outcome, entry, CAST(sum(entries) AS bigint) AS number, min(hour), max(hour) FROM "hookrow_hours" WHERE hour >= %s AND first_outcome IN ('missing secret', 'wrong secret', 'expired', 'old secret', 'unavailable') GROUP BY first_outcome, entry ORDER BY number DESC, entry;

-- what can be pruned
SELECT count(CASE WHEN last_received_at < %s AND (retry_at IS NULL OR received_at < %s) AND id < (SELECT max(id) FROM "hookrow_notifications") THEN 1 END), count(CASE WHEN last_received_at < %s AND body IS NOT NULL AND NOT outcome IN ('dispatch_not_found', 'failed', 'recipient_mismatch', 'subscriber_not_found') AND NOT (last_received_at < %s AND (retry_at IS NULL OR received_at < %s) AND id < (SELECT max(id) FROM "hookrow_notifications")) THEN 1 END) FROM "hookrow_notifications";

-- prune bodies
UPDATE "hookrow_notifications" SET body = NULL WHERE last_received_at < %s AND body IS NOT NULL AND NOT outcome IN ('dispatch_not_found', 'failed', 'recipient_mismatch', 'subscriber_not_found') AND id BETWEEN %s AND %s;

-- prune bodies
SELECT min(received_at) FROM "hookrow_notifications" WHERE id BETWEEN %s AND %s;

-- prune
SELECT coalesce((SELECT CAST(value AS bigint) FROM "hookrow_meta" WHERE name = 'hours_watermark'), 0), (SELECT coalesce(max(id), 0) FROM "hookrow_notifications");

-- prune

SELECT nspname, relname FROM pg_class AS c
JOIN pg_namespace AS n ON n.oid = relnamespace WHERE c.oid = to_regclass(%s)
;

-- prune
SELECT name, value FROM "hookrow_meta" WHERE name IN (%s, %s) ORDER BY name FOR UPDATE;

-- prune
SELECT min(change_number), max(change_number) FROM "hookrow_notifications" WHERE last_received_at < %s AND (retry_at IS NULL OR received_at < %s) AND id <= %s AND NOT (first_outcome <> 'recorded' AND outcome = 'recorded' AND recovery_counted IS NULL) AND id BETWEEN %s AND %s;

-- prune
DELETE FROM "hookrow_notifications" WHERE last_received_at < %s AND (retry_at IS NULL OR received_at < %s) AND id <= %s AND NOT (first_outcome <> 'recorded' AND outcome = 'recorded' AND recovery_counted IS NULL) AND id BETWEEN %s AND %s AND (change_number IS NULL OR change_number > 0);

-- changes
SELECT id, change_number FROM "hookrow_notifications" WHERE change_number > %s ORDER BY change_number LIMIT 10;

-- changes
SELECT name, value FROM "hookrow_meta" WHERE name IN (%s, %s) ORDER BY name ;

-- changes
SELECT id FROM "hookrow_notifications" WHERE change_number < 1 ORDER BY change_number, id LIMIT 1;

-- changes
SELECT id FROM "hookrow_notifications" WHERE change_number < 1 ORDER BY change_number, id LIMIT 1000 FOR UPDATE SKIP LOCKED;

-- changes
UPDATE "hookrow_notifications" SET change_number = id + 0 WHERE id = ANY(%s::bigint[]);

-- changes
SELECT id, octet_length(body) FROM "hookrow_notifications" WHERE id = ANY(%s::bigint[]) ORDER BY change_number;

-- forget
UPDATE "hookrow_notifications" SET recipient = NULL, body = NULL, reason = NULL, retry_at = NULL WHERE recipient = %s AND id BETWEEN %s AND %s;

-- forget
SELECT id, octet_length(body) FROM "hookrow_notifications" WHERE (lower(body COLLATE "C") LIKE %s ESCAPE '!' OR body LIKE %s ESCAPE '!' OR body LIKE %s ESCAPE '!' OR body LIKE %s ESCAPE '!' OR body ~ '[^\x01-\x7F]') AND id BETWEEN %s AND %s ORDER BY id;

-- forget in an entry
UPDATE "hookrow_notifications" SET recipient = NULL, body = NULL, reason = NULL, retry_at = NULL WHERE recipient = %s AND entry = ANY(%s::text[]) AND id BETWEEN %s AND %s;

-- forget in an entry
SELECT id, octet_length(body) FROM "hookrow_notifications" WHERE (lower(body COLLATE "C") LIKE %s ESCAPE '!' OR body LIKE %s ESCAPE '!' OR body LIKE %s ESCAPE '!' OR body LIKE %s ESCAPE '!' OR body ~ '[^\x01-\x7F]') AND entry = ANY(%s::text[]) AND id BETWEEN %s AND %s ORDER BY id;
