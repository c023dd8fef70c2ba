-- find owners
SELECT CASE WHEN o."tenant" = 7 AND o."active" = true AND o."deleted_at" IS NULL THEN o."id"::text END, o."address", d."postmark_id"::text, d."key", m."list_id"
FROM "mail"."sends" AS d
LEFT JOIN "peo""ple" AS o ON o."id" = d."person"::bpchar AND (o."tenant" = 7 AND o."active" = true AND o."deleted_at" IS NULL
    OR NOT EXISTS (SELECT 1 FROM "peo""ple" AS s WHERE s."id" = d."person"::bpchar AND s."tenant" = 7 AND s."active" = true AND s."deleted_at" IS NULL)) LEFT JOIN "campaigns" AS m ON m."id" = d."campaign" AND m."tenant" = 7
WHERE d."postmark_id" = ANY(%s::uuid[]) AND d."state" IS NULL;

-- find
SELECT s."id"::text, s."address", NULL, NULL, NULL
FROM "peo""ple" AS s
WHERE lower(s."address") = ANY(ARRAY(SELECT lower(unnest(%s::text[])))) AND s."tenant" = 7 AND s."active" = true AND s."deleted_at" IS NULL
UNION ALL
SELECT CASE WHEN o."tenant" = 7 AND o."active" = true AND o."deleted_at" IS NULL THEN o."id"::text END, o."address", d."postmark_id"::text, d."key", m."list_id"
FROM "mail"."sends" AS d
LEFT JOIN "peo""ple" AS o ON o."id" = d."person"::bpchar AND (o."tenant" = 7 AND o."active" = true AND o."deleted_at" IS NULL
    OR NOT EXISTS (SELECT 1 FROM "peo""ple" AS s WHERE s."id" = d."person"::bpchar AND s."tenant" = 7 AND s."active" = true AND s."deleted_at" IS NULL)) LEFT JOIN "campaigns" AS m ON m."id" = d."campaign" AND m."tenant" = 7
WHERE d."postmark_id" = ANY(%s::uuid[]) AND d."state" IS NULL;

-- find pairs of subscriptions
SELECT b."list_id", b."subscriber_id"::text, given.key_0, given.key_1::text
FROM unnest(%s::bigint[], %s::bpchar[]) AS given(key_0, key_1), "members" AS b
WHERE b."list_id" = given.key_0 AND b."subscriber_id" = given.key_1;

-- read subscribers
SELECT s."id"::text, s."left_at", s."why", s."100%%"
FROM unnest(%s::bpchar[]) AS given(key_0), "peo""ple" AS s
WHERE s."id" = given.key_0 AND s."tenant" = 7 AND s."active" = true AND s."deleted_at" IS NULL;

-- lock subscribers
SELECT s."id"::text
FROM "peo""ple" AS s
WHERE s."id" = ANY(%s::bpchar[]) AND s."tenant" = 7 AND s."active" = true AND s."deleted_at" IS NULL
ORDER BY s."id" FOR NO KEY UPDATE OF s;

-- lock subscribers, skipping locked rows
SELECT s."id"::text
FROM "peo""ple" AS s
WHERE s."id" = ANY(%s::bpchar[]) AND s."tenant" = 7 AND s."active" = true AND s."deleted_at" IS NULL
ORDER BY s."id" FOR NO KEY UPDATE OF s SKIP LOCKED;

-- read dispatches
SELECT d."key", d."got", d."saw"
FROM unnest(%s::uuid[]) AS given(key_0), "mail"."sends" AS d
WHERE d."key" = given.key_0 AND d."state" IS NULL;

-- lock dispatches
SELECT d."key"
FROM "mail"."sends" AS d
WHERE d."key" = ANY(%s::uuid[]) AND d."state" IS NULL
ORDER BY d."key" FOR NO KEY UPDATE OF d;

-- lock dispatches, skipping locked rows
SELECT d."key"
FROM "mail"."sends" AS d
WHERE d."key" = ANY(%s::uuid[]) AND d."state" IS NULL
ORDER BY d."key" FOR NO KEY UPDATE OF d SKIP LOCKED;

-- read subscriptions
SELECT b."list_id", b."subscriber_id"::text, b."left_at"
FROM unnest(%s::bigint[], %s::bpchar[]) AS given(key_0, key_1), "members" AS b
WHERE b."list_id" = given.key_0 AND b."subscriber_id" = given.key_1;

-- lock subscriptions
SELECT b."list_id", b."subscriber_id"::text
FROM unnest(%s::bigint[], %s::bpchar[]) AS given(key_0, key_1), "members" AS b
WHERE b."list_id" = given.key_0 AND b."subscriber_id" = given.key_1
ORDER BY b."list_id", b."subscriber_id" FOR NO KEY UPDATE OF b;

-- lock subscriptions, skipping locked rows
SELECT b."list_id", b."subscriber_id"::text
FROM unnest(%s::bigint[], %s::bpchar[]) AS given(key_0, key_1), "members" AS b
WHERE b."list_id" = given.key_0 AND b."subscriber_id" = given.key_1
ORDER BY b."list_id", b."subscriber_id" FOR NO KEY UPDATE OF b SKIP LOCKED;

-- set delivered_at
UPDATE "mail"."sends" AS d SET "got" = given.delivered_at AT TIME ZONE 'UTC'
FROM unnest(%s::uuid[], %s::timestamp with time zone[]) AS given(key_0, delivered_at)
WHERE d."key" = given.key_0 AND d."state" IS NULL;

-- set delivered_at late
UPDATE "mail"."sends" AS d SET "got" = given.delivered_at AT TIME ZONE 'UTC'
FROM unnest(%s::uuid[], %s::timestamp with time zone[]) AS given(key_0, delivered_at)
WHERE d."key" = given.key_0 AND (d."got" IS NULL OR d."got" < given.delivered_at AT TIME ZONE 'UTC') AND d."state" IS NULL;

-- set opened_at
UPDATE "mail"."sends" AS d SET "saw" = given.opened_at
FROM unnest(%s::uuid[], %s::timestamp with time zone[]) AS given(key_0, opened_at)
WHERE d."key" = given.key_0 AND d."state" IS NULL;

-- set opened_at late
UPDATE "mail"."sends" AS d SET "saw" = given.opened_at
FROM unnest(%s::uuid[], %s::timestamp with time zone[]) AS given(key_0, opened_at)
WHERE d."key" = given.key_0 AND (d."saw" IS NULL OR d."saw" < given.opened_at) AND d."state" IS NULL;

-- set the suppression of subscribers
UPDATE "peo""ple" AS s SET "left_at" = given.suppressed_at AT TIME ZONE 'UTC', "why" = given.suppression_reason, "100%%" = given.suppression_changed_at AT TIME ZONE 'UTC'
FROM unnest(%s::bpchar[], %s::timestamp with time zone[], %s::crm.reason[], %s::timestamp with time zone[]) AS given(key_0, suppressed_at, suppression_reason, suppression_changed_at)
WHERE s."id" = given.key_0 AND s."tenant" = 7 AND s."active" = true AND s."deleted_at" IS NULL;

-- set the suppression of subscribers late
UPDATE "peo""ple" AS s SET "left_at" = given.suppressed_at AT TIME ZONE 'UTC', "why" = given.suppression_reason, "100%%" = given.suppression_changed_at AT TIME ZONE 'UTC'
FROM unnest(%s::bpchar[], %s::timestamp with time zone[], %s::crm.reason[], %s::timestamp with time zone[]) AS given(key_0, suppressed_at, suppression_reason, suppression_changed_at)
WHERE s."id" = given.key_0 AND (s."100%%" IS NULL OR s."100%%" <= given.suppression_changed_at AT TIME ZONE 'UTC') AND s."tenant" = 7 AND s."active" = true AND s."deleted_at" IS NULL;

-- date the suppression of subscriptions
INSERT INTO "mail"."hookrow_suppression_changes" AS kept (role, row_key, changed_at)
SELECT 'subscriptions' AS role, given.row_key, given.suppression_changed_at
FROM unnest(%s::bigint[], %s::bpchar[], %s::text[], %s::timestamp with time zone[]) AS given(key_0, key_1, row_key, suppression_changed_at)
WHERE EXISTS (SELECT 1 FROM "members" AS b WHERE b."list_id" = given.key_0 AND b."subscriber_id" = given.key_1)
ORDER BY role, row_key
ON CONFLICT (role, row_key) DO UPDATE SET
changed_at = greatest(kept.changed_at, excluded.changed_at);

-- set the suppression of subscriptions
UPDATE "members" AS b SET "left_at" = given.suppressed_at
FROM unnest(%s::bigint[], %s::bpchar[], %s::timestamp with time zone[], %s::text[], %s::timestamp with time zone[]) AS given(key_0, key_1, suppressed_at, row_key, suppression_changed_at)
WHERE b."list_id" = given.key_0 AND b."subscriber_id" = given.key_1
AND EXISTS (SELECT 1 FROM "mail"."hookrow_suppression_changes" AS dated WHERE dated.role = 'subscriptions'
    AND dated.row_key = given.row_key AND dated.changed_at <= given.suppression_changed_at);

-- read the dates of subscriptions
SELECT row_key, changed_at FROM "mail"."hookrow_suppression_changes" WHERE role = 'subscriptions' AND row_key = ANY(%s::text[]);

-- add entries to the log
INSERT INTO "mail"."notifications" AS kept (fingerprint, record_type, message_id, recipient, occurred_at, outcome, status, attempts, received_at, last_received_at, ended_at, retry_at, body, reason, provider, source, trace_id, entry, change_number, first_outcome)
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
INSERT INTO "mail"."notifications" AS kept (id, fingerprint, record_type, message_id, recipient, occurred_at, outcome, status, attempts, received_at, last_received_at, ended_at, retry_at, body, reason, provider, source, trace_id, entry, change_number, first_outcome)
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
    EXISTS (SELECT 1 FROM "mail"."sends" AS d CROSS JOIN "peo""ple" AS s
        WHERE d."postmark_id" = (CASE WHEN n.message_id ~* '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' THEN n.message_id END)::uuid AND s."id" = d."person"::bpchar AND lower(s."address") = lower(n.recipient) AND d."state" IS NULL AND s."tenant" = 7 AND s."active" = true AND s."deleted_at" IS NULL)
    OR ((n.reason IS NOT NULL OR n.record_type = 'SubscriptionChange')
        AND n.outcome = 'subscriber_not_found'
        AND EXISTS (SELECT 1 FROM "peo""ple" AS s WHERE lower(s."address") = lower(n.recipient) AND s."tenant" = 7 AND s."active" = true AND s."deleted_at" IS NULL))
);

-- probe 1
SELECT FROM "peo""ple" WHERE 1 = 0 FOR NO KEY UPDATE;

-- probe 2
SELECT FROM "mail"."sends" WHERE 1 = 0 FOR NO KEY UPDATE;

-- probe 3
SELECT FROM "members" WHERE 1 = 0 FOR NO KEY UPDATE;

-- probe 4
SELECT FROM "mail"."notifications" WHERE 1 = 0 FOR NO KEY UPDATE;

-- a group of deliveries
WITH hookrow_locked_dispatches AS MATERIALIZED (
SELECT d."key"
FROM "mail"."sends" AS d
WHERE d."key" = ANY(%s::uuid[]) AND d."state" IS NULL
ORDER BY d."key" FOR NO KEY UPDATE OF d),
hookrow_changed_0 AS MATERIALIZED (
UPDATE "mail"."sends" AS d SET "got" = given.delivered_at AT TIME ZONE 'UTC'
FROM unnest(%s::uuid[], %s::timestamp with time zone[]) AS given(key_0, delivered_at)
WHERE d."key" = given.key_0 AND d."state" IS NULL
AND (SELECT count(*) FROM hookrow_locked_dispatches) >= 0
RETURNING 1),
hookrow_changed_1 AS MATERIALIZED (
INSERT INTO "mail"."notifications" AS kept (fingerprint, record_type, message_id, recipient, occurred_at, outcome, status, attempts, received_at, last_received_at, ended_at, retry_at, body, reason, provider, source, trace_id, entry, change_number, first_outcome)
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
SELECT d."key" AS key_0, d."got" AS delivered_at
FROM "mail"."sends" AS d
WHERE d."key" = ANY(%s::uuid[]) AND d."state" IS NULL
ORDER BY d."key" FOR NO KEY UPDATE OF d),
hookrow_given_0 AS MATERIALIZED (SELECT * FROM unnest(%s::uuid[], %s::timestamp with time zone[]) AS given(key_0, delivered_at)),
hookrow_changed_0 AS MATERIALIZED (
UPDATE "mail"."sends" AS d SET "got" = given.delivered_at AT TIME ZONE 'UTC'
FROM hookrow_given_0 AS given
WHERE d."key" = given.key_0 AND (d."got" IS NULL OR d."got" < given.delivered_at AT TIME ZONE 'UTC') AND d."state" IS NULL
AND (SELECT count(*) FROM hookrow_locked_dispatches) >= 0
RETURNING 1),
hookrow_changed_1 AS MATERIALIZED (
INSERT INTO "mail"."notifications" AS kept (fingerprint, record_type, message_id, recipient, occurred_at, outcome, status, attempts, received_at, last_received_at, ended_at, retry_at, body, reason, provider, source, trace_id, entry, change_number, first_outcome)
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
    SELECT count(*) FROM hookrow_given_0 AS given JOIN hookrow_locked_dispatches AS locked ON locked.key_0 = given.key_0 WHERE (locked.delivered_at IS NULL OR locked.delivered_at < given.delivered_at AT TIME ZONE 'UTC')))
AND (SELECT count(*) FROM hookrow_changed_1) = %s
THEN 1 ELSE 0 END;

-- a group of suppressions
WITH hookrow_locked_subscribers AS MATERIALIZED (
SELECT s."id" AS key_0, s."100%%" AS suppression_changed_at
FROM "peo""ple" AS s
WHERE s."id" = ANY(%s::bpchar[]) AND s."tenant" = 7 AND s."active" = true AND s."deleted_at" IS NULL
ORDER BY s."id" FOR NO KEY UPDATE OF s),
hookrow_locked_subscriptions AS MATERIALIZED (
SELECT b."list_id", b."subscriber_id"::text
FROM unnest(%s::bigint[], %s::bpchar[]) AS given(key_0, key_1), "members" AS b
WHERE b."list_id" = given.key_0 AND b."subscriber_id" = given.key_1
AND (SELECT count(*) FROM hookrow_locked_subscribers) >= 0
ORDER BY b."list_id", b."subscriber_id" FOR NO KEY UPDATE OF b),
hookrow_dated_subscriptions AS MATERIALIZED (
INSERT INTO "mail"."hookrow_suppression_changes" AS kept (role, row_key, changed_at)
SELECT 'subscriptions' AS role, given.row_key, given.suppression_changed_at
FROM unnest(%s::bigint[], %s::bpchar[], %s::text[], %s::timestamp with time zone[]) AS given(key_0, key_1, row_key, suppression_changed_at)
WHERE EXISTS (SELECT 1 FROM "members" AS b WHERE b."list_id" = given.key_0 AND b."subscriber_id" = given.key_1)
AND (SELECT count(*) FROM hookrow_locked_subscriptions) >= 0
ORDER BY role, row_key
ON CONFLICT (role, row_key) DO UPDATE SET
changed_at = greatest(kept.changed_at, excluded.changed_at)
RETURNING role, row_key, changed_at),
hookrow_given_1 AS MATERIALIZED (SELECT * FROM unnest(%s::bigint[], %s::bpchar[], %s::timestamp with time zone[], %s::text[], %s::timestamp with time zone[]) AS given(key_0, key_1, suppressed_at, row_key, suppression_changed_at)),
hookrow_changed_1 AS MATERIALIZED (
UPDATE "members" AS b SET "left_at" = given.suppressed_at
FROM hookrow_given_1 AS given
WHERE b."list_id" = given.key_0 AND b."subscriber_id" = given.key_1
AND EXISTS (SELECT 1 FROM hookrow_dated_subscriptions AS dated WHERE dated.role = 'subscriptions'
    AND dated.row_key = given.row_key AND dated.changed_at <= given.suppression_changed_at)
AND (SELECT count(*) FROM hookrow_dated_subscriptions) >= 0
RETURNING 1),
hookrow_given_2 AS MATERIALIZED (SELECT * FROM unnest(%s::bpchar[], %s::timestamp with time zone[], %s::crm.reason[], %s::timestamp with time zone[]) AS given(key_0, suppressed_at, suppression_reason, suppression_changed_at)),
hookrow_changed_2 AS MATERIALIZED (
UPDATE "peo""ple" AS s SET "left_at" = given.suppressed_at AT TIME ZONE 'UTC', "why" = given.suppression_reason, "100%%" = given.suppression_changed_at AT TIME ZONE 'UTC'
FROM hookrow_given_2 AS given
WHERE s."id" = given.key_0 AND (s."100%%" IS NULL OR s."100%%" <= given.suppression_changed_at AT TIME ZONE 'UTC') AND s."tenant" = 7 AND s."active" = true AND s."deleted_at" IS NULL
AND (SELECT count(*) FROM hookrow_changed_1) >= 0
RETURNING 1),
hookrow_changed_3 AS MATERIALIZED (
INSERT INTO "mail"."notifications" AS kept (fingerprint, record_type, message_id, recipient, occurred_at, outcome, status, attempts, received_at, last_received_at, ended_at, retry_at, body, reason, provider, source, trace_id, entry, change_number, first_outcome)
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
AND (SELECT count(*) FROM hookrow_locked_subscriptions) = %s
AND (SELECT count(*) FROM hookrow_dated_subscriptions) = %s
AND ((SELECT count(*) FROM hookrow_changed_1) = %s OR (SELECT count(*) FROM hookrow_changed_1) = (
    SELECT count(*) FROM hookrow_given_1 AS given JOIN hookrow_dated_subscriptions AS dated ON dated.row_key = given.row_key
    WHERE dated.changed_at <= given.suppression_changed_at))
AND ((SELECT count(*) FROM hookrow_changed_2) = %s OR (SELECT count(*) FROM hookrow_changed_2) = (
    SELECT count(*) FROM hookrow_given_2 AS given JOIN hookrow_locked_subscribers AS locked ON locked.key_0 = given.key_0 WHERE (locked.suppression_changed_at IS NULL OR locked.suppression_changed_at <= given.suppression_changed_at AT TIME ZONE 'UTC')))
AND (SELECT count(*) FROM hookrow_changed_3) = %s
THEN 1 ELSE 0 END;

-- a group of opens and suppressions
WITH hookrow_locked_subscribers AS MATERIALIZED (
SELECT s."id" AS key_0, s."100%%" AS suppression_changed_at
FROM "peo""ple" AS s
WHERE s."id" = ANY(%s::bpchar[]) AND s."tenant" = 7 AND s."active" = true AND s."deleted_at" IS NULL
ORDER BY s."id" FOR NO KEY UPDATE OF s),
hookrow_locked_dispatches AS MATERIALIZED (
SELECT d."key"
FROM "mail"."sends" AS d
WHERE d."key" = ANY(%s::uuid[]) AND d."state" IS NULL
AND (SELECT count(*) FROM hookrow_locked_subscribers) >= 0
ORDER BY d."key" FOR NO KEY UPDATE OF d),
hookrow_locked_subscriptions AS MATERIALIZED (
SELECT b."list_id", b."subscriber_id"::text
FROM unnest(%s::bigint[], %s::bpchar[]) AS given(key_0, key_1), "members" AS b
WHERE b."list_id" = given.key_0 AND b."subscriber_id" = given.key_1
AND (SELECT count(*) FROM hookrow_locked_dispatches) >= 0
ORDER BY b."list_id", b."subscriber_id" FOR NO KEY UPDATE OF b),
hookrow_dated_subscriptions AS MATERIALIZED (
INSERT INTO "mail"."hookrow_suppression_changes" AS kept (role, row_key, changed_at)
SELECT 'subscriptions' AS role, given.row_key, given.suppression_changed_at
FROM unnest(%s::bigint[], %s::bpchar[], %s::text[], %s::timestamp with time zone[]) AS given(key_0, key_1, row_key, suppression_changed_at)
WHERE EXISTS (SELECT 1 FROM "members" AS b WHERE b."list_id" = given.key_0 AND b."subscriber_id" = given.key_1)
AND (SELECT count(*) FROM hookrow_locked_subscriptions) >= 0
ORDER BY role, row_key
ON CONFLICT (role, row_key) DO UPDATE SET
changed_at = greatest(kept.changed_at, excluded.changed_at)
RETURNING role, row_key, changed_at),
hookrow_changed_1 AS MATERIALIZED (
UPDATE "mail"."sends" AS d SET "saw" = given.opened_at
FROM unnest(%s::uuid[], %s::timestamp with time zone[]) AS given(key_0, opened_at)
WHERE d."key" = given.key_0 AND d."state" IS NULL
AND (SELECT count(*) FROM hookrow_dated_subscriptions) >= 0
RETURNING 1),
hookrow_given_2 AS MATERIALIZED (SELECT * FROM unnest(%s::bigint[], %s::bpchar[], %s::timestamp with time zone[], %s::text[], %s::timestamp with time zone[]) AS given(key_0, key_1, suppressed_at, row_key, suppression_changed_at)),
hookrow_changed_2 AS MATERIALIZED (
UPDATE "members" AS b SET "left_at" = given.suppressed_at
FROM hookrow_given_2 AS given
WHERE b."list_id" = given.key_0 AND b."subscriber_id" = given.key_1
AND EXISTS (SELECT 1 FROM hookrow_dated_subscriptions AS dated WHERE dated.role = 'subscriptions'
    AND dated.row_key = given.row_key AND dated.changed_at <= given.suppression_changed_at)
AND (SELECT count(*) FROM hookrow_changed_1) >= 0
RETURNING 1),
hookrow_given_3 AS MATERIALIZED (SELECT * FROM unnest(%s::bpchar[], %s::timestamp with time zone[], %s::crm.reason[], %s::timestamp with time zone[]) AS given(key_0, suppressed_at, suppression_reason, suppression_changed_at)),
hookrow_changed_3 AS MATERIALIZED (
UPDATE "peo""ple" AS s SET "left_at" = given.suppressed_at AT TIME ZONE 'UTC', "why" = given.suppression_reason, "100%%" = given.suppression_changed_at AT TIME ZONE 'UTC'
FROM hookrow_given_3 AS given
WHERE s."id" = given.key_0 AND (s."100%%" IS NULL OR s."100%%" <= given.suppression_changed_at AT TIME ZONE 'UTC') AND s."tenant" = 7 AND s."active" = true AND s."deleted_at" IS NULL
AND (SELECT count(*) FROM hookrow_changed_2) >= 0
RETURNING 1),
hookrow_changed_4 AS MATERIALIZED (
INSERT INTO "mail"."notifications" AS kept (fingerprint, record_type, message_id, recipient, occurred_at, outcome, status, attempts, received_at, last_received_at, ended_at, retry_at, body, reason, provider, source, trace_id, entry, change_number, first_outcome)
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
AND (SELECT count(*) FROM hookrow_dated_subscriptions) = %s
AND (SELECT count(*) FROM hookrow_changed_1) = %s
AND ((SELECT count(*) FROM hookrow_changed_2) = %s OR (SELECT count(*) FROM hookrow_changed_2) = (
    SELECT count(*) FROM hookrow_given_2 AS given JOIN hookrow_dated_subscriptions AS dated ON dated.row_key = given.row_key
    WHERE dated.changed_at <= given.suppression_changed_at))
AND ((SELECT count(*) FROM hookrow_changed_3) = %s OR (SELECT count(*) FROM hookrow_changed_3) = (
    SELECT count(*) FROM hookrow_given_3 AS given JOIN hookrow_locked_subscribers AS locked ON locked.key_0 = given.key_0 WHERE (locked.suppression_changed_at IS NULL OR locked.suppression_changed_at <= given.suppression_changed_at AT TIME ZONE 'UTC')))
AND (SELECT count(*) FROM hookrow_changed_4) = %s
THEN 1 ELSE 0 END;

-- count rows by list
SELECT m."list_id", count(d."postmark_id"), count(d."got"), count(d."saw") FROM "mail"."sends" AS d LEFT JOIN "campaigns" AS m ON m."id" = d."campaign" AND m."tenant" = 7 WHERE true AND d."state" IS NULL GROUP BY 1;

-- count rows by list
SELECT b."list_id", count(*), count(b."left_at") FROM "members" AS b WHERE true GROUP BY 1;

-- count the suppressed by reason
SELECT NULLIF(coalesce(CAST(s."why" AS text), ''), ''), count(*) FROM "peo""ple" AS s WHERE s."left_at" IS NOT NULL AND s."tenant" = 7 AND s."active" = true AND s."deleted_at" IS NULL GROUP BY 1;

-- count undelivered dispatches
SELECT count(*) FROM "mail"."sends" AS d WHERE d."postmark_id" IS NOT NULL AND d."got" IS NULL AND d."state" IS NULL;

-- list undelivered dispatches
SELECT d."postmark_id"::text, NULL, NULL, d."key" FROM "mail"."sends" AS d WHERE d."postmark_id" IS NOT NULL AND d."got" IS NULL AND d."state" IS NULL ORDER BY d."key" LIMIT 10;

-- list more of them
SELECT d."postmark_id"::text, NULL, NULL, d."key" FROM "mail"."sends" AS d WHERE d."postmark_id" IS NOT NULL AND d."got" IS NULL AND d."state" IS NULL AND d."key" > %s::uuid ORDER BY d."key" LIMIT 10;

-- step through suppressions
SELECT s."left_at"::text, s."id"::text FROM (SELECT s."left_at", s."id" FROM "peo""ple" AS s WHERE s."left_at" IS NOT NULL AND (s."left_at", s."id") > (%s::timestamp without time zone, %s::bpchar) AND (s."left_at", s."id") <= (%s::timestamp without time zone, %s::bpchar) AND s."left_at" >= %s::timestamp with time zone AT TIME ZONE 'UTC' ORDER BY s."left_at" ASC, s."id" ASC LIMIT 1 OFFSET 99) AS s;

-- read suppressions
SELECT s."left_at", s."address", substr(coalesce(CAST(s."why" AS text), ''), 1, 1000), s."left_at"::text, s."id"::text FROM "peo""ple" AS s WHERE s."left_at" IS NOT NULL AND s."tenant" = 7 AND s."active" = true AND s."deleted_at" IS NULL ORDER BY s."left_at" DESC, s."id" DESC LIMIT 10;

-- read suppressions of a reason
SELECT s."left_at", s."address", substr(coalesce(CAST(s."why" AS text), ''), 1, 1000), s."left_at"::text, s."id"::text FROM "peo""ple" AS s WHERE s."left_at" IS NOT NULL AND (s."left_at", s."id") > (%s::timestamp without time zone, %s::bpchar) AND (s."left_at", s."id") <= (%s::timestamp without time zone, %s::bpchar) AND s."left_at" >= %s::timestamp with time zone AT TIME ZONE 'UTC' AND coalesce(CAST(s."why" AS text), '') = %s AND s."tenant" = 7 AND s."active" = true AND s."deleted_at" IS NULL ORDER BY s."left_at" ASC, s."id" ASC LIMIT 10;

-- read suppressions of an entry
SELECT s."left_at", s."address", substr(coalesce(CAST(s."why" AS text), ''), 1, 1000), s."left_at"::text, s."id"::text FROM "peo""ple" AS s WHERE s."left_at" IS NOT NULL AND (SELECT 1 FROM "mail"."notifications" AS n WHERE n.reason IS NOT NULL AND n.recipient = lower(s."address" COLLATE "C") COLLATE "default" AND n.entry = %s AND n.outcome IN ('dispatch_not_found', 'recipient_mismatch', 'recorded', 'unmapped') LIMIT 1) = 1 AND s."tenant" = 7 AND s."active" = true AND s."deleted_at" IS NULL ORDER BY s."left_at" DESC, s."id" DESC LIMIT 10;

-- count suppressions
SELECT count(*) FROM (SELECT 1 FROM "peo""ple" AS s WHERE s."left_at" IS NOT NULL AND s."tenant" = 7 AND s."active" = true AND s."deleted_at" IS NULL ORDER BY s."left_at" DESC, s."id" DESC LIMIT 10) AS found;

-- changes in the log
SELECT id, message_id, recipient, reason, entry, occurred_at, received_at, last_received_at FROM "mail"."notifications" WHERE (record_type = 'SubscriptionChange' OR reason IS NOT NULL) AND outcome IN ('dispatch_not_found', 'recipient_mismatch', 'recorded', 'unmapped') AND recipient IN (%s) ORDER BY id + 0 DESC LIMIT 10;

-- lists
WITH RECURSIVE found (list_id) AS (SELECT (SELECT b."list_id" FROM "members" AS b WHERE b."list_id" IS NOT NULL ORDER BY b."list_id" LIMIT 1)::bigint UNION ALL SELECT (SELECT b."list_id" FROM "members" AS b WHERE b."list_id" > found.list_id ORDER BY b."list_id" LIMIT 1)::bigint FROM found WHERE list_id IS NOT NULL) SELECT list_id FROM found WHERE list_id IS NOT NULL LIMIT 10;

-- the size of a list
SELECT count(*) FROM (SELECT 1 FROM "members" AS b WHERE b."list_id" = %s::bigint LIMIT 10000) AS found;

-- read suppressions of a list
SELECT s."left_at", s."address", substr(coalesce(CAST(s."why" AS text), ''), 1, 1000), s."left_at"::text, s."id"::text FROM "peo""ple" AS s WHERE s."left_at" IS NOT NULL AND (SELECT 1 FROM "members" AS b WHERE b."list_id" = %s::bigint AND s."id" = b."subscriber_id"::bpchar LIMIT 1) = 1 AND s."tenant" = 7 AND s."active" = true AND s."deleted_at" IS NULL ORDER BY s."left_at" DESC, s."id" DESC LIMIT 10;

-- read those of a small list
SELECT s."left_at", s."address", substr(coalesce(CAST(s."why" AS text), ''), 1, 1000), s."left_at"::text, s."id"::text FROM "peo""ple" AS s WHERE s."left_at" IS NOT NULL AND s."id" = ANY(ARRAY(SELECT b."subscriber_id"::bpchar FROM "members" AS b WHERE b."list_id" = %s::bigint)) AND s."tenant" = 7 AND s."active" = true AND s."deleted_at" IS NULL ORDER BY s."left_at" DESC, s."id" DESC LIMIT 10;

-- emails that begin with a text
SELECT s."address" FROM (SELECT s."id", s."address", s."left_at", s."why", s."100%%", s."tenant", s."active", s."deleted_at" FROM "peo""ple" AS s WHERE lower(s."address") >= %s::text ORDER BY lower(s."address") LIMIT 10) AS s WHERE s."address" IS NOT NULL AND s."tenant" = 7 AND s."active" = true AND s."deleted_at" IS NULL;

-- the messages of a subscriber
SELECT d."key", d."postmark_id"::text, NULL, m."list_id", NULL FROM "peo""ple" AS s JOIN "mail"."sends" AS d ON s."id" = d."person"::bpchar LEFT JOIN "campaigns" AS m ON m."id" = d."campaign" AND m."tenant" = 7 WHERE s."id" = %s::bpchar AND s."tenant" = 7 AND s."active" = true AND s."deleted_at" IS NULL AND d."state" IS NULL ORDER BY d."key" DESC LIMIT 10;

-- the lists of a subscriber
SELECT b."list_id", b."subscriber_id"::text, NULL FROM "peo""ple" AS s JOIN "members" AS b ON s."id" = b."subscriber_id"::bpchar WHERE s."id" = %s::bpchar AND s."tenant" = 7 AND s."active" = true AND s."deleted_at" IS NULL ORDER BY b."list_id" LIMIT 10;
