-- find owners
SELECT o."id", o."email"::text, d."provider_message_id", d."id", NULL
FROM "mails" AS d
LEFT JOIN "people" AS o ON o."id" = d."subscriber_id"
WHERE d."provider_message_id" = ANY(%s::text[]);

-- find
SELECT s."id", s."email"::text, NULL, NULL, NULL
FROM "people" AS s
WHERE s."email" = ANY(%s::citext[])
UNION ALL
SELECT o."id", o."email"::text, d."provider_message_id", d."id", NULL
FROM "mails" AS d
LEFT JOIN "people" AS o ON o."id" = d."subscriber_id"
WHERE d."provider_message_id" = ANY(%s::text[]);

-- read subscribers
SELECT s."id", s."suppressed_at"
FROM unnest(%s::uuid[]) AS given(key_0), "people" AS s
WHERE s."id" = given.key_0;

-- lock subscribers
SELECT s."id"
FROM "people" AS s
WHERE s."id" = ANY(%s::uuid[])
ORDER BY s."id" FOR NO KEY UPDATE OF s;

-- lock subscribers, skipping locked rows
SELECT s."id"
FROM "people" AS s
WHERE s."id" = ANY(%s::uuid[])
ORDER BY s."id" FOR NO KEY UPDATE OF s SKIP LOCKED;

-- read dispatches
SELECT d."id", d."delivered_at", d."opened_at"
FROM unnest(%s::bigint[]) AS given(key_0), "mails" AS d
WHERE d."id" = given.key_0;

-- lock dispatches
SELECT d."id"
FROM "mails" AS d
WHERE d."id" = ANY(%s::bigint[])
ORDER BY d."id" FOR NO KEY UPDATE OF d;

-- lock dispatches, skipping locked rows
SELECT d."id"
FROM "mails" AS d
WHERE d."id" = ANY(%s::bigint[])
ORDER BY d."id" FOR NO KEY UPDATE OF d SKIP LOCKED;

-- set delivered_at
UPDATE "mails" AS d SET "delivered_at" = given.delivered_at
FROM unnest(%s::bigint[], %s::timestamp with time zone[]) AS given(key_0, delivered_at)
WHERE d."id" = given.key_0;

-- set delivered_at late
UPDATE "mails" AS d SET "delivered_at" = given.delivered_at
FROM unnest(%s::bigint[], %s::timestamp with time zone[]) AS given(key_0, delivered_at)
WHERE d."id" = given.key_0 AND (d."delivered_at" IS NULL OR d."delivered_at" < given.delivered_at);

-- set opened_at
UPDATE "mails" AS d SET "opened_at" = given.opened_at
FROM unnest(%s::bigint[], %s::timestamp with time zone[]) AS given(key_0, opened_at)
WHERE d."id" = given.key_0;

-- set opened_at late
UPDATE "mails" AS d SET "opened_at" = given.opened_at
FROM unnest(%s::bigint[], %s::timestamp with time zone[]) AS given(key_0, opened_at)
WHERE d."id" = given.key_0 AND (d."opened_at" IS NULL OR d."opened_at" < given.opened_at);

-- date the suppression of subscribers
INSERT INTO "hookrow_suppression_changes" AS kept (role, row_key, changed_at)
SELECT 'subscribers' AS role, given.row_key, given.suppression_changed_at
FROM unnest(%s::uuid[], %s::text[], %s::timestamp with time zone[]) AS given(key_0, row_key, suppression_changed_at)
WHERE EXISTS (SELECT 1 FROM "people" AS s WHERE s."id" = given.key_0)
ORDER BY role, row_key
ON CONFLICT (role, row_key) DO UPDATE SET
changed_at = greatest(kept.changed_at, excluded.changed_at);

-- set the suppression of subscribers
UPDATE "people" AS s SET "suppressed_at" = given.suppressed_at
FROM unnest(%s::uuid[], %s::timestamp with time zone[], %s::text[], %s::timestamp with time zone[]) AS given(key_0, suppressed_at, row_key, suppression_changed_at)
WHERE s."id" = given.key_0
AND EXISTS (SELECT 1 FROM "hookrow_suppression_changes" AS dated WHERE dated.role = 'subscribers'
    AND dated.row_key = given.row_key AND dated.changed_at <= given.suppression_changed_at);

-- read the dates of subscribers
SELECT row_key, changed_at FROM "hookrow_suppression_changes" WHERE role = 'subscribers' AND row_key = ANY(%s::text[]);

-- add entries to the log
INSERT INTO "hookrow_notifications" AS kept (fingerprint, record_type, message_id, recipient, occurred_at, outcome, status, attempts, received_at, last_received_at, ended_at, retry_at, body, reason, provider, source, trace_id, entry, change_number, first_outcome)
SELECT decode(fingerprint, 'base64'), record_type, message_id, recipient, occurred_at, outcome, status, attempts, received_at, last_received_at, ended_at, retry_at, body, reason, provider, source, trace_id, entry, change_number, outcome
FROM json_to_recordset(%s::json) AS given(fingerprint text, record_type text, message_id text, recipient text, occurred_at timestamptz, outcome text, status smallint, attempts bigint, received_at timestamptz, last_received_at timestamptz, ended_at timestamptz, retry_at timestamptz, body text, reason text, provider text, source text, trace_id text, entry text, change_number bigint)
WHERE true
ON CONFLICT (fingerprint) DO UPDATE SET
ended_at = CASE WHEN kept.outcome = 'recorded' AND excluded.outcome = kept.outcome THEN kept.ended_at ELSE excluded.ended_at END,
source = CASE WHEN kept.outcome = 'recorded' AND excluded.outcome = kept.outcome THEN kept.source ELSE excluded.source END,
outcome = excluded.outcome,
status = excluded.status,
retry_at = excluded.retry_at,
recipient = CASE WHEN excluded.attempts > 0 THEN coalesce(kept.recipient, excluded.recipient) ELSE kept.recipient END,
body = CASE WHEN excluded.attempts > 0 THEN coalesce(kept.body, excluded.body) ELSE kept.body END,
reason = CASE WHEN excluded.attempts > 0 THEN coalesce(kept.reason, excluded.reason) ELSE kept.reason END,
provider = CASE WHEN excluded.attempts > 0 THEN coalesce(kept.provider, excluded.provider) ELSE kept.provider END,
trace_id = CASE WHEN excluded.attempts > 0 THEN coalesce(kept.trace_id, excluded.trace_id) ELSE kept.trace_id END,
attempts = kept.attempts + excluded.attempts,
change_number = coalesce(excluded.change_number, kept.change_number),
received_at = CASE WHEN kept.received_at < excluded.received_at THEN kept.received_at ELSE excluded.received_at END,
last_received_at = CASE WHEN kept.last_received_at > excluded.last_received_at THEN kept.last_received_at ELSE excluded.last_received_at END;

-- rehearse entries of the log
INSERT INTO "hookrow_notifications" AS kept (id, fingerprint, record_type, message_id, recipient, occurred_at, outcome, status, attempts, received_at, last_received_at, ended_at, retry_at, body, reason, provider, source, trace_id, entry, change_number, first_outcome)
OVERRIDING SYSTEM VALUE
SELECT -1 - floor(random() * 2147483648)::bigint, decode(fingerprint, 'base64'), record_type, message_id, recipient, occurred_at, outcome, status, attempts, received_at, last_received_at, ended_at, retry_at, body, reason, provider, source, trace_id, entry, change_number, outcome
FROM json_to_recordset(%s::json) AS given(fingerprint text, record_type text, message_id text, recipient text, occurred_at timestamptz, outcome text, status smallint, attempts bigint, received_at timestamptz, last_received_at timestamptz, ended_at timestamptz, retry_at timestamptz, body text, reason text, provider text, source text, trace_id text, entry text, change_number bigint)
WHERE true
ON CONFLICT (fingerprint) DO UPDATE SET
ended_at = CASE WHEN kept.outcome = 'recorded' AND excluded.outcome = kept.outcome THEN kept.ended_at ELSE excluded.ended_at END,
source = CASE WHEN kept.outcome = 'recorded' AND excluded.outcome = kept.outcome THEN kept.source ELSE excluded.source END,
outcome = excluded.outcome,
status = excluded.status,
retry_at = excluded.retry_at,
recipient = CASE WHEN excluded.attempts > 0 THEN coalesce(kept.recipient, excluded.recipient) ELSE kept.recipient END,
body = CASE WHEN excluded.attempts > 0 THEN coalesce(kept.body, excluded.body) ELSE kept.body END,
reason = CASE WHEN excluded.attempts > 0 THEN coalesce(kept.reason, excluded.reason) ELSE kept.reason END,
provider = CASE WHEN excluded.attempts > 0 THEN coalesce(kept.provider, excluded.provider) ELSE kept.provider END,
trace_id = CASE WHEN excluded.attempts > 0 THEN coalesce(kept.trace_id, excluded.trace_id) ELSE kept.trace_id END,
attempts = kept.attempts + excluded.attempts,
change_number = coalesce(excluded.change_number, kept.change_number),
received_at = CASE WHEN kept.received_at < excluded.received_at THEN kept.received_at ELSE excluded.received_at END,
last_received_at = CASE WHEN kept.last_received_at > excluded.last_received_at THEN kept.last_received_at ELSE excluded.last_received_at END;

-- the condition of entries `n` that can be recorded
n.outcome IN ('dispatch_not_found', 'recipient_mismatch', 'subscriber_not_found') AND (
    EXISTS (SELECT 1 FROM "mails" AS d CROSS JOIN "people" AS s
        WHERE d."provider_message_id" = (n.message_id)::text AND s."id" = d."subscriber_id" AND s."email" = n.recipient::citext)
    OR ((n.reason IS NOT NULL OR n.record_type = 'SubscriptionChange')
        AND n.outcome = 'subscriber_not_found'
        AND EXISTS (SELECT 1 FROM "people" AS s WHERE s."email" = n.recipient::citext))
);

-- probe 1
SELECT FROM "people" WHERE 1 = 0 FOR NO KEY UPDATE;

-- probe 2
SELECT FROM "mails" WHERE 1 = 0 FOR NO KEY UPDATE;

-- probe 3
SELECT FROM "hookrow_notifications" WHERE 1 = 0 FOR NO KEY UPDATE;

-- a group of deliveries
WITH hookrow_locked_dispatches AS MATERIALIZED (
SELECT d."id"
FROM "mails" AS d
WHERE d."id" = ANY(%s::bigint[])
ORDER BY d."id" FOR NO KEY UPDATE OF d),
hookrow_changed_0 AS MATERIALIZED (
UPDATE "mails" AS d SET "delivered_at" = given.delivered_at
FROM unnest(%s::bigint[], %s::timestamp with time zone[]) AS given(key_0, delivered_at)
WHERE d."id" = given.key_0
AND (SELECT count(*) FROM hookrow_locked_dispatches) >= 0
RETURNING 1),
hookrow_changed_1 AS MATERIALIZED (
INSERT INTO "hookrow_notifications" AS kept (fingerprint, record_type, message_id, recipient, occurred_at, outcome, status, attempts, received_at, last_received_at, ended_at, retry_at, body, reason, provider, source, trace_id, entry, change_number, first_outcome)
SELECT decode(fingerprint, 'base64'), record_type, message_id, recipient, occurred_at, outcome, status, attempts, received_at, last_received_at, ended_at, retry_at, body, reason, provider, source, trace_id, entry, change_number, outcome
FROM json_to_recordset(%s::json) AS given(fingerprint text, record_type text, message_id text, recipient text, occurred_at timestamptz, outcome text, status smallint, attempts bigint, received_at timestamptz, last_received_at timestamptz, ended_at timestamptz, retry_at timestamptz, body text, reason text, provider text, source text, trace_id text, entry text, change_number bigint)
WHERE true
AND (SELECT count(*) FROM hookrow_changed_0) >= 0
ON CONFLICT (fingerprint) DO UPDATE SET
ended_at = CASE WHEN kept.outcome = 'recorded' AND excluded.outcome = kept.outcome THEN kept.ended_at ELSE excluded.ended_at END,
source = CASE WHEN kept.outcome = 'recorded' AND excluded.outcome = kept.outcome THEN kept.source ELSE excluded.source END,
outcome = excluded.outcome,
status = excluded.status,
retry_at = excluded.retry_at,
recipient = CASE WHEN excluded.attempts > 0 THEN coalesce(kept.recipient, excluded.recipient) ELSE kept.recipient END,
body = CASE WHEN excluded.attempts > 0 THEN coalesce(kept.body, excluded.body) ELSE kept.body END,
reason = CASE WHEN excluded.attempts > 0 THEN coalesce(kept.reason, excluded.reason) ELSE kept.reason END,
provider = CASE WHEN excluded.attempts > 0 THEN coalesce(kept.provider, excluded.provider) ELSE kept.provider END,
trace_id = CASE WHEN excluded.attempts > 0 THEN coalesce(kept.trace_id, excluded.trace_id) ELSE kept.trace_id END,
attempts = kept.attempts + excluded.attempts,
change_number = coalesce(excluded.change_number, kept.change_number),
received_at = CASE WHEN kept.received_at < excluded.received_at THEN kept.received_at ELSE excluded.received_at END,
last_received_at = CASE WHEN kept.last_received_at > excluded.last_received_at THEN kept.last_received_at ELSE excluded.last_received_at END
RETURNING 1)
SELECT 1 / CASE WHEN (SELECT count(*) FROM hookrow_locked_dispatches) = %s
AND (SELECT count(*) FROM hookrow_changed_0) = %s
AND (SELECT count(*) FROM hookrow_changed_1) = %s
THEN 1 ELSE 0 END;

-- a group of late deliveries
WITH hookrow_locked_dispatches AS MATERIALIZED (
SELECT d."id" AS key_0, d."delivered_at" AS delivered_at
FROM "mails" AS d
WHERE d."id" = ANY(%s::bigint[])
ORDER BY d."id" FOR NO KEY UPDATE OF d),
hookrow_given_0 AS MATERIALIZED (SELECT * FROM unnest(%s::bigint[], %s::timestamp with time zone[]) AS given(key_0, delivered_at)),
hookrow_changed_0 AS MATERIALIZED (
UPDATE "mails" AS d SET "delivered_at" = given.delivered_at
FROM hookrow_given_0 AS given
WHERE d."id" = given.key_0 AND (d."delivered_at" IS NULL OR d."delivered_at" < given.delivered_at)
AND (SELECT count(*) FROM hookrow_locked_dispatches) >= 0
RETURNING 1),
hookrow_changed_1 AS MATERIALIZED (
INSERT INTO "hookrow_notifications" AS kept (fingerprint, record_type, message_id, recipient, occurred_at, outcome, status, attempts, received_at, last_received_at, ended_at, retry_at, body, reason, provider, source, trace_id, entry, change_number, first_outcome)
SELECT decode(fingerprint, 'base64'), record_type, message_id, recipient, occurred_at, outcome, status, attempts, received_at, last_received_at, ended_at, retry_at, body, reason, provider, source, trace_id, entry, change_number, outcome
FROM json_to_recordset(%s::json) AS given(fingerprint text, record_type text, message_id text, recipient text, occurred_at timestamptz, outcome text, status smallint, attempts bigint, received_at timestamptz, last_received_at timestamptz, ended_at timestamptz, retry_at timestamptz, body text, reason text, provider text, source text, trace_id text, entry text, change_number bigint)
WHERE true
AND (SELECT count(*) FROM hookrow_changed_0) >= 0
ON CONFLICT (fingerprint) DO UPDATE SET
ended_at = CASE WHEN kept.outcome = 'recorded' AND excluded.outcome = kept.outcome THEN kept.ended_at ELSE excluded.ended_at END,
source = CASE WHEN kept.outcome = 'recorded' AND excluded.outcome = kept.outcome THEN kept.source ELSE excluded.source END,
outcome = excluded.outcome,
status = excluded.status,
retry_at = excluded.retry_at,
recipient = CASE WHEN excluded.attempts > 0 THEN coalesce(kept.recipient, excluded.recipient) ELSE kept.recipient END,
body = CASE WHEN excluded.attempts > 0 THEN coalesce(kept.body, excluded.body) ELSE kept.body END,
reason = CASE WHEN excluded.attempts > 0 THEN coalesce(kept.reason, excluded.reason) ELSE kept.reason END,
provider = CASE WHEN excluded.attempts > 0 THEN coalesce(kept.provider, excluded.provider) ELSE kept.provider END,
trace_id = CASE WHEN excluded.attempts > 0 THEN coalesce(kept.trace_id, excluded.trace_id) ELSE kept.trace_id END,
attempts = kept.attempts + excluded.attempts,
change_number = coalesce(excluded.change_number, kept.change_number),
received_at = CASE WHEN kept.received_at < excluded.received_at THEN kept.received_at ELSE excluded.received_at END,
last_received_at = CASE WHEN kept.last_received_at > excluded.last_received_at THEN kept.last_received_at ELSE excluded.last_received_at END
RETURNING 1)
SELECT 1 / CASE WHEN (SELECT count(*) FROM hookrow_locked_dispatches) = %s
AND ((SELECT count(*) FROM hookrow_changed_0) = %s OR (SELECT count(*) FROM hookrow_changed_0) = (
    SELECT count(*) FROM hookrow_given_0 AS given JOIN hookrow_locked_dispatches AS locked ON locked.key_0 = given.key_0 WHERE (locked.delivered_at IS NULL OR locked.delivered_at < given.delivered_at)))
AND (SELECT count(*) FROM hookrow_changed_1) = %s
THEN 1 ELSE 0 END;

-- a group of suppressions
WITH hookrow_locked_subscribers AS MATERIALIZED (
SELECT s."id"
FROM "people" AS s
WHERE s."id" = ANY(%s::uuid[])
ORDER BY s."id" FOR NO KEY UPDATE OF s),
hookrow_dated_subscribers AS MATERIALIZED (
INSERT INTO "hookrow_suppression_changes" AS kept (role, row_key, changed_at)
SELECT 'subscribers' AS role, given.row_key, given.suppression_changed_at
FROM unnest(%s::uuid[], %s::text[], %s::timestamp with time zone[]) AS given(key_0, row_key, suppression_changed_at)
WHERE EXISTS (SELECT 1 FROM "people" AS s WHERE s."id" = given.key_0)
AND (SELECT count(*) FROM hookrow_locked_subscribers) >= 0
ORDER BY role, row_key
ON CONFLICT (role, row_key) DO UPDATE SET
changed_at = greatest(kept.changed_at, excluded.changed_at)
RETURNING role, row_key, changed_at),
hookrow_given_1 AS MATERIALIZED (SELECT * FROM unnest(%s::uuid[], %s::timestamp with time zone[], %s::text[], %s::timestamp with time zone[]) AS given(key_0, suppressed_at, row_key, suppression_changed_at)),
hookrow_changed_1 AS MATERIALIZED (
UPDATE "people" AS s SET "suppressed_at" = given.suppressed_at
FROM hookrow_given_1 AS given
WHERE s."id" = given.key_0
AND EXISTS (SELECT 1 FROM hookrow_dated_subscribers AS dated WHERE dated.role = 'subscribers'
    AND dated.row_key = given.row_key AND dated.changed_at <= given.suppression_changed_at)
AND (SELECT count(*) FROM hookrow_dated_subscribers) >= 0
RETURNING 1),
hookrow_changed_2 AS MATERIALIZED (
INSERT INTO "hookrow_notifications" AS kept (fingerprint, record_type, message_id, recipient, occurred_at, outcome, status, attempts, received_at, last_received_at, ended_at, retry_at, body, reason, provider, source, trace_id, entry, change_number, first_outcome)
SELECT decode(fingerprint, 'base64'), record_type, message_id, recipient, occurred_at, outcome, status, attempts, received_at, last_received_at, ended_at, retry_at, body, reason, provider, source, trace_id, entry, change_number, outcome
FROM json_to_recordset(%s::json) AS given(fingerprint text, record_type text, message_id text, recipient text, occurred_at timestamptz, outcome text, status smallint, attempts bigint, received_at timestamptz, last_received_at timestamptz, ended_at timestamptz, retry_at timestamptz, body text, reason text, provider text, source text, trace_id text, entry text, change_number bigint)
WHERE true
AND (SELECT count(*) FROM hookrow_changed_1) >= 0
ON CONFLICT (fingerprint) DO UPDATE SET
ended_at = CASE WHEN kept.outcome = 'recorded' AND excluded.outcome = kept.outcome THEN kept.ended_at ELSE excluded.ended_at END,
source = CASE WHEN kept.outcome = 'recorded' AND excluded.outcome = kept.outcome THEN kept.source ELSE excluded.source END,
outcome = excluded.outcome,
status = excluded.status,
retry_at = excluded.retry_at,
recipient = CASE WHEN excluded.attempts > 0 THEN coalesce(kept.recipient, excluded.recipient) ELSE kept.recipient END,
body = CASE WHEN excluded.attempts > 0 THEN coalesce(kept.body, excluded.body) ELSE kept.body END,
reason = CASE WHEN excluded.attempts > 0 THEN coalesce(kept.reason, excluded.reason) ELSE kept.reason END,
provider = CASE WHEN excluded.attempts > 0 THEN coalesce(kept.provider, excluded.provider) ELSE kept.provider END,
trace_id = CASE WHEN excluded.attempts > 0 THEN coalesce(kept.trace_id, excluded.trace_id) ELSE kept.trace_id END,
attempts = kept.attempts + excluded.attempts,
change_number = coalesce(excluded.change_number, kept.change_number),
received_at = CASE WHEN kept.received_at < excluded.received_at THEN kept.received_at ELSE excluded.received_at END,
last_received_at = CASE WHEN kept.last_received_at > excluded.last_received_at THEN kept.last_received_at ELSE excluded.last_received_at END
RETURNING 1)
SELECT 1 / CASE WHEN (SELECT count(*) FROM hookrow_locked_subscribers) = %s
AND (SELECT count(*) FROM hookrow_dated_subscribers) = %s
AND ((SELECT count(*) FROM hookrow_changed_1) = %s OR (SELECT count(*) FROM hookrow_changed_1) = (
    SELECT count(*) FROM hookrow_given_1 AS given JOIN hookrow_dated_subscribers AS dated ON dated.row_key = given.row_key
    WHERE dated.changed_at <= given.suppression_changed_at))
AND (SELECT count(*) FROM hookrow_changed_2) = %s
THEN 1 ELSE 0 END;

-- a group of opens and suppressions
WITH hookrow_locked_subscribers AS MATERIALIZED (
SELECT s."id"
FROM "people" AS s
WHERE s."id" = ANY(%s::uuid[])
ORDER BY s."id" FOR NO KEY UPDATE OF s),
hookrow_locked_dispatches AS MATERIALIZED (
SELECT d."id"
FROM "mails" AS d
WHERE d."id" = ANY(%s::bigint[])
AND (SELECT count(*) FROM hookrow_locked_subscribers) >= 0
ORDER BY d."id" FOR NO KEY UPDATE OF d),
hookrow_dated_subscribers AS MATERIALIZED (
INSERT INTO "hookrow_suppression_changes" AS kept (role, row_key, changed_at)
SELECT 'subscribers' AS role, given.row_key, given.suppression_changed_at
FROM unnest(%s::uuid[], %s::text[], %s::timestamp with time zone[]) AS given(key_0, row_key, suppression_changed_at)
WHERE EXISTS (SELECT 1 FROM "people" AS s WHERE s."id" = given.key_0)
AND (SELECT count(*) FROM hookrow_locked_dispatches) >= 0
ORDER BY role, row_key
ON CONFLICT (role, row_key) DO UPDATE SET
changed_at = greatest(kept.changed_at, excluded.changed_at)
RETURNING role, row_key, changed_at),
hookrow_changed_1 AS MATERIALIZED (
UPDATE "mails" AS d SET "opened_at" = given.opened_at
FROM unnest(%s::bigint[], %s::timestamp with time zone[]) AS given(key_0, opened_at)
WHERE d."id" = given.key_0
AND (SELECT count(*) FROM hookrow_dated_subscribers) >= 0
RETURNING 1),
hookrow_given_2 AS MATERIALIZED (SELECT * FROM unnest(%s::uuid[], %s::timestamp with time zone[], %s::text[], %s::timestamp with time zone[]) AS given(key_0, suppressed_at, row_key, suppression_changed_at)),
hookrow_changed_2 AS MATERIALIZED (
UPDATE "people" AS s SET "suppressed_at" = given.suppressed_at
FROM hookrow_given_2 AS given
WHERE s."id" = given.key_0
AND EXISTS (SELECT 1 FROM hookrow_dated_subscribers AS dated WHERE dated.role = 'subscribers'
    AND dated.row_key = given.row_key AND dated.changed_at <= given.suppression_changed_at)
AND (SELECT count(*) FROM hookrow_changed_1) >= 0
RETURNING 1),
hookrow_changed_3 AS MATERIALIZED (
INSERT INTO "hookrow_notifications" AS kept (fingerprint, record_type, message_id, recipient, occurred_at, outcome, status, attempts, received_at, last_received_at, ended_at, retry_at, body, reason, provider, source, trace_id, entry, change_number, first_outcome)
SELECT decode(fingerprint, 'base64'), record_type, message_id, recipient, occurred_at, outcome, status, attempts, received_at, last_received_at, ended_at, retry_at, body, reason, provider, source, trace_id, entry, change_number, outcome
FROM json_to_recordset(%s::json) AS given(fingerprint text, record_type text, message_id text, recipient text, occurred_at timestamptz, outcome text, status smallint, attempts bigint, received_at timestamptz, last_received_at timestamptz, ended_at timestamptz, retry_at timestamptz, body text, reason text, provider text, source text, trace_id text, entry text, change_number bigint)
WHERE true
AND (SELECT count(*) FROM hookrow_changed_2) >= 0
ON CONFLICT (fingerprint) DO UPDATE SET
ended_at = CASE WHEN kept.outcome = 'recorded' AND excluded.outcome = kept.outcome THEN kept.ended_at ELSE excluded.ended_at END,
source = CASE WHEN kept.outcome = 'recorded' AND excluded.outcome = kept.outcome THEN kept.source ELSE excluded.source END,
outcome = excluded.outcome,
status = excluded.status,
retry_at = excluded.retry_at,
recipient = CASE WHEN excluded.attempts > 0 THEN coalesce(kept.recipient, excluded.recipient) ELSE kept.recipient END,
body = CASE WHEN excluded.attempts > 0 THEN coalesce(kept.body, excluded.body) ELSE kept.body END,
reason = CASE WHEN excluded.attempts > 0 THEN coalesce(kept.reason, excluded.reason) ELSE kept.reason END,
provider = CASE WHEN excluded.attempts > 0 THEN coalesce(kept.provider, excluded.provider) ELSE kept.provider END,
trace_id = CASE WHEN excluded.attempts > 0 THEN coalesce(kept.trace_id, excluded.trace_id) ELSE kept.trace_id END,
attempts = kept.attempts + excluded.attempts,
change_number = coalesce(excluded.change_number, kept.change_number),
received_at = CASE WHEN kept.received_at < excluded.received_at THEN kept.received_at ELSE excluded.received_at END,
last_received_at = CASE WHEN kept.last_received_at > excluded.last_received_at THEN kept.last_received_at ELSE excluded.last_received_at END
RETURNING 1)
SELECT 1 / CASE WHEN (SELECT count(*) FROM hookrow_locked_subscribers) = %s
AND (SELECT count(*) FROM hookrow_locked_dispatches) = %s
AND (SELECT count(*) FROM hookrow_dated_subscribers) = %s
AND (SELECT count(*) FROM hookrow_changed_1) = %s
AND ((SELECT count(*) FROM hookrow_changed_2) = %s OR (SELECT count(*) FROM hookrow_changed_2) = (
    SELECT count(*) FROM hookrow_given_2 AS given JOIN hookrow_dated_subscribers AS dated ON dated.row_key = given.row_key
    WHERE dated.changed_at <= given.suppression_changed_at))
AND (SELECT count(*) FROM hookrow_changed_3) = %s
THEN 1 ELSE 0 END;

-- count rows by list
SELECT NULL, count(d."provider_message_id"), count(d."delivered_at"), count(d."opened_at") FROM "mails" AS d WHERE true GROUP BY 1;

-- count the suppressed by reason
SELECT NULLIF(CAST('' AS text), ''), count(*) FROM "people" AS s WHERE s."suppressed_at" IS NOT NULL GROUP BY 1;

-- count undelivered dispatches
SELECT count(*) FROM "mails" AS d WHERE d."provider_message_id" IS NOT NULL AND d."delivered_at" IS NULL;

-- list undelivered dispatches
SELECT d."provider_message_id", NULL, NULL, d."id" FROM "mails" AS d WHERE d."provider_message_id" IS NOT NULL AND d."delivered_at" IS NULL ORDER BY d."id" LIMIT 10;

-- list more of them
SELECT d."provider_message_id", NULL, NULL, d."id" FROM "mails" AS d WHERE d."provider_message_id" IS NOT NULL AND d."delivered_at" IS NULL AND d."id" > %s::bigint ORDER BY d."id" LIMIT 10;

-- step through suppressions
SELECT s."suppressed_at"::text, s."id" FROM (SELECT s."suppressed_at", s."id" FROM "people" AS s WHERE s."suppressed_at" IS NOT NULL AND (s."suppressed_at", s."id") > (%s::timestamp with time zone, %s::uuid) AND (s."suppressed_at", s."id") <= (%s::timestamp with time zone, %s::uuid) AND s."suppressed_at" >= %s::timestamp with time zone ORDER BY s."suppressed_at" ASC, s."id" ASC LIMIT 1 OFFSET 99) AS s;

-- read suppressions
SELECT s."suppressed_at", s."email"::text, substr(CAST('' AS text), 1, 1000), s."suppressed_at"::text, s."id" FROM "people" AS s WHERE s."suppressed_at" IS NOT NULL ORDER BY s."suppressed_at" DESC, s."id" DESC LIMIT 10;

-- read suppressions of a reason
SELECT s."suppressed_at", s."email"::text, substr(CAST('' AS text), 1, 1000), s."suppressed_at"::text, s."id" FROM "people" AS s WHERE s."suppressed_at" IS NOT NULL AND (s."suppressed_at", s."id") > (%s::timestamp with time zone, %s::uuid) AND (s."suppressed_at", s."id") <= (%s::timestamp with time zone, %s::uuid) AND s."suppressed_at" >= %s::timestamp with time zone AND CAST('' AS text) = %s ORDER BY s."suppressed_at" ASC, s."id" ASC LIMIT 10;

-- read suppressions of an entry
SELECT s."suppressed_at", s."email"::text, substr(CAST('' AS text), 1, 1000), s."suppressed_at"::text, s."id" FROM "people" AS s WHERE s."suppressed_at" IS NOT NULL AND (SELECT 1 FROM "hookrow_notifications" AS n WHERE n.reason IS NOT NULL AND n.recipient = lower(s."email"::text COLLATE "C") COLLATE "default" AND n.entry = %s AND n.outcome IN ('dispatch_not_found', 'recipient_mismatch', 'recorded', 'unmapped') LIMIT 1) = 1 ORDER BY s."suppressed_at" DESC, s."id" DESC LIMIT 10;

-- count suppressions
SELECT count(*) FROM (SELECT 1 FROM "people" AS s WHERE s."suppressed_at" IS NOT NULL ORDER BY s."suppressed_at" DESC, s."id" DESC LIMIT 10) AS found;

-- changes in the log
SELECT id, message_id, recipient, reason, entry, occurred_at, received_at, last_received_at FROM "hookrow_notifications" WHERE (record_type = 'SubscriptionChange' OR reason IS NOT NULL) AND outcome IN ('dispatch_not_found', 'recipient_mismatch', 'recorded', 'unmapped') AND recipient IN (%s) ORDER BY id + 0 DESC LIMIT 10;

-- emails that begin with a text
SELECT s."email"::text FROM (SELECT s."id", s."email", s."suppressed_at" FROM "people" AS s WHERE s."email" >= %s::citext ORDER BY s."email" LIMIT 10) AS s WHERE s."email" IS NOT NULL;

-- message ids that begin with a text
SELECT d."provider_message_id" FROM (SELECT d."id", d."provider_message_id", d."subscriber_id", d."delivered_at", d."opened_at" FROM "mails" AS d WHERE d."provider_message_id" >= %s::text ORDER BY d."provider_message_id" LIMIT 10) AS d WHERE d."provider_message_id" IS NOT NULL;

-- the messages of a subscriber
SELECT d."id", d."provider_message_id", NULL, NULL, NULL FROM "people" AS s JOIN "mails" AS d ON s."id" = d."subscriber_id" WHERE s."id" = %s::uuid ORDER BY d."id" DESC LIMIT 10;
