-- find
SELECT s."id", s."email", NULL, NULL, NULL
FROM "people" AS s
WHERE lower(s."email" COLLATE "C") = ANY(%s::text[]) AND s."deleted_at" IS NULL;

-- read subscribers
SELECT s."id", s."suppressed_at", s."suppression_reason", s."suppression_changed_at"
FROM unnest(%s::bigint[]) AS given(key_0), "people" AS s
WHERE s."id" = given.key_0 AND s."deleted_at" IS NULL;

-- lock subscribers
SELECT s."id"
FROM "people" AS s
WHERE s."id" = ANY(%s::bigint[]) AND s."deleted_at" IS NULL
ORDER BY s."id" FOR NO KEY UPDATE OF s;

-- lock subscribers, skipping locked rows
SELECT s."id"
FROM "people" AS s
WHERE s."id" = ANY(%s::bigint[]) AND s."deleted_at" IS NULL
ORDER BY s."id" FOR NO KEY UPDATE OF s SKIP LOCKED;

-- set the suppression of subscribers
UPDATE "people" AS s SET "suppressed_at" = given.suppressed_at, "suppression_reason" = given.suppression_reason, "suppression_changed_at" = given.suppression_changed_at
FROM unnest(%s::bigint[], %s::timestamp with time zone[], %s::text[], %s::timestamp with time zone[]) AS given(key_0, suppressed_at, suppression_reason, suppression_changed_at)
WHERE s."id" = given.key_0 AND s."deleted_at" IS NULL;

-- set the suppression of subscribers late
UPDATE "people" AS s SET "suppressed_at" = given.suppressed_at, "suppression_reason" = given.suppression_reason, "suppression_changed_at" = given.suppression_changed_at
FROM unnest(%s::bigint[], %s::timestamp with time zone[], %s::text[], %s::timestamp with time zone[]) AS given(key_0, suppressed_at, suppression_reason, suppression_changed_at)
WHERE s."id" = given.key_0 AND (s."suppression_changed_at" IS NULL OR s."suppression_changed_at" <= given.suppression_changed_at) AND s."deleted_at" IS NULL;

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
    ((n.reason IS NOT NULL OR n.record_type = 'SubscriptionChange')
        AND n.outcome = 'subscriber_not_found'
        AND EXISTS (SELECT 1 FROM "people" AS s WHERE lower(s."email" COLLATE "C") = n.recipient AND s."deleted_at" IS NULL))
);

-- probe 1
SELECT FROM "people" WHERE 1 = 0 FOR NO KEY UPDATE;

-- probe 2
SELECT FROM "hookrow_notifications" WHERE 1 = 0 FOR NO KEY UPDATE;

-- a group of suppressions
WITH hookrow_locked_subscribers AS MATERIALIZED (
SELECT s."id" AS key_0, s."suppression_changed_at" AS suppression_changed_at
FROM "people" AS s
WHERE s."id" = ANY(%s::bigint[]) AND s."deleted_at" IS NULL
ORDER BY s."id" FOR NO KEY UPDATE OF s),
hookrow_given_0 AS MATERIALIZED (SELECT * FROM unnest(%s::bigint[], %s::timestamp with time zone[], %s::text[], %s::timestamp with time zone[]) AS given(key_0, suppressed_at, suppression_reason, suppression_changed_at)),
hookrow_changed_0 AS MATERIALIZED (
UPDATE "people" AS s SET "suppressed_at" = given.suppressed_at, "suppression_reason" = given.suppression_reason, "suppression_changed_at" = given.suppression_changed_at
FROM hookrow_given_0 AS given
WHERE s."id" = given.key_0 AND (s."suppression_changed_at" IS NULL OR s."suppression_changed_at" <= given.suppression_changed_at) AND s."deleted_at" IS NULL
AND (SELECT count(*) FROM hookrow_locked_subscribers) >= 0
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
SELECT 1 / CASE WHEN (SELECT count(*) FROM hookrow_locked_subscribers) = %s
AND ((SELECT count(*) FROM hookrow_changed_0) = %s OR (SELECT count(*) FROM hookrow_changed_0) = (
    SELECT count(*) FROM hookrow_given_0 AS given JOIN hookrow_locked_subscribers AS locked ON locked.key_0 = given.key_0 WHERE (locked.suppression_changed_at IS NULL OR locked.suppression_changed_at <= given.suppression_changed_at)))
AND (SELECT count(*) FROM hookrow_changed_1) = %s
THEN 1 ELSE 0 END;

-- count the suppressed by reason
SELECT NULLIF(coalesce(CAST(s."suppression_reason" AS text), ''), ''), count(*) FROM "people" AS s WHERE s."suppressed_at" IS NOT NULL AND s."deleted_at" IS NULL GROUP BY 1;

-- step through suppressions
SELECT s."suppressed_at"::text, s."id" FROM (SELECT s."suppressed_at", s."id" FROM "people" AS s WHERE s."suppressed_at" IS NOT NULL AND (s."suppressed_at", s."id") > (%s::timestamp with time zone, %s::bigint) AND (s."suppressed_at", s."id") <= (%s::timestamp with time zone, %s::bigint) AND s."suppressed_at" >= %s::timestamp with time zone ORDER BY s."suppressed_at" ASC, s."id" ASC LIMIT 1 OFFSET 99) AS s;

-- read suppressions
SELECT s."suppressed_at", s."email", substr(coalesce(CAST(s."suppression_reason" AS text), ''), 1, 1000), s."suppressed_at"::text, s."id" FROM "people" AS s WHERE s."suppressed_at" IS NOT NULL AND s."deleted_at" IS NULL ORDER BY s."suppressed_at" DESC, s."id" DESC LIMIT 10;

-- read suppressions of a reason
SELECT s."suppressed_at", s."email", substr(coalesce(CAST(s."suppression_reason" AS text), ''), 1, 1000), s."suppressed_at"::text, s."id" FROM "people" AS s WHERE s."suppressed_at" IS NOT NULL AND (s."suppressed_at", s."id") > (%s::timestamp with time zone, %s::bigint) AND (s."suppressed_at", s."id") <= (%s::timestamp with time zone, %s::bigint) AND s."suppressed_at" >= %s::timestamp with time zone AND s."suppression_reason" = %s::text AND length(s."suppression_reason") <= 64 AND s."deleted_at" IS NULL ORDER BY s."suppressed_at" ASC, s."id" ASC LIMIT 10;

-- read suppressions of an entry
SELECT s."suppressed_at", s."email", substr(coalesce(CAST(s."suppression_reason" AS text), ''), 1, 1000), s."suppressed_at"::text, s."id" FROM "people" AS s WHERE s."suppressed_at" IS NOT NULL AND (SELECT 1 FROM "hookrow_notifications" AS n WHERE n.reason IS NOT NULL AND n.recipient = lower(s."email" COLLATE "C") COLLATE "default" AND n.entry = %s AND n.outcome IN ('dispatch_not_found', 'recipient_mismatch', 'recorded', 'unmapped') LIMIT 1) = 1 AND s."deleted_at" IS NULL ORDER BY s."suppressed_at" DESC, s."id" DESC LIMIT 10;

-- count suppressions
SELECT count(*) FROM (SELECT 1 FROM "people" AS s WHERE s."suppressed_at" IS NOT NULL AND s."deleted_at" IS NULL ORDER BY s."suppressed_at" DESC, s."id" DESC LIMIT 10) AS found;

-- changes in the log
SELECT id, message_id, recipient, reason, entry, occurred_at, received_at, last_received_at FROM "hookrow_notifications" WHERE (record_type = 'SubscriptionChange' OR reason IS NOT NULL) AND outcome IN ('dispatch_not_found', 'recipient_mismatch', 'recorded', 'unmapped') AND recipient IN (%s) ORDER BY id + 0 DESC LIMIT 10;

-- emails that begin with a text
SELECT s."email" FROM (SELECT s."id", s."email", s."suppressed_at", s."suppression_reason", s."suppression_changed_at", s."deleted_at" FROM "people" AS s WHERE lower(s."email" COLLATE "C") >= %s::text ORDER BY lower(s."email" COLLATE "C") LIMIT 10) AS s WHERE s."email" IS NOT NULL AND s."deleted_at" IS NULL;
