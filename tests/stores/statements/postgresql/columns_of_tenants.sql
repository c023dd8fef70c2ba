-- find owners
SELECT o."id", o."email", d."provider_message_id", d."id", d."list_id", o."team"::text, d."team_name"::text
FROM "mails" AS d
LEFT JOIN "people" AS o ON o."id" = d."subscriber_id"
WHERE d."provider_message_id" = ANY(%s::text[]) AND d."team_name" = ANY(%s::text[]);

-- find
SELECT s."id", s."email", NULL, NULL, NULL, s."team"::text, NULL
FROM unnest(%s::text[], %s::uuid[]) AS given(email, subscribers) CROSS JOIN "people" AS s
WHERE lower(s."email" COLLATE "C") = given.email AND s."team" = given.subscribers
UNION ALL
SELECT o."id", o."email", d."provider_message_id", d."id", d."list_id", o."team"::text, d."team_name"::text
FROM "mails" AS d
LEFT JOIN "people" AS o ON o."id" = d."subscriber_id"
WHERE d."provider_message_id" = ANY(%s::text[]) AND d."team_name" = ANY(%s::text[])
UNION ALL
SELECT b."subscriber_id", NULL, NULL, NULL, b."list_id", NULL, b."team"::text
FROM "mails" AS d
JOIN "members" AS b ON b."list_id" = d."list_id" AND b."subscriber_id" = d."subscriber_id"
WHERE d."provider_message_id" = ANY(%s::text[]) AND d."team_name" = ANY(%s::text[]);

-- find pairs of subscriptions
SELECT b."list_id", b."subscriber_id", given.key_0, given.key_1, b."team"::text
FROM unnest(%s::bigint[], %s::bigint[]) AS given(key_0, key_1), "members" AS b
WHERE b."list_id" = given.key_0 AND b."subscriber_id" = given.key_1;

-- read subscribers
SELECT s."id", s."suppressed_at", s."suppression_reason", s."suppression_changed_at"
FROM unnest(%s::bigint[]) AS given(key_0), "people" AS s
WHERE s."id" = given.key_0;

-- lock subscribers
SELECT s."id"
FROM "people" AS s
WHERE s."id" = ANY(%s::bigint[])
ORDER BY s."id" FOR NO KEY UPDATE OF s;

-- lock subscribers, skipping locked rows
SELECT s."id"
FROM "people" AS s
WHERE s."id" = ANY(%s::bigint[])
ORDER BY s."id" FOR NO KEY UPDATE OF s SKIP LOCKED;

-- read dispatches
SELECT d."id", d."delivered_at", d."opened_at", d."suppressed_at", d."suppression_reason", d."suppression_changed_at"
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

-- read subscriptions
SELECT b."list_id", b."subscriber_id", b."suppressed_at", b."suppression_reason", b."suppression_changed_at"
FROM unnest(%s::bigint[], %s::bigint[]) AS given(key_0, key_1), "members" AS b
WHERE b."list_id" = given.key_0 AND b."subscriber_id" = given.key_1;

-- lock subscriptions
SELECT b."list_id", b."subscriber_id"
FROM unnest(%s::bigint[], %s::bigint[]) AS given(key_0, key_1), "members" AS b
WHERE b."list_id" = given.key_0 AND b."subscriber_id" = given.key_1
ORDER BY b."list_id", b."subscriber_id" FOR NO KEY UPDATE OF b;

-- lock subscriptions, skipping locked rows
SELECT b."list_id", b."subscriber_id"
FROM unnest(%s::bigint[], %s::bigint[]) AS given(key_0, key_1), "members" AS b
WHERE b."list_id" = given.key_0 AND b."subscriber_id" = given.key_1
ORDER BY b."list_id", b."subscriber_id" FOR NO KEY UPDATE OF b SKIP LOCKED;

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

-- set the suppression of subscribers
UPDATE "people" AS s SET "suppressed_at" = given.suppressed_at, "suppression_reason" = given.suppression_reason, "suppression_changed_at" = given.suppression_changed_at
FROM unnest(%s::bigint[], %s::timestamp with time zone[], %s::text[], %s::timestamp with time zone[]) AS given(key_0, suppressed_at, suppression_reason, suppression_changed_at)
WHERE s."id" = given.key_0;

-- set the suppression of subscribers late
UPDATE "people" AS s SET "suppressed_at" = given.suppressed_at, "suppression_reason" = given.suppression_reason, "suppression_changed_at" = given.suppression_changed_at
FROM unnest(%s::bigint[], %s::timestamp with time zone[], %s::text[], %s::timestamp with time zone[]) AS given(key_0, suppressed_at, suppression_reason, suppression_changed_at)
WHERE s."id" = given.key_0 AND (s."suppression_changed_at" IS NULL OR s."suppression_changed_at" <= given.suppression_changed_at);

-- set the suppression of dispatches
UPDATE "mails" AS d SET "suppressed_at" = given.suppressed_at, "suppression_reason" = given.suppression_reason, "suppression_changed_at" = given.suppression_changed_at
FROM unnest(%s::bigint[], %s::timestamp with time zone[], %s::text[], %s::timestamp with time zone[]) AS given(key_0, suppressed_at, suppression_reason, suppression_changed_at)
WHERE d."id" = given.key_0;

-- set the suppression of dispatches late
UPDATE "mails" AS d SET "suppressed_at" = given.suppressed_at, "suppression_reason" = given.suppression_reason, "suppression_changed_at" = given.suppression_changed_at
FROM unnest(%s::bigint[], %s::timestamp with time zone[], %s::text[], %s::timestamp with time zone[]) AS given(key_0, suppressed_at, suppression_reason, suppression_changed_at)
WHERE d."id" = given.key_0 AND (d."suppression_changed_at" IS NULL OR d."suppression_changed_at" <= given.suppression_changed_at);

-- set the suppression of subscriptions
UPDATE "members" AS b SET "suppressed_at" = given.suppressed_at, "suppression_reason" = given.suppression_reason, "suppression_changed_at" = given.suppression_changed_at
FROM unnest(%s::bigint[], %s::bigint[], %s::timestamp with time zone[], %s::text[], %s::timestamp with time zone[]) AS given(key_0, key_1, suppressed_at, suppression_reason, suppression_changed_at)
WHERE b."list_id" = given.key_0 AND b."subscriber_id" = given.key_1;

-- set the suppression of subscriptions late
UPDATE "members" AS b SET "suppressed_at" = given.suppressed_at, "suppression_reason" = given.suppression_reason, "suppression_changed_at" = given.suppression_changed_at
FROM unnest(%s::bigint[], %s::bigint[], %s::timestamp with time zone[], %s::text[], %s::timestamp with time zone[]) AS given(key_0, key_1, suppressed_at, suppression_reason, suppression_changed_at)
WHERE b."list_id" = given.key_0 AND b."subscriber_id" = given.key_1 AND (b."suppression_changed_at" IS NULL OR b."suppression_changed_at" <= given.suppression_changed_at);

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
given.entry = n.entry AND n.outcome IN ('dispatch_not_found', 'recipient_mismatch', 'subscriber_not_found') AND (
    EXISTS (SELECT 1 FROM "mails" AS d CROSS JOIN "people" AS s
        WHERE d."provider_message_id" = (n.message_id)::text AND s."id" = d."subscriber_id" AND lower(s."email" COLLATE "C") = n.recipient AND d."team_name" = given.dispatches AND s."team" = given.subscribers)
    OR ((n.reason IS NOT NULL OR n.record_type = 'SubscriptionChange')
        AND n.outcome = 'subscriber_not_found'
        AND EXISTS (SELECT 1 FROM "people" AS s WHERE lower(s."email" COLLATE "C") = n.recipient AND s."team" = given.subscribers))
);

-- the join of entries with the tenants
 CROSS JOIN unnest(%s::text[], %s::uuid[], %s::text[], %s::uuid[]) AS given(entry, subscribers, dispatches, subscriptions);

-- probe 1
SELECT FROM "people" WHERE 1 = 0 FOR NO KEY UPDATE;

-- probe 2
SELECT FROM "mails" WHERE 1 = 0 FOR NO KEY UPDATE;

-- probe 3
SELECT FROM "members" WHERE 1 = 0 FOR NO KEY UPDATE;

-- probe 4
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
SELECT s."id" AS key_0, s."suppression_changed_at" AS suppression_changed_at
FROM "people" AS s
WHERE s."id" = ANY(%s::bigint[])
ORDER BY s."id" FOR NO KEY UPDATE OF s),
hookrow_locked_dispatches AS MATERIALIZED (
SELECT d."id" AS key_0, d."suppression_changed_at" AS suppression_changed_at
FROM "mails" AS d
WHERE d."id" = ANY(%s::bigint[])
AND (SELECT count(*) FROM hookrow_locked_subscribers) >= 0
ORDER BY d."id" FOR NO KEY UPDATE OF d),
hookrow_locked_subscriptions AS MATERIALIZED (
SELECT b."list_id" AS key_0, b."subscriber_id" AS key_1, b."suppression_changed_at" AS suppression_changed_at
FROM unnest(%s::bigint[], %s::bigint[]) AS given(key_0, key_1), "members" AS b
WHERE b."list_id" = given.key_0 AND b."subscriber_id" = given.key_1
AND (SELECT count(*) FROM hookrow_locked_dispatches) >= 0
ORDER BY b."list_id", b."subscriber_id" FOR NO KEY UPDATE OF b),
hookrow_given_0 AS MATERIALIZED (SELECT * FROM unnest(%s::bigint[], %s::timestamp with time zone[], %s::text[], %s::timestamp with time zone[]) AS given(key_0, suppressed_at, suppression_reason, suppression_changed_at)),
hookrow_changed_0 AS MATERIALIZED (
UPDATE "mails" AS d SET "suppressed_at" = given.suppressed_at, "suppression_reason" = given.suppression_reason, "suppression_changed_at" = given.suppression_changed_at
FROM hookrow_given_0 AS given
WHERE d."id" = given.key_0 AND (d."suppression_changed_at" IS NULL OR d."suppression_changed_at" <= given.suppression_changed_at)
AND (SELECT count(*) FROM hookrow_locked_subscriptions) >= 0
RETURNING 1),
hookrow_given_1 AS MATERIALIZED (SELECT * FROM unnest(%s::bigint[], %s::bigint[], %s::timestamp with time zone[], %s::text[], %s::timestamp with time zone[]) AS given(key_0, key_1, suppressed_at, suppression_reason, suppression_changed_at)),
hookrow_changed_1 AS MATERIALIZED (
UPDATE "members" AS b SET "suppressed_at" = given.suppressed_at, "suppression_reason" = given.suppression_reason, "suppression_changed_at" = given.suppression_changed_at
FROM hookrow_given_1 AS given
WHERE b."list_id" = given.key_0 AND b."subscriber_id" = given.key_1 AND (b."suppression_changed_at" IS NULL OR b."suppression_changed_at" <= given.suppression_changed_at)
AND (SELECT count(*) FROM hookrow_changed_0) >= 0
RETURNING 1),
hookrow_given_2 AS MATERIALIZED (SELECT * FROM unnest(%s::bigint[], %s::timestamp with time zone[], %s::text[], %s::timestamp with time zone[]) AS given(key_0, suppressed_at, suppression_reason, suppression_changed_at)),
hookrow_changed_2 AS MATERIALIZED (
UPDATE "people" AS s SET "suppressed_at" = given.suppressed_at, "suppression_reason" = given.suppression_reason, "suppression_changed_at" = given.suppression_changed_at
FROM hookrow_given_2 AS given
WHERE s."id" = given.key_0 AND (s."suppression_changed_at" IS NULL OR s."suppression_changed_at" <= given.suppression_changed_at)
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
AND (SELECT count(*) FROM hookrow_locked_subscriptions) = %s
AND ((SELECT count(*) FROM hookrow_changed_0) = %s OR (SELECT count(*) FROM hookrow_changed_0) = (
    SELECT count(*) FROM hookrow_given_0 AS given JOIN hookrow_locked_dispatches AS locked ON locked.key_0 = given.key_0 WHERE (locked.suppression_changed_at IS NULL OR locked.suppression_changed_at <= given.suppression_changed_at)))
AND ((SELECT count(*) FROM hookrow_changed_1) = %s OR (SELECT count(*) FROM hookrow_changed_1) = (
    SELECT count(*) FROM hookrow_given_1 AS given JOIN hookrow_locked_subscriptions AS locked ON locked.key_0 = given.key_0 AND locked.key_1 = given.key_1 WHERE (locked.suppression_changed_at IS NULL OR locked.suppression_changed_at <= given.suppression_changed_at)))
AND ((SELECT count(*) FROM hookrow_changed_2) = %s OR (SELECT count(*) FROM hookrow_changed_2) = (
    SELECT count(*) FROM hookrow_given_2 AS given JOIN hookrow_locked_subscribers AS locked ON locked.key_0 = given.key_0 WHERE (locked.suppression_changed_at IS NULL OR locked.suppression_changed_at <= given.suppression_changed_at)))
AND (SELECT count(*) FROM hookrow_changed_3) = %s
THEN 1 ELSE 0 END;

-- a group of opens and suppressions
WITH hookrow_locked_subscribers AS MATERIALIZED (
SELECT s."id" AS key_0, s."suppression_changed_at" AS suppression_changed_at
FROM "people" AS s
WHERE s."id" = ANY(%s::bigint[])
ORDER BY s."id" FOR NO KEY UPDATE OF s),
hookrow_locked_dispatches AS MATERIALIZED (
SELECT d."id" AS key_0, d."suppression_changed_at" AS suppression_changed_at
FROM "mails" AS d
WHERE d."id" = ANY(%s::bigint[])
AND (SELECT count(*) FROM hookrow_locked_subscribers) >= 0
ORDER BY d."id" FOR NO KEY UPDATE OF d),
hookrow_locked_subscriptions AS MATERIALIZED (
SELECT b."list_id" AS key_0, b."subscriber_id" AS key_1, b."suppression_changed_at" AS suppression_changed_at
FROM unnest(%s::bigint[], %s::bigint[]) AS given(key_0, key_1), "members" AS b
WHERE b."list_id" = given.key_0 AND b."subscriber_id" = given.key_1
AND (SELECT count(*) FROM hookrow_locked_dispatches) >= 0
ORDER BY b."list_id", b."subscriber_id" FOR NO KEY UPDATE OF b),
hookrow_changed_0 AS MATERIALIZED (
UPDATE "mails" AS d SET "opened_at" = given.opened_at
FROM unnest(%s::bigint[], %s::timestamp with time zone[]) AS given(key_0, opened_at)
WHERE d."id" = given.key_0
AND (SELECT count(*) FROM hookrow_locked_subscriptions) >= 0
RETURNING 1),
hookrow_given_1 AS MATERIALIZED (SELECT * FROM unnest(%s::bigint[], %s::timestamp with time zone[], %s::text[], %s::timestamp with time zone[]) AS given(key_0, suppressed_at, suppression_reason, suppression_changed_at)),
hookrow_changed_1 AS MATERIALIZED (
UPDATE "mails" AS d SET "suppressed_at" = given.suppressed_at, "suppression_reason" = given.suppression_reason, "suppression_changed_at" = given.suppression_changed_at
FROM hookrow_given_1 AS given
WHERE d."id" = given.key_0 AND (d."suppression_changed_at" IS NULL OR d."suppression_changed_at" <= given.suppression_changed_at)
AND (SELECT count(*) FROM hookrow_changed_0) >= 0
RETURNING 1),
hookrow_given_2 AS MATERIALIZED (SELECT * FROM unnest(%s::bigint[], %s::bigint[], %s::timestamp with time zone[], %s::text[], %s::timestamp with time zone[]) AS given(key_0, key_1, suppressed_at, suppression_reason, suppression_changed_at)),
hookrow_changed_2 AS MATERIALIZED (
UPDATE "members" AS b SET "suppressed_at" = given.suppressed_at, "suppression_reason" = given.suppression_reason, "suppression_changed_at" = given.suppression_changed_at
FROM hookrow_given_2 AS given
WHERE b."list_id" = given.key_0 AND b."subscriber_id" = given.key_1 AND (b."suppression_changed_at" IS NULL OR b."suppression_changed_at" <= given.suppression_changed_at)
AND (SELECT count(*) FROM hookrow_changed_1) >= 0
RETURNING 1),
hookrow_given_3 AS MATERIALIZED (SELECT * FROM unnest(%s::bigint[], %s::timestamp with time zone[], %s::text[], %s::timestamp with time zone[]) AS given(key_0, suppressed_at, suppression_reason, suppression_changed_at)),
hookrow_changed_3 AS MATERIALIZED (
UPDATE "people" AS s SET "suppressed_at" = given.suppressed_at, "suppression_reason" = given.suppression_reason, "suppression_changed_at" = given.suppression_changed_at
FROM hookrow_given_3 AS given
WHERE s."id" = given.key_0 AND (s."suppression_changed_at" IS NULL OR s."suppression_changed_at" <= given.suppression_changed_at)
AND (SELECT count(*) FROM hookrow_changed_2) >= 0
RETURNING 1),
hookrow_changed_4 AS MATERIALIZED (
INSERT INTO "hookrow_notifications" AS kept (fingerprint, record_type, message_id, recipient, occurred_at, outcome, status, attempts, received_at, last_received_at, ended_at, retry_at, body, reason, provider, source, trace_id, entry, change_number, first_outcome)
SELECT decode(fingerprint, 'base64'), record_type, message_id, recipient, occurred_at, outcome, status, attempts, received_at, last_received_at, ended_at, retry_at, body, reason, provider, source, trace_id, entry, change_number, outcome
FROM json_to_recordset(%s::json) AS given(fingerprint text, record_type text, message_id text, recipient text, occurred_at timestamptz, outcome text, status smallint, attempts bigint, received_at timestamptz, last_received_at timestamptz, ended_at timestamptz, retry_at timestamptz, body text, reason text, provider text, source text, trace_id text, entry text, change_number bigint)
WHERE true
AND (SELECT count(*) FROM hookrow_changed_3) >= 0
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
AND (SELECT count(*) FROM hookrow_locked_subscriptions) = %s
AND (SELECT count(*) FROM hookrow_changed_0) = %s
AND ((SELECT count(*) FROM hookrow_changed_1) = %s OR (SELECT count(*) FROM hookrow_changed_1) = (
    SELECT count(*) FROM hookrow_given_1 AS given JOIN hookrow_locked_dispatches AS locked ON locked.key_0 = given.key_0 WHERE (locked.suppression_changed_at IS NULL OR locked.suppression_changed_at <= given.suppression_changed_at)))
AND ((SELECT count(*) FROM hookrow_changed_2) = %s OR (SELECT count(*) FROM hookrow_changed_2) = (
    SELECT count(*) FROM hookrow_given_2 AS given JOIN hookrow_locked_subscriptions AS locked ON locked.key_0 = given.key_0 AND locked.key_1 = given.key_1 WHERE (locked.suppression_changed_at IS NULL OR locked.suppression_changed_at <= given.suppression_changed_at)))
AND ((SELECT count(*) FROM hookrow_changed_3) = %s OR (SELECT count(*) FROM hookrow_changed_3) = (
    SELECT count(*) FROM hookrow_given_3 AS given JOIN hookrow_locked_subscribers AS locked ON locked.key_0 = given.key_0 WHERE (locked.suppression_changed_at IS NULL OR locked.suppression_changed_at <= given.suppression_changed_at)))
AND (SELECT count(*) FROM hookrow_changed_4) = %s
THEN 1 ELSE 0 END;

-- count rows by list
SELECT d."list_id", count(d."provider_message_id"), count(d."delivered_at"), count(d."opened_at") FROM "mails" AS d WHERE true GROUP BY 1;

-- count rows by list
SELECT b."list_id", count(*), count(b."suppressed_at") FROM "members" AS b WHERE true GROUP BY 1;

-- count the suppressed by reason
SELECT NULLIF(coalesce(CAST(s."suppression_reason" AS text), ''), ''), count(*) FROM "people" AS s WHERE s."suppressed_at" IS NOT NULL GROUP BY 1;

-- count undelivered dispatches
SELECT count(*) FROM "mails" AS d WHERE d."provider_message_id" IS NOT NULL AND d."delivered_at" IS NULL;

-- list undelivered dispatches
SELECT d."provider_message_id", NULL, NULL, d."id" FROM "mails" AS d WHERE d."provider_message_id" IS NOT NULL AND d."delivered_at" IS NULL ORDER BY d."id" LIMIT 10;

-- list more of them
SELECT d."provider_message_id", NULL, NULL, d."id" FROM "mails" AS d WHERE d."provider_message_id" IS NOT NULL AND d."delivered_at" IS NULL AND d."id" > %s::bigint ORDER BY d."id" LIMIT 10;

-- step through suppressions
SELECT s."suppressed_at"::text, s."id" FROM (SELECT s."suppressed_at", s."id" FROM "people" AS s WHERE s."suppressed_at" IS NOT NULL AND (s."suppressed_at", s."id") > (%s::timestamp with time zone, %s::bigint) AND (s."suppressed_at", s."id") <= (%s::timestamp with time zone, %s::bigint) AND s."suppressed_at" >= %s::timestamp with time zone ORDER BY s."suppressed_at" ASC, s."id" ASC LIMIT 1 OFFSET 99) AS s;

-- read suppressions
SELECT s."suppressed_at", s."email", substr(coalesce(CAST(s."suppression_reason" AS text), ''), 1, 1000), s."suppressed_at"::text, s."id" FROM "people" AS s WHERE s."suppressed_at" IS NOT NULL ORDER BY s."suppressed_at" DESC, s."id" DESC LIMIT 10;

-- read suppressions of a reason
SELECT s."suppressed_at", s."email", substr(coalesce(CAST(s."suppression_reason" AS text), ''), 1, 1000), s."suppressed_at"::text, s."id" FROM "people" AS s WHERE s."suppressed_at" IS NOT NULL AND (s."suppressed_at", s."id") > (%s::timestamp with time zone, %s::bigint) AND (s."suppressed_at", s."id") <= (%s::timestamp with time zone, %s::bigint) AND s."suppressed_at" >= %s::timestamp with time zone AND s."suppression_reason" = %s::text AND length(s."suppression_reason") <= 64 ORDER BY s."suppressed_at" ASC, s."id" ASC LIMIT 10;

-- read suppressions of an entry
SELECT s."suppressed_at", s."email", substr(coalesce(CAST(s."suppression_reason" AS text), ''), 1, 1000), s."suppressed_at"::text, s."id" FROM "people" AS s WHERE s."suppressed_at" IS NOT NULL AND (SELECT 1 FROM "hookrow_notifications" AS n WHERE n.reason IS NOT NULL AND n.recipient = lower(s."email" COLLATE "C") COLLATE "default" AND n.entry = %s AND n.outcome IN ('dispatch_not_found', 'recipient_mismatch', 'recorded', 'unmapped') LIMIT 1) = 1 ORDER BY s."suppressed_at" DESC, s."id" DESC LIMIT 10;

-- count suppressions
SELECT count(*) FROM (SELECT 1 FROM "people" AS s WHERE s."suppressed_at" IS NOT NULL ORDER BY s."suppressed_at" DESC, s."id" DESC LIMIT 10) AS found;

-- changes in the log
SELECT id, message_id, recipient, reason, entry, occurred_at, received_at, last_received_at FROM "hookrow_notifications" WHERE (record_type = 'SubscriptionChange' OR reason IS NOT NULL) AND outcome IN ('dispatch_not_found', 'recipient_mismatch', 'recorded', 'unmapped') AND recipient IN (%s) ORDER BY id + 0 DESC LIMIT 10;

-- lists
WITH RECURSIVE found (list_id) AS (SELECT (SELECT b."list_id" FROM "members" AS b WHERE b."list_id" IS NOT NULL ORDER BY b."list_id" LIMIT 1)::bigint UNION ALL SELECT (SELECT b."list_id" FROM "members" AS b WHERE b."list_id" > found.list_id ORDER BY b."list_id" LIMIT 1)::bigint FROM found WHERE list_id IS NOT NULL) SELECT list_id FROM found WHERE list_id IS NOT NULL LIMIT 10;

-- the size of a list
SELECT count(*) FROM (SELECT 1 FROM "members" AS b WHERE b."list_id" = %s::bigint LIMIT 10000) AS found;

-- read suppressions of a list
SELECT s."suppressed_at", s."email", substr(coalesce(CAST(s."suppression_reason" AS text), ''), 1, 1000), s."suppressed_at"::text, s."id" FROM "people" AS s WHERE s."suppressed_at" IS NOT NULL AND (SELECT 1 FROM "members" AS b WHERE b."list_id" = %s::bigint AND s."id" = b."subscriber_id" LIMIT 1) = 1 ORDER BY s."suppressed_at" DESC, s."id" DESC LIMIT 10;

-- read those of a small list
SELECT s."suppressed_at", s."email", substr(coalesce(CAST(s."suppression_reason" AS text), ''), 1, 1000), s."suppressed_at"::text, s."id" FROM "people" AS s WHERE s."suppressed_at" IS NOT NULL AND s."id" = ANY(ARRAY(SELECT b."subscriber_id" FROM "members" AS b WHERE b."list_id" = %s::bigint)) ORDER BY s."suppressed_at" DESC, s."id" DESC LIMIT 10;

-- emails that begin with a text
SELECT s."email" FROM (SELECT s."id", s."email", s."suppressed_at", s."suppression_reason", s."suppression_changed_at", s."team" FROM "people" AS s WHERE lower(s."email" COLLATE "C") >= %s::text ORDER BY lower(s."email" COLLATE "C") LIMIT 10) AS s WHERE s."email" IS NOT NULL;

-- message ids that begin with a text
SELECT d."provider_message_id" FROM (SELECT d."id", d."provider_message_id", d."subscriber_id", d."delivered_at", d."opened_at", d."list_id", d."suppressed_at", d."suppression_reason", d."suppression_changed_at", d."team_name" FROM "mails" AS d WHERE d."provider_message_id" >= %s::text ORDER BY d."provider_message_id" LIMIT 10) AS d WHERE d."provider_message_id" IS NOT NULL;

-- the messages of a subscriber
SELECT d."id", d."provider_message_id", NULL, d."list_id", NULL FROM "people" AS s JOIN "mails" AS d ON s."id" = d."subscriber_id" WHERE s."id" = %s::bigint ORDER BY d."id" DESC LIMIT 10;

-- the lists of a subscriber
SELECT b."list_id", b."subscriber_id", NULL FROM "people" AS s JOIN "members" AS b ON s."id" = b."subscriber_id" WHERE s."id" = %s::bigint ORDER BY b."list_id" LIMIT 10;
