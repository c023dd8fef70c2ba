-- find owners
SELECT CASE WHEN o."tenant" = 7 AND o."active" = true AND o."deleted_at" IS NULL THEN o."id" END, CAST(o."address" AS TEXT), CAST(d."postmark_id" AS TEXT), d."key", m."list_id"
FROM "mail"."sends" AS d
LEFT JOIN "peo""ple" AS o ON o."id" = d."person" AND (o."tenant" = 7 AND o."active" = true AND o."deleted_at" IS NULL
    OR NOT EXISTS (SELECT 1 FROM "peo""ple" AS s WHERE s."id" = d."person" AND s."tenant" = 7 AND s."active" = true AND s."deleted_at" IS NULL)) LEFT JOIN "campaigns" AS m ON m."id" = d."campaign" AND m."tenant" = 7
WHERE d."postmark_id" IN (SELECT value FROM json_each(%s)) AND d."state" IS NULL;

-- find
SELECT s."id", CAST(s."address" AS TEXT), NULL, NULL, NULL
FROM "peo""ple" AS s
WHERE lower(s."address") IN (SELECT value FROM json_each(%s)) AND s."tenant" = 7 AND s."active" = true AND s."deleted_at" IS NULL
UNION ALL
SELECT CASE WHEN o."tenant" = 7 AND o."active" = true AND o."deleted_at" IS NULL THEN o."id" END, CAST(o."address" AS TEXT), CAST(d."postmark_id" AS TEXT), d."key", m."list_id"
FROM "mail"."sends" AS d
LEFT JOIN "peo""ple" AS o ON o."id" = d."person" AND (o."tenant" = 7 AND o."active" = true AND o."deleted_at" IS NULL
    OR NOT EXISTS (SELECT 1 FROM "peo""ple" AS s WHERE s."id" = d."person" AND s."tenant" = 7 AND s."active" = true AND s."deleted_at" IS NULL)) LEFT JOIN "campaigns" AS m ON m."id" = d."campaign" AND m."tenant" = 7
WHERE d."postmark_id" IN (SELECT value FROM json_each(%s)) AND d."state" IS NULL;

-- find pairs of subscriptions
SELECT b."list_id", b."subscriber_id", given.key_0, given.key_1
FROM (SELECT %s AS key_0, %s AS key_1) AS given CROSS JOIN "members" AS b
WHERE b."list_id" = given.key_0 AND b."subscriber_id" = given.key_1;

-- read subscribers
SELECT s."id", s."left_at", s."why", s."100%%"
FROM (SELECT %s AS key_0) AS given CROSS JOIN "peo""ple" AS s
WHERE s."id" = given.key_0 AND s."tenant" = 7 AND s."active" = true AND s."deleted_at" IS NULL;

-- read dispatches
SELECT d."key", d."got", d."saw"
FROM (SELECT %s AS key_0) AS given CROSS JOIN "mail"."sends" AS d
WHERE d."key" = given.key_0 AND d."state" IS NULL;

-- read subscriptions
SELECT b."list_id", b."subscriber_id", b."left_at"
FROM (SELECT %s AS key_0, %s AS key_1) AS given CROSS JOIN "members" AS b
WHERE b."list_id" = given.key_0 AND b."subscriber_id" = given.key_1;

-- set delivered_at
UPDATE "mail"."sends" SET "got" = %s
WHERE "sends"."key" = %s AND "sends"."state" IS NULL;

-- set delivered_at late
UPDATE "mail"."sends" SET "got" = %s
WHERE "sends"."key" = %s AND ("sends"."got" IS NULL OR "sends"."got" < %s) AND "sends"."state" IS NULL;

-- set opened_at
UPDATE "mail"."sends" SET "saw" = %s
WHERE "sends"."key" = %s AND "sends"."state" IS NULL;

-- set opened_at late
UPDATE "mail"."sends" SET "saw" = %s
WHERE "sends"."key" = %s AND ("sends"."saw" IS NULL OR "sends"."saw" < %s) AND "sends"."state" IS NULL;

-- set the suppression of subscribers
UPDATE "peo""ple" SET "left_at" = %s, "why" = %s, "100%%" = %s
WHERE "peo""ple"."id" = %s AND "peo""ple"."tenant" = 7 AND "peo""ple"."active" = true AND "peo""ple"."deleted_at" IS NULL;

-- set the suppression of subscribers late
UPDATE "peo""ple" SET "left_at" = %s, "why" = %s, "100%%" = %s
WHERE "peo""ple"."id" = %s AND ("peo""ple"."100%%" IS NULL OR "peo""ple"."100%%" <= %s) AND "peo""ple"."tenant" = 7 AND "peo""ple"."active" = true AND "peo""ple"."deleted_at" IS NULL;

-- date the suppression of subscriptions
INSERT INTO "mail"."hookrow_suppression_changes" AS kept (role, row_key, changed_at)
SELECT 'subscriptions' AS role, %s, %s
WHERE EXISTS (SELECT 1 FROM "members" AS b WHERE b."list_id" = %s AND b."subscriber_id" = %s)
ON CONFLICT (role, row_key) DO UPDATE SET
changed_at = max(kept.changed_at, excluded.changed_at);

-- set the suppression of subscriptions
UPDATE "members" SET "left_at" = %s
WHERE "members"."list_id" = %s AND "members"."subscriber_id" = %s
AND EXISTS (SELECT 1 FROM "mail"."hookrow_suppression_changes" AS dated WHERE dated.role = 'subscriptions'
    AND dated.row_key = %s AND dated.changed_at <= %s);

-- read the dates of subscriptions
SELECT row_key, changed_at FROM "mail"."hookrow_suppression_changes" WHERE role = 'subscriptions' AND row_key IN (SELECT value FROM json_each(%s));

-- add entries to the log
INSERT INTO "mail"."notifications" AS kept (fingerprint, record_type, message_id, recipient, occurred_at, outcome, status, attempts, received_at, last_received_at, ended_at, retry_at, body, reason, provider, source, trace_id, entry, change_number, first_outcome)
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
INSERT INTO "mail"."notifications" AS kept (id, fingerprint, record_type, message_id, recipient, occurred_at, outcome, status, attempts, received_at, last_received_at, ended_at, retry_at, body, reason, provider, source, trace_id, entry, change_number, first_outcome)
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
    EXISTS (SELECT 1 FROM "mail"."sends" AS d CROSS JOIN "peo""ple" AS s
        WHERE d."postmark_id" IN (+n.message_id, replace(lower(n.message_id), '-', '')) AND s."id" = d."person" AND lower(s."address") = +n.recipient AND d."state" IS NULL AND s."tenant" = 7 AND s."active" = true AND s."deleted_at" IS NULL)
    OR ((n.reason IS NOT NULL OR n.record_type = 'SubscriptionChange')
        AND n.outcome = 'subscriber_not_found'
        AND EXISTS (SELECT 1 FROM "peo""ple" AS s WHERE lower(s."address") = +n.recipient AND s."tenant" = 7 AND s."active" = true AND s."deleted_at" IS NULL))
);

-- probe 1
UPDATE "peo""ple" SET "left_at" = "left_at" WHERE 1 = 0;

-- probe 2
UPDATE "mail"."sends" SET "got" = "got" WHERE 1 = 0;

-- probe 3
UPDATE "members" SET "left_at" = "left_at" WHERE 1 = 0;

-- probe 4
UPDATE "mail"."notifications" SET "attempts" = "attempts" WHERE 1 = 0;

-- count rows by list
SELECT m."list_id", count(d."postmark_id"), count(d."got"), count(d."saw") FROM "mail"."sends" AS d LEFT JOIN "campaigns" AS m ON m."id" = d."campaign" AND m."tenant" = 7 WHERE true AND d."state" IS NULL GROUP BY 1;

-- count rows by list
SELECT b."list_id", count(*), count(b."left_at") FROM "members" AS b WHERE true GROUP BY 1;

-- count the suppressed by reason
SELECT NULLIF(coalesce(CAST(s."why" AS text), ''), ''), count(*) FROM "peo""ple" AS s WHERE s."left_at" IS NOT NULL AND s."tenant" = 7 AND s."active" = true AND s."deleted_at" IS NULL GROUP BY 1;

-- count undelivered dispatches
SELECT count(*) FROM "mail"."sends" AS d WHERE d."postmark_id" IS NOT NULL AND d."got" IS NULL AND d."state" IS NULL;

-- list undelivered dispatches
SELECT CAST(d."postmark_id" AS TEXT), NULL, NULL, d."key" FROM "mail"."sends" AS d WHERE d."postmark_id" IS NOT NULL AND d."got" IS NULL AND d."state" IS NULL ORDER BY d."key" LIMIT 10;

-- list more of them
SELECT CAST(d."postmark_id" AS TEXT), NULL, NULL, d."key" FROM "mail"."sends" AS d WHERE d."postmark_id" IS NOT NULL AND d."got" IS NULL AND d."state" IS NULL AND d."key" > %s ORDER BY d."key" LIMIT 10;

-- step through suppressions
SELECT CAST(s."left_at" AS TEXT), s."id" FROM (SELECT s."left_at", s."id" FROM "peo""ple" AS s WHERE s."left_at" IS NOT NULL AND (s."left_at", s."id") > (%s, %s) AND (s."left_at", s."id") <= (%s, %s) AND s."left_at" >= %s ORDER BY s."left_at" ASC, s."id" ASC LIMIT 1 OFFSET 99) AS s;

-- read suppressions
SELECT s."left_at", CAST(s."address" AS TEXT), substr(coalesce(CAST(s."why" AS text), ''), 1, 1000), CAST(s."left_at" AS TEXT), s."id" FROM "peo""ple" AS s WHERE s."left_at" IS NOT NULL AND s."tenant" = 7 AND s."active" = true AND s."deleted_at" IS NULL ORDER BY s."left_at" DESC, s."id" DESC LIMIT 10;

-- read suppressions of a reason
SELECT s."left_at", CAST(s."address" AS TEXT), substr(coalesce(CAST(s."why" AS text), ''), 1, 1000), CAST(s."left_at" AS TEXT), s."id" FROM "peo""ple" AS s WHERE s."left_at" IS NOT NULL AND (s."left_at", s."id") > (%s, %s) AND (s."left_at", s."id") <= (%s, %s) AND s."left_at" >= %s AND s."why" = %s AND length(s."why") <= 64 AND s."tenant" = 7 AND s."active" = true AND s."deleted_at" IS NULL ORDER BY s."left_at" ASC, s."id" ASC LIMIT 10;

-- read suppressions of an entry
SELECT s."left_at", CAST(s."address" AS TEXT), substr(coalesce(CAST(s."why" AS text), ''), 1, 1000), CAST(s."left_at" AS TEXT), s."id" FROM "peo""ple" AS s WHERE s."left_at" IS NOT NULL AND (SELECT 1 FROM "mail"."notifications" AS n WHERE n.reason IS NOT NULL AND n.recipient = lower(CAST(s."address" AS TEXT)) AND n.entry = %s AND n.outcome IN ('dispatch_not_found', 'recipient_mismatch', 'recorded', 'unmapped') LIMIT 1) = 1 AND s."tenant" = 7 AND s."active" = true AND s."deleted_at" IS NULL ORDER BY s."left_at" DESC, s."id" DESC LIMIT 10;

-- count suppressions
SELECT count(*) FROM (SELECT 1 FROM "peo""ple" AS s WHERE s."left_at" IS NOT NULL AND s."tenant" = 7 AND s."active" = true AND s."deleted_at" IS NULL ORDER BY s."left_at" DESC, s."id" DESC LIMIT 10) AS found;

-- changes in the log
SELECT id, message_id, recipient, reason, entry, occurred_at, received_at, last_received_at FROM "mail"."notifications" WHERE (record_type = 'SubscriptionChange' OR reason IS NOT NULL) AND outcome IN ('dispatch_not_found', 'recipient_mismatch', 'recorded', 'unmapped') AND recipient IN (%s) ORDER BY id + 0 DESC LIMIT 10;

-- lists
WITH RECURSIVE found (list_id) AS (SELECT (SELECT b."list_id" FROM "members" AS b WHERE b."list_id" IS NOT NULL ORDER BY b."list_id" LIMIT 1) UNION ALL SELECT (SELECT b."list_id" FROM "members" AS b WHERE b."list_id" > found.list_id ORDER BY b."list_id" LIMIT 1) FROM found WHERE list_id IS NOT NULL) SELECT list_id FROM found WHERE list_id IS NOT NULL LIMIT 10;

-- the size of a list
SELECT count(*) FROM (SELECT 1 FROM "members" AS b WHERE b."list_id" = %s LIMIT 10000) AS found;

-- read suppressions of a list
SELECT s."left_at", CAST(s."address" AS TEXT), substr(coalesce(CAST(s."why" AS text), ''), 1, 1000), CAST(s."left_at" AS TEXT), s."id" FROM "peo""ple" AS s WHERE s."left_at" IS NOT NULL AND (SELECT 1 FROM "members" AS b WHERE b."list_id" = %s AND s."id" = b."subscriber_id" LIMIT 1) = 1 AND s."tenant" = 7 AND s."active" = true AND s."deleted_at" IS NULL ORDER BY s."left_at" DESC, s."id" DESC LIMIT 10;

-- read those of a small list
SELECT s."left_at", CAST(s."address" AS TEXT), substr(coalesce(CAST(s."why" AS text), ''), 1, 1000), CAST(s."left_at" AS TEXT), s."id" FROM "peo""ple" AS s WHERE s."left_at" IS NOT NULL AND s."id" IN (SELECT b."subscriber_id" FROM "members" AS b WHERE b."list_id" = %s) AND s."tenant" = 7 AND s."active" = true AND s."deleted_at" IS NULL ORDER BY s."left_at" DESC, s."id" DESC LIMIT 10;

-- emails that begin with a text
SELECT CAST(s."address" AS TEXT) FROM (SELECT s."id", s."address", s."left_at", s."why", s."100%%", s."tenant", s."active", s."deleted_at" FROM "peo""ple" AS s WHERE lower(s."address") >= %s ORDER BY lower(s."address") LIMIT 10) AS s WHERE s."address" IS NOT NULL AND s."tenant" = 7 AND s."active" = true AND s."deleted_at" IS NULL;

-- the messages of a subscriber
SELECT d."key", CAST(d."postmark_id" AS TEXT), NULL, m."list_id", NULL FROM "peo""ple" AS s JOIN "mail"."sends" AS d ON s."id" = d."person" LEFT JOIN "campaigns" AS m ON m."id" = d."campaign" AND m."tenant" = 7 WHERE s."id" = %s AND s."tenant" = 7 AND s."active" = true AND s."deleted_at" IS NULL AND d."state" IS NULL ORDER BY d."key" DESC LIMIT 10;

-- the lists of a subscriber
SELECT b."list_id", b."subscriber_id", NULL FROM "peo""ple" AS s JOIN "members" AS b ON s."id" = b."subscriber_id" WHERE s."id" = %s AND s."tenant" = 7 AND s."active" = true AND s."deleted_at" IS NULL ORDER BY b."list_id" LIMIT 10;
