-- find owners
SELECT o."id", CAST(o."email" AS TEXT), CAST(d."provider_message_id" AS TEXT), d."id", d."list_id"
FROM "hookrow_dispatches" AS d
LEFT JOIN "hookrow_subscribers" AS o ON o."id" = d."subscriber_id"
WHERE d."provider_message_id" IN (SELECT value FROM json_each(%s));

-- find
SELECT s."id", CAST(s."email" AS TEXT), NULL, NULL, NULL
FROM "hookrow_subscribers" AS s
WHERE lower(s."email") IN (SELECT value FROM json_each(%s))
UNION ALL
SELECT o."id", CAST(o."email" AS TEXT), CAST(d."provider_message_id" AS TEXT), d."id", d."list_id"
FROM "hookrow_dispatches" AS d
LEFT JOIN "hookrow_subscribers" AS o ON o."id" = d."subscriber_id"
WHERE d."provider_message_id" IN (SELECT value FROM json_each(%s))
UNION ALL
SELECT b."subscriber_id", NULL, NULL, NULL, b."list_id"
FROM "hookrow_dispatches" AS d
JOIN "hookrow_subscriptions" AS b ON b."list_id" = d."list_id" AND b."subscriber_id" = d."subscriber_id"
WHERE d."provider_message_id" IN (SELECT value FROM json_each(%s));

-- find pairs of subscriptions
SELECT b."list_id", b."subscriber_id", given.key_0, given.key_1
FROM (SELECT %s AS key_0, %s AS key_1) AS given CROSS JOIN "hookrow_subscriptions" AS b
WHERE b."list_id" = given.key_0 AND b."subscriber_id" = given.key_1;

-- read subscribers
SELECT s."id", s."suppressed_at", s."suppression_reason", s."suppression_changed_at"
FROM (SELECT %s AS key_0) AS given CROSS JOIN "hookrow_subscribers" AS s
WHERE s."id" = given.key_0;

-- read dispatches
SELECT d."id", d."delivered_at", d."opened_at", d."first_opened_at", d."clicked_at", d."bounced_at", d."bounce_type", d."complained_at", d."suppressed_at", d."suppression_reason", d."suppression_changed_at"
FROM (SELECT %s AS key_0) AS given CROSS JOIN "hookrow_dispatches" AS d
WHERE d."id" = given.key_0;

-- read subscriptions
SELECT b."list_id", b."subscriber_id", b."suppressed_at", b."suppression_reason", b."suppression_changed_at"
FROM (SELECT %s AS key_0, %s AS key_1) AS given CROSS JOIN "hookrow_subscriptions" AS b
WHERE b."list_id" = given.key_0 AND b."subscriber_id" = given.key_1;

-- set delivered_at
UPDATE "hookrow_dispatches" SET "delivered_at" = %s
WHERE "hookrow_dispatches"."id" = %s;

-- set delivered_at late
UPDATE "hookrow_dispatches" SET "delivered_at" = %s
WHERE "hookrow_dispatches"."id" = %s AND ("hookrow_dispatches"."delivered_at" IS NULL OR "hookrow_dispatches"."delivered_at" < %s);

-- set opened_at
UPDATE "hookrow_dispatches" SET "opened_at" = %s
WHERE "hookrow_dispatches"."id" = %s;

-- set opened_at late
UPDATE "hookrow_dispatches" SET "opened_at" = %s
WHERE "hookrow_dispatches"."id" = %s AND ("hookrow_dispatches"."opened_at" IS NULL OR "hookrow_dispatches"."opened_at" < %s);

-- set first_opened_at
UPDATE "hookrow_dispatches" SET "first_opened_at" = %s
WHERE "hookrow_dispatches"."id" = %s;

-- set first_opened_at late
UPDATE "hookrow_dispatches" SET "first_opened_at" = %s
WHERE "hookrow_dispatches"."id" = %s AND ("hookrow_dispatches"."first_opened_at" IS NULL OR "hookrow_dispatches"."first_opened_at" > %s);

-- set clicked_at
UPDATE "hookrow_dispatches" SET "clicked_at" = %s
WHERE "hookrow_dispatches"."id" = %s;

-- set clicked_at late
UPDATE "hookrow_dispatches" SET "clicked_at" = %s
WHERE "hookrow_dispatches"."id" = %s AND ("hookrow_dispatches"."clicked_at" IS NULL OR "hookrow_dispatches"."clicked_at" < %s);

-- set bounced_at
UPDATE "hookrow_dispatches" SET "bounced_at" = %s, "bounce_type" = %s
WHERE "hookrow_dispatches"."id" = %s;

-- set bounced_at late
UPDATE "hookrow_dispatches" SET "bounced_at" = %s, "bounce_type" = %s
WHERE "hookrow_dispatches"."id" = %s AND ("hookrow_dispatches"."bounced_at" IS NULL OR "hookrow_dispatches"."bounced_at" <= %s);

-- set complained_at
UPDATE "hookrow_dispatches" SET "complained_at" = %s
WHERE "hookrow_dispatches"."id" = %s;

-- set complained_at late
UPDATE "hookrow_dispatches" SET "complained_at" = %s
WHERE "hookrow_dispatches"."id" = %s AND ("hookrow_dispatches"."complained_at" IS NULL OR "hookrow_dispatches"."complained_at" < %s);

-- set the suppression of subscribers
UPDATE "hookrow_subscribers" SET "suppressed_at" = %s, "suppression_reason" = %s, "suppression_changed_at" = %s
WHERE "hookrow_subscribers"."id" = %s;

-- set the suppression of subscribers late
UPDATE "hookrow_subscribers" SET "suppressed_at" = %s, "suppression_reason" = %s, "suppression_changed_at" = %s
WHERE "hookrow_subscribers"."id" = %s AND ("hookrow_subscribers"."suppression_changed_at" IS NULL OR "hookrow_subscribers"."suppression_changed_at" <= %s);

-- set the suppression of dispatches
UPDATE "hookrow_dispatches" SET "suppressed_at" = %s, "suppression_reason" = %s, "suppression_changed_at" = %s
WHERE "hookrow_dispatches"."id" = %s;

-- set the suppression of dispatches late
UPDATE "hookrow_dispatches" SET "suppressed_at" = %s, "suppression_reason" = %s, "suppression_changed_at" = %s
WHERE "hookrow_dispatches"."id" = %s AND ("hookrow_dispatches"."suppression_changed_at" IS NULL OR "hookrow_dispatches"."suppression_changed_at" <= %s);

-- set the suppression of subscriptions
UPDATE "hookrow_subscriptions" SET "suppressed_at" = %s, "suppression_reason" = %s, "suppression_changed_at" = %s
WHERE "hookrow_subscriptions"."list_id" = %s AND "hookrow_subscriptions"."subscriber_id" = %s;

-- set the suppression of subscriptions late
UPDATE "hookrow_subscriptions" SET "suppressed_at" = %s, "suppression_reason" = %s, "suppression_changed_at" = %s
WHERE "hookrow_subscriptions"."list_id" = %s AND "hookrow_subscriptions"."subscriber_id" = %s AND ("hookrow_subscriptions"."suppression_changed_at" IS NULL OR "hookrow_subscriptions"."suppression_changed_at" <= %s);

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
    EXISTS (SELECT 1 FROM "hookrow_dispatches" AS d CROSS JOIN "hookrow_subscribers" AS s
        WHERE d."provider_message_id" = +n.message_id AND s."id" = d."subscriber_id" AND lower(s."email") = +n.recipient)
    OR ((n.reason IS NOT NULL OR n.record_type = 'SubscriptionChange')
        AND n.outcome = 'subscriber_not_found'
        AND EXISTS (SELECT 1 FROM "hookrow_subscribers" AS s WHERE lower(s."email") = +n.recipient))
);

-- probe 1
UPDATE "hookrow_subscribers" SET "suppressed_at" = "suppressed_at" WHERE 1 = 0;

-- probe 2
UPDATE "hookrow_dispatches" SET "delivered_at" = "delivered_at" WHERE 1 = 0;

-- probe 3
UPDATE "hookrow_subscriptions" SET "suppressed_at" = "suppressed_at" WHERE 1 = 0;

-- probe 4
UPDATE "hookrow_notifications" SET "attempts" = "attempts" WHERE 1 = 0;

-- count rows by list
SELECT d."list_id", count(d."provider_message_id"), count(d."delivered_at"), count(d."opened_at") FROM "hookrow_dispatches" AS d WHERE true GROUP BY 1;

-- count rows by list
SELECT b."list_id", count(*), count(b."suppressed_at") FROM "hookrow_subscriptions" AS b WHERE true GROUP BY 1;

-- count rows by list
SELECT id, name FROM hookrow_lists;

-- count the suppressed by reason
SELECT NULLIF(coalesce(CAST(s."suppression_reason" AS text), ''), ''), count(*) FROM "hookrow_subscribers" AS s WHERE s."suppressed_at" IS NOT NULL GROUP BY 1;

-- when messages were sent
SELECT CAST(d."provider_message_id" AS TEXT), d."created_at" FROM "hookrow_dispatches" AS d WHERE d."provider_message_id" IN (SELECT value FROM json_each(%s)) AND d."created_at" IS NOT NULL;

-- count undelivered dispatches
SELECT count(*) FROM "hookrow_dispatches" AS d WHERE d."provider_message_id" IS NOT NULL AND d."delivered_at" IS NULL;

-- count undelivered dispatches sent since a time
SELECT count(*) FROM "hookrow_dispatches" AS d WHERE d."provider_message_id" IS NOT NULL AND d."delivered_at" IS NULL AND d."created_at" >= %s;

-- count the dispatches of a period
SELECT count(d."provider_message_id"), count(d."delivered_at"), count(d."opened_at") FROM "hookrow_dispatches" AS d WHERE d."provider_message_id" IS NOT NULL AND d."created_at" >= %s AND d."created_at" < %s;

-- list undelivered dispatches
SELECT CAST(d."provider_message_id" AS TEXT), d."created_at", CAST(d."created_at" AS TEXT), d."id" FROM "hookrow_dispatches" AS d WHERE d."provider_message_id" IS NOT NULL AND d."delivered_at" IS NULL AND (d."created_at" IS NULL OR d."created_at" >= %s) ORDER BY d."created_at" IS NOT NULL, d."created_at", d."id" LIMIT 10;

-- list more of them
SELECT CAST(d."provider_message_id" AS TEXT), d."created_at", CAST(d."created_at" AS TEXT), d."id" FROM "hookrow_dispatches" AS d WHERE d."provider_message_id" IS NOT NULL AND d."delivered_at" IS NULL AND d."created_at" >= %s AND (d."created_at", d."id") > (%s, %s) ORDER BY d."created_at" IS NOT NULL, d."created_at", d."id" LIMIT 10;

-- list more of them without a time
SELECT CAST(d."provider_message_id" AS TEXT), d."created_at", CAST(d."created_at" AS TEXT), d."id" FROM "hookrow_dispatches" AS d WHERE d."provider_message_id" IS NOT NULL AND d."delivered_at" IS NULL AND (d."created_at" >= %s OR d."created_at" IS NULL AND d."id" > %s) ORDER BY d."created_at" IS NOT NULL, d."created_at", d."id" LIMIT 10;

-- step through suppressions
SELECT CAST(s."suppressed_at" AS TEXT), s."id" FROM (SELECT s."suppressed_at", s."id" FROM "hookrow_subscribers" AS s WHERE s."suppressed_at" IS NOT NULL AND (s."suppressed_at", s."id") > (%s, %s) AND (s."suppressed_at", s."id") <= (%s, %s) AND s."suppressed_at" >= %s ORDER BY s."suppressed_at" ASC, s."id" ASC LIMIT 1 OFFSET 99) AS s;

-- read suppressions
SELECT s."suppressed_at", CAST(s."email" AS TEXT), substr(coalesce(CAST(s."suppression_reason" AS text), ''), 1, 1000), CAST(s."suppressed_at" AS TEXT), s."id" FROM "hookrow_subscribers" AS s WHERE s."suppressed_at" IS NOT NULL ORDER BY s."suppressed_at" DESC, s."id" DESC LIMIT 10;

-- read suppressions of a reason
SELECT s."suppressed_at", CAST(s."email" AS TEXT), substr(coalesce(CAST(s."suppression_reason" AS text), ''), 1, 1000), CAST(s."suppressed_at" AS TEXT), s."id" FROM "hookrow_subscribers" AS s WHERE s."suppressed_at" IS NOT NULL AND (s."suppressed_at", s."id") > (%s, %s) AND (s."suppressed_at", s."id") <= (%s, %s) AND s."suppressed_at" >= %s AND s."suppression_reason" = %s AND length(s."suppression_reason") <= 64 ORDER BY s."suppressed_at" ASC, s."id" ASC LIMIT 10;

-- read suppressions of an entry
SELECT s."suppressed_at", CAST(s."email" AS TEXT), substr(coalesce(CAST(s."suppression_reason" AS text), ''), 1, 1000), CAST(s."suppressed_at" AS TEXT), s."id" FROM "hookrow_subscribers" AS s WHERE s."suppressed_at" IS NOT NULL AND (SELECT 1 FROM "hookrow_notifications" AS n WHERE n.reason IS NOT NULL AND n.recipient = lower(CAST(s."email" AS TEXT)) AND n.entry = %s AND n.outcome IN ('dispatch_not_found', 'recipient_mismatch', 'recorded', 'unmapped') LIMIT 1) = 1 ORDER BY s."suppressed_at" DESC, s."id" DESC LIMIT 10;

-- count suppressions
SELECT count(*) FROM (SELECT 1 FROM "hookrow_subscribers" AS s WHERE s."suppressed_at" IS NOT NULL ORDER BY s."suppressed_at" DESC, s."id" DESC LIMIT 10) AS found;

-- changes in the log
SELECT id, message_id, recipient, reason, entry, occurred_at, received_at, last_received_at FROM "hookrow_notifications" WHERE (record_type = 'SubscriptionChange' OR reason IS NOT NULL) AND outcome IN ('dispatch_not_found', 'recipient_mismatch', 'recorded', 'unmapped') AND recipient IN (%s) ORDER BY id + 0 DESC LIMIT 10;

-- lists
SELECT id, name FROM hookrow_lists ORDER BY name, id LIMIT 10;

-- the size of a list
SELECT count(*) FROM (SELECT 1 FROM "hookrow_subscriptions" AS b WHERE b."list_id" = %s LIMIT 10000) AS found;

-- read suppressions of a list
SELECT s."suppressed_at", CAST(s."email" AS TEXT), substr(coalesce(CAST(s."suppression_reason" AS text), ''), 1, 1000), CAST(s."suppressed_at" AS TEXT), s."id" FROM "hookrow_subscribers" AS s WHERE s."suppressed_at" IS NOT NULL AND (SELECT 1 FROM "hookrow_subscriptions" AS b WHERE b."list_id" = %s AND s."id" = b."subscriber_id" LIMIT 1) = 1 ORDER BY s."suppressed_at" DESC, s."id" DESC LIMIT 10;

-- read those of a small list
SELECT s."suppressed_at", CAST(s."email" AS TEXT), substr(coalesce(CAST(s."suppression_reason" AS text), ''), 1, 1000), CAST(s."suppressed_at" AS TEXT), s."id" FROM "hookrow_subscribers" AS s WHERE s."suppressed_at" IS NOT NULL AND s."id" IN (SELECT b."subscriber_id" FROM "hookrow_subscriptions" AS b WHERE b."list_id" = %s) ORDER BY s."suppressed_at" DESC, s."id" DESC LIMIT 10;

-- emails that begin with a text
SELECT CAST(s."email" AS TEXT) FROM (SELECT s."id", s."email", s."suppressed_at", s."suppression_reason", s."suppression_changed_at" FROM "hookrow_subscribers" AS s WHERE lower(s."email") >= %s ORDER BY lower(s."email") LIMIT 10) AS s WHERE s."email" IS NOT NULL;

-- message ids that begin with a text
SELECT CAST(d."provider_message_id" AS TEXT) FROM (SELECT d."id", d."provider_message_id", d."subscriber_id", d."delivered_at", d."opened_at", d."list_id", d."created_at", d."suppressed_at", d."suppression_reason", d."suppression_changed_at", d."clicked_at", d."bounced_at", d."bounce_type", d."complained_at", d."first_opened_at" FROM "hookrow_dispatches" AS d WHERE d."provider_message_id" >= %s ORDER BY d."provider_message_id" LIMIT 10) AS d WHERE d."provider_message_id" IS NOT NULL;

-- the messages of a subscriber
SELECT d."id", CAST(d."provider_message_id" AS TEXT), d."created_at", d."list_id", l.name FROM "hookrow_subscribers" AS s JOIN "hookrow_dispatches" AS d ON s."id" = d."subscriber_id" LEFT JOIN hookrow_lists AS l ON l.id = d."list_id" WHERE s."id" = %s ORDER BY d."created_at" DESC, d."id" DESC LIMIT 10;

-- the lists of a subscriber
SELECT b."list_id", b."subscriber_id", l.name FROM "hookrow_subscribers" AS s JOIN "hookrow_subscriptions" AS b ON s."id" = b."subscriber_id" LEFT JOIN hookrow_lists AS l ON l.id = b."list_id" WHERE s."id" = %s ORDER BY b."list_id" LIMIT 10;
