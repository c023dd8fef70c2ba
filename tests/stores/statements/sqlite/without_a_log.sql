-- find
SELECT s."id", CAST(s."email" AS TEXT), NULL, NULL, NULL
FROM "hookrow_subscribers" AS s
WHERE lower(s."email") IN (SELECT value FROM json_each(%s))
UNION ALL
SELECT d."subscriber_id", CAST(o."email" AS TEXT), CAST(d."provider_message_id" AS TEXT), d."id", d."list_id"
FROM "hookrow_dispatches" AS d
LEFT JOIN "hookrow_subscribers" AS o ON o."id" = d."subscriber_id"
WHERE d."provider_message_id" IN (SELECT value FROM json_each(%s))
UNION ALL
SELECT b."subscriber_id", NULL, NULL, NULL, b."list_id"
FROM "hookrow_dispatches" AS d
JOIN "hookrow_subscriptions" AS b ON b."list_id" = d."list_id" AND b."subscriber_id" = d."subscriber_id"
WHERE d."provider_message_id" IN (SELECT value FROM json_each(%s));

-- find pairs of subscriptions
SELECT b."list_id", b."subscriber_id"
FROM "hookrow_subscriptions" AS b
WHERE b."list_id" = %s AND b."subscriber_id" = %s;

-- read subscribers
SELECT s."id", s."suppressed_at", s."suppression_reason", s."suppression_changed_at"
FROM "hookrow_subscribers" AS s
WHERE s."id" = %s;

-- read dispatches
SELECT d."id", d."delivered_at", d."opened_at", d."suppressed_at", d."suppression_reason", d."suppression_changed_at"
FROM "hookrow_dispatches" AS d
WHERE d."id" = %s;

-- read subscriptions
SELECT b."list_id", b."subscriber_id", b."suppressed_at", b."suppression_reason", b."suppression_changed_at"
FROM "hookrow_subscriptions" AS b
WHERE b."list_id" = %s AND b."subscriber_id" = %s;

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

-- probe 1
UPDATE "hookrow_subscribers" SET "suppressed_at" = "suppressed_at" WHERE 1 = 0;

-- probe 2
UPDATE "hookrow_dispatches" SET "delivered_at" = "delivered_at" WHERE 1 = 0;

-- probe 3
UPDATE "hookrow_subscriptions" SET "suppressed_at" = "suppressed_at" WHERE 1 = 0;
