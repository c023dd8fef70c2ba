-- find
SELECT s."id", CAST(s."email" AS TEXT), NULL, NULL, NULL
FROM "people" AS s
WHERE lower(s."email") IN (SELECT value FROM json_each(%s)) AND s."deleted_at" IS NULL;

-- read subscribers
SELECT s."id", s."suppressed_at", s."suppression_reason", s."suppression_changed_at"
FROM (SELECT %s AS key_0) AS given CROSS JOIN "people" AS s
WHERE s."id" = given.key_0 AND s."deleted_at" IS NULL;

-- set the suppression of subscribers
UPDATE "people" SET "suppressed_at" = %s, "suppression_reason" = %s, "suppression_changed_at" = %s
WHERE "people"."id" = %s AND "people"."deleted_at" IS NULL;

-- set the suppression of subscribers late
UPDATE "people" SET "suppressed_at" = %s, "suppression_reason" = %s, "suppression_changed_at" = %s
WHERE "people"."id" = %s AND ("people"."suppression_changed_at" IS NULL OR "people"."suppression_changed_at" <= %s) AND "people"."deleted_at" IS NULL;

-- add entries to the log
INSERT INTO "hookrow_notifications" AS kept (fingerprint, record_type, message_id, recipient, occurred_at, outcome, status, attempts, received_at, last_received_at, ended_at, retry_at, body, reason, provider, source, trace_id, entry, change_number, first_outcome)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
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
VALUES (-1 - (random() & 2147483647), %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
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
        AND EXISTS (SELECT 1 FROM "people" AS s WHERE lower(s."email") = +n.recipient AND s."deleted_at" IS NULL))
);

-- probe 1
UPDATE "people" SET "suppressed_at" = "suppressed_at" WHERE 1 = 0;

-- probe 2
UPDATE "hookrow_notifications" SET "attempts" = "attempts" WHERE 1 = 0;

-- count the suppressed by reason
SELECT NULLIF(coalesce(CAST(s."suppression_reason" AS text), ''), ''), count(*) FROM "people" AS s WHERE s."suppressed_at" IS NOT NULL AND s."deleted_at" IS NULL GROUP BY 1;

-- step through suppressions
SELECT CAST(s."suppressed_at" AS TEXT), s."id" FROM (SELECT s."suppressed_at", s."id" FROM "people" AS s WHERE s."suppressed_at" IS NOT NULL AND (s."suppressed_at", s."id") > (%s, %s) AND (s."suppressed_at", s."id") <= (%s, %s) AND s."suppressed_at" >= %s ORDER BY s."suppressed_at" ASC, s."id" ASC LIMIT 1 OFFSET 99) AS s;

-- read suppressions
SELECT s."suppressed_at", CAST(s."email" AS TEXT), substr(coalesce(CAST(s."suppression_reason" AS text), ''), 1, 1000), CAST(s."suppressed_at" AS TEXT), s."id" FROM "people" AS s WHERE s."suppressed_at" IS NOT NULL AND s."deleted_at" IS NULL ORDER BY s."suppressed_at" DESC, s."id" DESC LIMIT 10;

-- read suppressions of a reason
SELECT s."suppressed_at", CAST(s."email" AS TEXT), substr(coalesce(CAST(s."suppression_reason" AS text), ''), 1, 1000), CAST(s."suppressed_at" AS TEXT), s."id" FROM "people" AS s WHERE s."suppressed_at" IS NOT NULL AND (s."suppressed_at", s."id") > (%s, %s) AND (s."suppressed_at", s."id") <= (%s, %s) AND s."suppressed_at" >= %s AND s."suppression_reason" = %s AND length(s."suppression_reason") <= 64 AND s."deleted_at" IS NULL ORDER BY s."suppressed_at" ASC, s."id" ASC LIMIT 10;

-- read suppressions of an entry
SELECT s."suppressed_at", CAST(s."email" AS TEXT), substr(coalesce(CAST(s."suppression_reason" AS text), ''), 1, 1000), CAST(s."suppressed_at" AS TEXT), s."id" FROM "people" AS s WHERE s."suppressed_at" IS NOT NULL AND (SELECT 1 FROM "hookrow_notifications" AS n WHERE n.reason IS NOT NULL AND n.recipient = lower(CAST(s."email" AS TEXT)) AND n.entry = %s AND n.outcome IN ('dispatch_not_found', 'recipient_mismatch', 'recorded', 'unmapped') LIMIT 1) = 1 AND s."deleted_at" IS NULL ORDER BY s."suppressed_at" DESC, s."id" DESC LIMIT 10;

-- count suppressions
SELECT count(*) FROM (SELECT 1 FROM "people" AS s WHERE s."suppressed_at" IS NOT NULL AND s."deleted_at" IS NULL ORDER BY s."suppressed_at" DESC, s."id" DESC LIMIT 10) AS found;

-- changes in the log
SELECT id, message_id, recipient, reason, entry, occurred_at, received_at, last_received_at FROM "hookrow_notifications" WHERE (record_type = 'SubscriptionChange' OR reason IS NOT NULL) AND outcome IN ('dispatch_not_found', 'recipient_mismatch', 'recorded', 'unmapped') AND recipient IN (%s) ORDER BY id + 0 DESC LIMIT 10;

-- emails that begin with a text
SELECT CAST(s."email" AS TEXT) FROM (SELECT s."id", s."email", s."suppressed_at", s."suppression_reason", s."suppression_changed_at", s."deleted_at" FROM "people" AS s WHERE lower(s."email") >= %s ORDER BY lower(s."email") LIMIT 10) AS s WHERE s."email" IS NOT NULL AND s."deleted_at" IS NULL;
