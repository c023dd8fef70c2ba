-- find owners
SELECT o."id", CAST(o."email" AS TEXT), CAST(d."provider_message_id" AS TEXT), d."id", d."list_id", CAST(o."team" AS TEXT), CAST(d."team_name" AS TEXT)
FROM "mails" AS d
LEFT JOIN "people" AS o ON o."id" = d."subscriber_id"
WHERE d."provider_message_id" IN (SELECT value FROM json_each(%s)) AND d."team_name" IN (SELECT value FROM json_each(%s));

-- find
SELECT s."id", CAST(s."email" AS TEXT), NULL, NULL, NULL, CAST(s."team" AS TEXT), NULL
FROM (SELECT json_extract(value, '$[0]') AS email, json_extract(value, '$[1]') AS subscribers FROM json_each(%s)) AS given CROSS JOIN "people" AS s
WHERE lower(s."email") = +given.email AND s."team" = given.subscribers
UNION ALL
SELECT o."id", CAST(o."email" AS TEXT), CAST(d."provider_message_id" AS TEXT), d."id", d."list_id", CAST(o."team" AS TEXT), CAST(d."team_name" AS TEXT)
FROM "mails" AS d
LEFT JOIN "people" AS o ON o."id" = d."subscriber_id"
WHERE d."provider_message_id" IN (SELECT value FROM json_each(%s)) AND d."team_name" IN (SELECT value FROM json_each(%s))
UNION ALL
SELECT b."subscriber_id", NULL, NULL, NULL, b."list_id", NULL, CAST(b."team" AS TEXT)
FROM "mails" AS d
JOIN "members" AS b ON b."list_id" = d."list_id" AND b."subscriber_id" = d."subscriber_id"
WHERE d."provider_message_id" IN (SELECT value FROM json_each(%s)) AND d."team_name" IN (SELECT value FROM json_each(%s));

-- find pairs of subscriptions
SELECT b."list_id", b."subscriber_id", given.key_0, given.key_1, CAST(b."team" AS TEXT)
FROM (SELECT %s AS key_0, %s AS key_1) AS given CROSS JOIN "members" AS b
WHERE b."list_id" = given.key_0 AND b."subscriber_id" = given.key_1;

-- read subscribers
SELECT s."id", s."suppressed_at", s."suppression_reason", s."suppression_changed_at"
FROM (SELECT %s AS key_0) AS given CROSS JOIN "people" AS s
WHERE s."id" = given.key_0;

-- read dispatches
SELECT d."id", d."delivered_at", d."opened_at", d."suppressed_at", d."suppression_reason", d."suppression_changed_at"
FROM (SELECT %s AS key_0) AS given CROSS JOIN "mails" AS d
WHERE d."id" = given.key_0;

-- read subscriptions
SELECT b."list_id", b."subscriber_id", b."suppressed_at", b."suppression_reason", b."suppression_changed_at"
FROM (SELECT %s AS key_0, %s AS key_1) AS given CROSS JOIN "members" AS b
WHERE b."list_id" = given.key_0 AND b."subscriber_id" = given.key_1;

-- set delivered_at
UPDATE "mails" SET "delivered_at" = %s
WHERE "mails"."id" = %s;

-- set delivered_at late
UPDATE "mails" SET "delivered_at" = %s
WHERE "mails"."id" = %s AND ("mails"."delivered_at" IS NULL OR "mails"."delivered_at" < %s);

-- set opened_at
UPDATE "mails" SET "opened_at" = %s
WHERE "mails"."id" = %s;

-- set opened_at late
UPDATE "mails" SET "opened_at" = %s
WHERE "mails"."id" = %s AND ("mails"."opened_at" IS NULL OR "mails"."opened_at" < %s);

-- set the suppression of subscribers
UPDATE "people" SET "suppressed_at" = %s, "suppression_reason" = %s, "suppression_changed_at" = %s
WHERE "people"."id" = %s;

-- set the suppression of subscribers late
UPDATE "people" SET "suppressed_at" = %s, "suppression_reason" = %s, "suppression_changed_at" = %s
WHERE "people"."id" = %s AND ("people"."suppression_changed_at" IS NULL OR "people"."suppression_changed_at" <= %s);

-- set the suppression of dispatches
UPDATE "mails" SET "suppressed_at" = %s, "suppression_reason" = %s, "suppression_changed_at" = %s
WHERE "mails"."id" = %s;

-- set the suppression of dispatches late
UPDATE "mails" SET "suppressed_at" = %s, "suppression_reason" = %s, "suppression_changed_at" = %s
WHERE "mails"."id" = %s AND ("mails"."suppression_changed_at" IS NULL OR "mails"."suppression_changed_at" <= %s);

-- set the suppression of subscriptions
UPDATE "members" SET "suppressed_at" = %s, "suppression_reason" = %s, "suppression_changed_at" = %s
WHERE "members"."list_id" = %s AND "members"."subscriber_id" = %s;

-- set the suppression of subscriptions late
UPDATE "members" SET "suppressed_at" = %s, "suppression_reason" = %s, "suppression_changed_at" = %s
WHERE "members"."list_id" = %s AND "members"."subscriber_id" = %s AND ("members"."suppression_changed_at" IS NULL OR "members"."suppression_changed_at" <= %s);

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
given.entry = n.entry AND n.outcome IN ('dispatch_not_found', 'recipient_mismatch', 'subscriber_not_found') AND (
    EXISTS (SELECT 1 FROM "mails" AS d CROSS JOIN "people" AS s
        WHERE d."provider_message_id" = +n.message_id AND s."id" = d."subscriber_id" AND lower(s."email") = +n.recipient AND d."team_name" = given.dispatches AND s."team" = given.subscribers)
    OR ((n.reason IS NOT NULL OR n.record_type = 'SubscriptionChange')
        AND n.outcome = 'subscriber_not_found'
        AND EXISTS (SELECT 1 FROM "people" AS s WHERE lower(s."email") = +n.recipient AND s."team" = given.subscribers))
);

-- the join of entries with the tenants
 CROSS JOIN (SELECT json_extract(value, '$[0]') AS entry, json_extract(value, '$[1]') AS subscribers, json_extract(value, '$[2]') AS dispatches, json_extract(value, '$[3]') AS subscriptions FROM json_each(%s)) AS given;

-- probe 1
UPDATE "people" SET "suppressed_at" = "suppressed_at" WHERE 1 = 0;

-- probe 2
UPDATE "mails" SET "delivered_at" = "delivered_at" WHERE 1 = 0;

-- probe 3
UPDATE "members" SET "suppressed_at" = "suppressed_at" WHERE 1 = 0;

-- probe 4
UPDATE "hookrow_notifications" SET "attempts" = "attempts" WHERE 1 = 0;

-- count rows by list
SELECT d."list_id", count(d."provider_message_id"), count(d."delivered_at"), count(d."opened_at") FROM "mails" AS d WHERE true GROUP BY 1;

-- count rows by list
SELECT b."list_id", count(*), count(b."suppressed_at") FROM "members" AS b WHERE true GROUP BY 1;

-- count the suppressed by reason
SELECT NULLIF(coalesce(CAST(s."suppression_reason" AS text), ''), ''), count(*) FROM "people" AS s WHERE s."suppressed_at" IS NOT NULL GROUP BY 1;

-- count undelivered dispatches
SELECT count(*) FROM "mails" AS d WHERE d."provider_message_id" IS NOT NULL AND d."delivered_at" IS NULL;

-- list undelivered dispatches
SELECT CAST(d."provider_message_id" AS TEXT), NULL, NULL, d."id" FROM "mails" AS d WHERE d."provider_message_id" IS NOT NULL AND d."delivered_at" IS NULL ORDER BY d."id" LIMIT 10;

-- list more of them
SELECT CAST(d."provider_message_id" AS TEXT), NULL, NULL, d."id" FROM "mails" AS d WHERE d."provider_message_id" IS NOT NULL AND d."delivered_at" IS NULL AND d."id" > %s ORDER BY d."id" LIMIT 10;

-- step through suppressions
SELECT CAST(s."suppressed_at" AS TEXT), s."id" FROM (SELECT s."suppressed_at", s."id" FROM "people" AS s WHERE s."suppressed_at" IS NOT NULL AND (s."suppressed_at", s."id") > (%s, %s) AND (s."suppressed_at", s."id") <= (%s, %s) AND s."suppressed_at" >= %s ORDER BY s."suppressed_at" ASC, s."id" ASC LIMIT 1 OFFSET 99) AS s;

-- read suppressions
SELECT s."suppressed_at", CAST(s."email" AS TEXT), substr(coalesce(CAST(s."suppression_reason" AS text), ''), 1, 1000), CAST(s."suppressed_at" AS TEXT), s."id" FROM "people" AS s WHERE s."suppressed_at" IS NOT NULL ORDER BY s."suppressed_at" DESC, s."id" DESC LIMIT 10;

-- read suppressions of a reason
SELECT s."suppressed_at", CAST(s."email" AS TEXT), substr(coalesce(CAST(s."suppression_reason" AS text), ''), 1, 1000), CAST(s."suppressed_at" AS TEXT), s."id" FROM "people" AS s WHERE s."suppressed_at" IS NOT NULL AND (s."suppressed_at", s."id") > (%s, %s) AND (s."suppressed_at", s."id") <= (%s, %s) AND s."suppressed_at" >= %s AND s."suppression_reason" = %s AND length(s."suppression_reason") <= 64 ORDER BY s."suppressed_at" ASC, s."id" ASC LIMIT 10;

-- read suppressions of an entry
SELECT s."suppressed_at", CAST(s."email" AS TEXT), substr(coalesce(CAST(s."suppression_reason" AS text), ''), 1, 1000), CAST(s."suppressed_at" AS TEXT), s."id" FROM "people" AS s WHERE s."suppressed_at" IS NOT NULL AND (SELECT 1 FROM "hookrow_notifications" AS n WHERE n.reason IS NOT NULL AND n.recipient = lower(CAST(s."email" AS TEXT)) AND n.entry = %s AND n.outcome IN ('dispatch_not_found', 'recipient_mismatch', 'recorded', 'unmapped') LIMIT 1) = 1 ORDER BY s."suppressed_at" DESC, s."id" DESC LIMIT 10;

-- count suppressions
SELECT count(*) FROM (SELECT 1 FROM "people" AS s WHERE s."suppressed_at" IS NOT NULL ORDER BY s."suppressed_at" DESC, s."id" DESC LIMIT 10) AS found;

-- changes in the log
SELECT id, message_id, recipient, reason, entry, occurred_at, received_at, last_received_at FROM "hookrow_notifications" WHERE (record_type = 'SubscriptionChange' OR reason IS NOT NULL) AND outcome IN ('dispatch_not_found', 'recipient_mismatch', 'recorded', 'unmapped') AND recipient IN (%s) ORDER BY id + 0 DESC LIMIT 10;

-- lists
WITH RECURSIVE found (list_id) AS (SELECT (SELECT b."list_id" FROM "members" AS b WHERE b."list_id" IS NOT NULL ORDER BY b."list_id" LIMIT 1) UNION ALL SELECT (SELECT b."list_id" FROM "members" AS b WHERE b."list_id" > found.list_id ORDER BY b."list_id" LIMIT 1) FROM found WHERE list_id IS NOT NULL) SELECT list_id FROM found WHERE list_id IS NOT NULL LIMIT 10;

-- the size of a list
SELECT count(*) FROM (SELECT 1 FROM "members" AS b WHERE b."list_id" = %s LIMIT 10000) AS found;

-- read suppressions of a list
SELECT s."suppressed_at", CAST(s."email" AS TEXT), substr(coalesce(CAST(s."suppression_reason" AS text), ''), 1, 1000), CAST(s."suppressed_at" AS TEXT), s."id" FROM "people" AS s WHERE s."suppressed_at" IS NOT NULL AND (SELECT 1 FROM "members" AS b WHERE b."list_id" = %s AND s."id" = b."subscriber_id" LIMIT 1) = 1 ORDER BY s."suppressed_at" DESC, s."id" DESC LIMIT 10;

-- read those of a small list
SELECT s."suppressed_at", CAST(s."email" AS TEXT), substr(coalesce(CAST(s."suppression_reason" AS text), ''), 1, 1000), CAST(s."suppressed_at" AS TEXT), s."id" FROM "people" AS s WHERE s."suppressed_at" IS NOT NULL AND s."id" IN (SELECT b."subscriber_id" FROM "members" AS b WHERE b."list_id" = %s) ORDER BY s."suppressed_at" DESC, s."id" DESC LIMIT 10;

-- emails that begin with a text
SELECT CAST(s."email" AS TEXT) FROM (SELECT s."id", s."email", s."suppressed_at", s."suppression_reason", s."suppression_changed_at", s."team" FROM "people" AS s WHERE lower(s."email") >= %s ORDER BY lower(s."email") LIMIT 10) AS s WHERE s."email" IS NOT NULL;

-- message ids that begin with a text
SELECT CAST(d."provider_message_id" AS TEXT) FROM (SELECT d."id", d."provider_message_id", d."subscriber_id", d."delivered_at", d."opened_at", d."list_id", d."suppressed_at", d."suppression_reason", d."suppression_changed_at", d."team_name" FROM "mails" AS d WHERE d."provider_message_id" >= %s ORDER BY d."provider_message_id" LIMIT 10) AS d WHERE d."provider_message_id" IS NOT NULL;

-- the messages of a subscriber
SELECT d."id", CAST(d."provider_message_id" AS TEXT), NULL, d."list_id", NULL FROM "people" AS s JOIN "mails" AS d ON s."id" = d."subscriber_id" WHERE s."id" = %s ORDER BY d."id" DESC LIMIT 10;

-- the lists of a subscriber
SELECT b."list_id", b."subscriber_id", NULL FROM "people" AS s JOIN "members" AS b ON s."id" = b."subscriber_id" WHERE s."id" = %s ORDER BY b."list_id" LIMIT 10;
