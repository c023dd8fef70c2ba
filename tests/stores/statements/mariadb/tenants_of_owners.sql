-- find owners
SELECT o.`id`, CAST(o.`email` AS CHAR), CAST(d.`provider_message_id` AS CHAR), d.`id`, d.`list_id`, CAST(o.`team` AS CHAR), CAST(o.`team` AS CHAR)
FROM `mails` AS d
LEFT JOIN `people` AS o ON o.`id` = d.`subscriber_id`
WHERE d.`provider_message_id` IN (SELECT value FROM JSON_TABLE(%s, '$[*]' COLUMNS (value varchar(321) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PATH '$')) AS given);

-- find
SELECT s.`id`, CAST(s.`email` AS CHAR), NULL, NULL, NULL, CAST(s.`team` AS CHAR), NULL
FROM JSON_TABLE(%s, '$[*]' COLUMNS (email varchar(1024) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PATH '$[0]', subscribers bigint PATH '$[1]')) AS given STRAIGHT_JOIN `people` AS s
WHERE s.`email_folded` = CONVERT(given.email USING utf8mb4) COLLATE utf8mb4_bin AND s.`team` = given.subscribers
UNION ALL
SELECT o.`id`, CAST(o.`email` AS CHAR), CAST(d.`provider_message_id` AS CHAR), d.`id`, d.`list_id`, CAST(o.`team` AS CHAR), CAST(o.`team` AS CHAR)
FROM `mails` AS d
LEFT JOIN `people` AS o ON o.`id` = d.`subscriber_id`
WHERE d.`provider_message_id` IN (SELECT value FROM JSON_TABLE(%s, '$[*]' COLUMNS (value varchar(321) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PATH '$')) AS given)
UNION ALL
SELECT b.`subscriber_id`, NULL, NULL, NULL, b.`list_id`, NULL, NULL
FROM `mails` AS d
JOIN `members` AS b ON b.`list_id` = d.`list_id` AND b.`subscriber_id` = d.`subscriber_id`
WHERE d.`provider_message_id` IN (SELECT value FROM JSON_TABLE(%s, '$[*]' COLUMNS (value varchar(321) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PATH '$')) AS given);

-- find pairs of subscriptions
SELECT b.`list_id`, b.`subscriber_id`, given.key_0, given.key_1
FROM JSON_TABLE(%s, '$[*]' COLUMNS (key_0 bigint PATH '$[0]', key_1 bigint PATH '$[1]')) AS given STRAIGHT_JOIN `members` AS b
WHERE b.`list_id` = given.key_0 AND b.`subscriber_id` = given.key_1;

-- read subscribers
SELECT s.`id`, s.`suppressed_at`, s.`suppression_reason`, s.`suppression_changed_at`
FROM JSON_TABLE(%s, '$[*]' COLUMNS (key_0 bigint PATH '$[0]')) AS given STRAIGHT_JOIN `people` AS s
WHERE s.`id` = given.key_0;

-- lock subscribers
SELECT s.`id`
FROM (SELECT * FROM JSON_TABLE(%s, '$[*]' COLUMNS (key_0 bigint PATH '$[0]')) AS given) AS given STRAIGHT_JOIN `people` AS s
WHERE s.`id` = given.key_0
FOR UPDATE;

-- lock subscribers, skipping locked rows
SELECT s.`id`
FROM (SELECT * FROM JSON_TABLE(%s, '$[*]' COLUMNS (key_0 bigint PATH '$[0]')) AS given) AS given STRAIGHT_JOIN `people` AS s
WHERE s.`id` = given.key_0
FOR UPDATE SKIP LOCKED;

-- read dispatches
SELECT d.`id`, d.`delivered_at`, d.`opened_at`, d.`suppressed_at`, d.`suppression_reason`, d.`suppression_changed_at`
FROM JSON_TABLE(%s, '$[*]' COLUMNS (key_0 bigint PATH '$[0]')) AS given STRAIGHT_JOIN `mails` AS d
WHERE d.`id` = given.key_0;

-- lock dispatches
SELECT d.`id`
FROM (SELECT * FROM JSON_TABLE(%s, '$[*]' COLUMNS (key_0 bigint PATH '$[0]')) AS given) AS given STRAIGHT_JOIN `mails` AS d
WHERE d.`id` = given.key_0
FOR UPDATE;

-- lock dispatches, skipping locked rows
SELECT d.`id`
FROM (SELECT * FROM JSON_TABLE(%s, '$[*]' COLUMNS (key_0 bigint PATH '$[0]')) AS given) AS given STRAIGHT_JOIN `mails` AS d
WHERE d.`id` = given.key_0
FOR UPDATE SKIP LOCKED;

-- read subscriptions
SELECT b.`list_id`, b.`subscriber_id`, b.`suppressed_at`, b.`suppression_reason`, b.`suppression_changed_at`
FROM JSON_TABLE(%s, '$[*]' COLUMNS (key_0 bigint PATH '$[0]', key_1 bigint PATH '$[1]')) AS given STRAIGHT_JOIN `members` AS b
WHERE b.`list_id` = given.key_0 AND b.`subscriber_id` = given.key_1;

-- lock subscriptions
SELECT b.`list_id`, b.`subscriber_id`
FROM (SELECT * FROM JSON_TABLE(%s, '$[*]' COLUMNS (key_0 bigint PATH '$[0]', key_1 bigint PATH '$[1]')) AS given) AS given STRAIGHT_JOIN `members` AS b
WHERE b.`list_id` = given.key_0 AND b.`subscriber_id` = given.key_1
FOR UPDATE;

-- lock subscriptions, skipping locked rows
SELECT b.`list_id`, b.`subscriber_id`
FROM (SELECT * FROM JSON_TABLE(%s, '$[*]' COLUMNS (key_0 bigint PATH '$[0]', key_1 bigint PATH '$[1]')) AS given) AS given STRAIGHT_JOIN `members` AS b
WHERE b.`list_id` = given.key_0 AND b.`subscriber_id` = given.key_1
FOR UPDATE SKIP LOCKED;

-- set delivered_at
UPDATE JSON_TABLE(%s, '$[*]' COLUMNS (key_0 bigint PATH '$[0]', delivered_at datetime(6) PATH '$[1]' ERROR ON ERROR)) AS given STRAIGHT_JOIN `mails` AS d SET d.`delivered_at` = given.delivered_at
WHERE d.`id` = given.key_0;

-- set delivered_at late
UPDATE JSON_TABLE(%s, '$[*]' COLUMNS (key_0 bigint PATH '$[0]', delivered_at datetime(6) PATH '$[1]' ERROR ON ERROR)) AS given STRAIGHT_JOIN `mails` AS d SET d.`delivered_at` = given.delivered_at
WHERE d.`id` = given.key_0 AND (d.`delivered_at` IS NULL OR d.`delivered_at` < given.delivered_at);

-- set opened_at
UPDATE JSON_TABLE(%s, '$[*]' COLUMNS (key_0 bigint PATH '$[0]', opened_at datetime(6) PATH '$[1]' ERROR ON ERROR)) AS given STRAIGHT_JOIN `mails` AS d SET d.`opened_at` = given.opened_at
WHERE d.`id` = given.key_0;

-- set opened_at late
UPDATE JSON_TABLE(%s, '$[*]' COLUMNS (key_0 bigint PATH '$[0]', opened_at datetime(6) PATH '$[1]' ERROR ON ERROR)) AS given STRAIGHT_JOIN `mails` AS d SET d.`opened_at` = given.opened_at
WHERE d.`id` = given.key_0 AND (d.`opened_at` IS NULL OR d.`opened_at` < given.opened_at);

-- set the suppression of subscribers
UPDATE JSON_TABLE(%s, '$[*]' COLUMNS (key_0 bigint PATH '$[0]', suppressed_at datetime(6) PATH '$[1]' ERROR ON ERROR, suppression_reason varchar(321) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PATH '$[2]' ERROR ON ERROR, suppression_changed_at datetime(6) PATH '$[3]' ERROR ON ERROR)) AS given STRAIGHT_JOIN `people` AS s SET s.`suppressed_at` = given.suppressed_at, s.`suppression_reason` = concat(given.suppression_reason), s.`suppression_changed_at` = given.suppression_changed_at
WHERE s.`id` = given.key_0;

-- set the suppression of subscribers late
UPDATE JSON_TABLE(%s, '$[*]' COLUMNS (key_0 bigint PATH '$[0]', suppressed_at datetime(6) PATH '$[1]' ERROR ON ERROR, suppression_reason varchar(321) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PATH '$[2]' ERROR ON ERROR, suppression_changed_at datetime(6) PATH '$[3]' ERROR ON ERROR)) AS given STRAIGHT_JOIN `people` AS s SET s.`suppressed_at` = given.suppressed_at, s.`suppression_reason` = concat(given.suppression_reason), s.`suppression_changed_at` = given.suppression_changed_at
WHERE s.`id` = given.key_0 AND (s.`suppression_changed_at` IS NULL OR s.`suppression_changed_at` <= given.suppression_changed_at);

-- set the suppression of dispatches
UPDATE JSON_TABLE(%s, '$[*]' COLUMNS (key_0 bigint PATH '$[0]', suppressed_at datetime(6) PATH '$[1]' ERROR ON ERROR, suppression_reason varchar(321) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PATH '$[2]' ERROR ON ERROR, suppression_changed_at datetime(6) PATH '$[3]' ERROR ON ERROR)) AS given STRAIGHT_JOIN `mails` AS d SET d.`suppressed_at` = given.suppressed_at, d.`suppression_reason` = concat(given.suppression_reason), d.`suppression_changed_at` = given.suppression_changed_at
WHERE d.`id` = given.key_0;

-- set the suppression of dispatches late
UPDATE JSON_TABLE(%s, '$[*]' COLUMNS (key_0 bigint PATH '$[0]', suppressed_at datetime(6) PATH '$[1]' ERROR ON ERROR, suppression_reason varchar(321) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PATH '$[2]' ERROR ON ERROR, suppression_changed_at datetime(6) PATH '$[3]' ERROR ON ERROR)) AS given STRAIGHT_JOIN `mails` AS d SET d.`suppressed_at` = given.suppressed_at, d.`suppression_reason` = concat(given.suppression_reason), d.`suppression_changed_at` = given.suppression_changed_at
WHERE d.`id` = given.key_0 AND (d.`suppression_changed_at` IS NULL OR d.`suppression_changed_at` <= given.suppression_changed_at);

-- set the suppression of subscriptions
UPDATE JSON_TABLE(%s, '$[*]' COLUMNS (key_0 bigint PATH '$[0]', key_1 bigint PATH '$[1]', suppressed_at datetime(6) PATH '$[2]' ERROR ON ERROR, suppression_reason varchar(321) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PATH '$[3]' ERROR ON ERROR, suppression_changed_at datetime(6) PATH '$[4]' ERROR ON ERROR)) AS given STRAIGHT_JOIN `members` AS b SET b.`suppressed_at` = given.suppressed_at, b.`suppression_reason` = concat(given.suppression_reason), b.`suppression_changed_at` = given.suppression_changed_at
WHERE b.`list_id` = given.key_0 AND b.`subscriber_id` = given.key_1;

-- set the suppression of subscriptions late
UPDATE JSON_TABLE(%s, '$[*]' COLUMNS (key_0 bigint PATH '$[0]', key_1 bigint PATH '$[1]', suppressed_at datetime(6) PATH '$[2]' ERROR ON ERROR, suppression_reason varchar(321) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PATH '$[3]' ERROR ON ERROR, suppression_changed_at datetime(6) PATH '$[4]' ERROR ON ERROR)) AS given STRAIGHT_JOIN `members` AS b SET b.`suppressed_at` = given.suppressed_at, b.`suppression_reason` = concat(given.suppression_reason), b.`suppression_changed_at` = given.suppression_changed_at
WHERE b.`list_id` = given.key_0 AND b.`subscriber_id` = given.key_1 AND (b.`suppression_changed_at` IS NULL OR b.`suppression_changed_at` <= given.suppression_changed_at);

-- add entries to the log
INSERT INTO `hookrow_notifications` (fingerprint, record_type, message_id, recipient, occurred_at, outcome, status, attempts, received_at, last_received_at, ended_at, retry_at, body, reason, provider, source, trace_id, entry, change_number, first_outcome)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
ON DUPLICATE KEY UPDATE
ended_at = CASE WHEN `hookrow_notifications`.outcome = 'recorded' AND VALUES(outcome) = `hookrow_notifications`.outcome THEN `hookrow_notifications`.ended_at ELSE VALUES(ended_at) END,
source = CASE WHEN `hookrow_notifications`.outcome = 'recorded' AND VALUES(outcome) = `hookrow_notifications`.outcome THEN `hookrow_notifications`.source ELSE VALUES(source) END,
outcome = VALUES(outcome),
status = VALUES(status),
retry_at = VALUES(retry_at),
recipient = CASE WHEN VALUES(attempts) > 0 THEN coalesce(`hookrow_notifications`.recipient, VALUES(recipient)) ELSE `hookrow_notifications`.recipient END,
body = CASE WHEN VALUES(attempts) > 0 THEN coalesce(`hookrow_notifications`.body, VALUES(body)) ELSE `hookrow_notifications`.body END,
reason = CASE WHEN VALUES(attempts) > 0 THEN coalesce(`hookrow_notifications`.reason, VALUES(reason)) ELSE `hookrow_notifications`.reason END,
provider = CASE WHEN VALUES(attempts) > 0 THEN coalesce(`hookrow_notifications`.provider, VALUES(provider)) ELSE `hookrow_notifications`.provider END,
trace_id = CASE WHEN VALUES(attempts) > 0 THEN coalesce(`hookrow_notifications`.trace_id, VALUES(trace_id)) ELSE `hookrow_notifications`.trace_id END,
attempts = `hookrow_notifications`.attempts + VALUES(attempts),
change_number = coalesce(VALUES(change_number), `hookrow_notifications`.change_number),
received_at = CASE WHEN `hookrow_notifications`.received_at < VALUES(received_at) THEN `hookrow_notifications`.received_at ELSE VALUES(received_at) END,
last_received_at = CASE WHEN `hookrow_notifications`.last_received_at > VALUES(last_received_at) THEN `hookrow_notifications`.last_received_at ELSE VALUES(last_received_at) END;

-- rehearse entries of the log
INSERT INTO `hookrow_notifications` (id, fingerprint, record_type, message_id, recipient, occurred_at, outcome, status, attempts, received_at, last_received_at, ended_at, retry_at, body, reason, provider, source, trace_id, entry, change_number, first_outcome)
VALUES (-1 - floor(rand() * 2147483648), %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
ON DUPLICATE KEY UPDATE
ended_at = CASE WHEN `hookrow_notifications`.outcome = 'recorded' AND VALUES(outcome) = `hookrow_notifications`.outcome THEN `hookrow_notifications`.ended_at ELSE VALUES(ended_at) END,
source = CASE WHEN `hookrow_notifications`.outcome = 'recorded' AND VALUES(outcome) = `hookrow_notifications`.outcome THEN `hookrow_notifications`.source ELSE VALUES(source) END,
outcome = VALUES(outcome),
status = VALUES(status),
retry_at = VALUES(retry_at),
recipient = CASE WHEN VALUES(attempts) > 0 THEN coalesce(`hookrow_notifications`.recipient, VALUES(recipient)) ELSE `hookrow_notifications`.recipient END,
body = CASE WHEN VALUES(attempts) > 0 THEN coalesce(`hookrow_notifications`.body, VALUES(body)) ELSE `hookrow_notifications`.body END,
reason = CASE WHEN VALUES(attempts) > 0 THEN coalesce(`hookrow_notifications`.reason, VALUES(reason)) ELSE `hookrow_notifications`.reason END,
provider = CASE WHEN VALUES(attempts) > 0 THEN coalesce(`hookrow_notifications`.provider, VALUES(provider)) ELSE `hookrow_notifications`.provider END,
trace_id = CASE WHEN VALUES(attempts) > 0 THEN coalesce(`hookrow_notifications`.trace_id, VALUES(trace_id)) ELSE `hookrow_notifications`.trace_id END,
attempts = `hookrow_notifications`.attempts + VALUES(attempts),
change_number = coalesce(VALUES(change_number), `hookrow_notifications`.change_number),
received_at = CASE WHEN `hookrow_notifications`.received_at < VALUES(received_at) THEN `hookrow_notifications`.received_at ELSE VALUES(received_at) END,
last_received_at = CASE WHEN `hookrow_notifications`.last_received_at > VALUES(last_received_at) THEN `hookrow_notifications`.last_received_at ELSE VALUES(last_received_at) END;

-- the condition of entries `n` that can be recorded
given.entry = n.entry AND n.outcome IN ('dispatch_not_found', 'recipient_mismatch', 'subscriber_not_found') AND (
    EXISTS (SELECT 1 FROM `mails` AS d STRAIGHT_JOIN `people` AS s
        WHERE d.`provider_message_id` = CONVERT(n.message_id USING utf8mb4) COLLATE utf8mb4_bin AND s.`id` = d.`subscriber_id` AND s.`email_folded` = CONVERT(n.recipient USING utf8mb4) COLLATE utf8mb4_bin AND s.`team` = given.subscribers)
    OR ((n.reason IS NOT NULL OR n.record_type = 'SubscriptionChange')
        AND n.outcome = 'subscriber_not_found'
        AND EXISTS (SELECT 1 FROM `people` AS s WHERE s.`email_folded` = CONVERT(n.recipient USING utf8mb4) COLLATE utf8mb4_bin AND s.`team` = given.subscribers))
);

-- the join of entries with the tenants
 STRAIGHT_JOIN JSON_TABLE(%s, '$[*]' COLUMNS (entry varchar(1024) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PATH '$[0]', subscribers bigint PATH '$[1]')) AS given;

-- probe 1
UPDATE `people` SET `suppressed_at` = `suppressed_at` WHERE 1 = 0;

-- probe 2
UPDATE `mails` SET `delivered_at` = `delivered_at` WHERE 1 = 0;

-- probe 3
UPDATE `members` SET `suppressed_at` = `suppressed_at` WHERE 1 = 0;

-- probe 4
UPDATE `hookrow_notifications` SET `attempts` = `attempts` WHERE 1 = 0;

-- a group of deliveries
BEGIN;
SET @hookrow_check = IF((SELECT count(*)
FROM (SELECT * FROM JSON_TABLE(%s, '$[*]' COLUMNS (key_0 bigint PATH '$[0]')) AS given) AS given STRAIGHT_JOIN `mails` AS d
WHERE d.`id` = given.key_0
FOR UPDATE) = %s, 1, (SELECT 1 UNION ALL SELECT 2));
UPDATE `mails` AS d SET d.`delivered_at` = CASE d.`id` %s END
WHERE d.`id` IN (%s);
SELECT name INTO @hookrow_writer FROM `hookrow_meta`
WHERE name = CASE (unix_timestamp() DIV 40) %% 2 WHEN 0 THEN 'lock_writers_0' ELSE 'lock_writers_1' END
LOCK IN SHARE MODE;
INSERT INTO `hookrow_notifications` (fingerprint, record_type, message_id, recipient, occurred_at, outcome, status, attempts, received_at, last_received_at, ended_at, retry_at, body, reason, provider, source, trace_id, entry, change_number, first_outcome)
VALUES %s
ON DUPLICATE KEY UPDATE
ended_at = CASE WHEN `hookrow_notifications`.outcome = 'recorded' AND VALUES(outcome) = `hookrow_notifications`.outcome THEN `hookrow_notifications`.ended_at ELSE VALUES(ended_at) END,
source = CASE WHEN `hookrow_notifications`.outcome = 'recorded' AND VALUES(outcome) = `hookrow_notifications`.outcome THEN `hookrow_notifications`.source ELSE VALUES(source) END,
outcome = VALUES(outcome),
status = VALUES(status),
retry_at = VALUES(retry_at),
recipient = CASE WHEN VALUES(attempts) > 0 THEN coalesce(`hookrow_notifications`.recipient, VALUES(recipient)) ELSE `hookrow_notifications`.recipient END,
body = CASE WHEN VALUES(attempts) > 0 THEN coalesce(`hookrow_notifications`.body, VALUES(body)) ELSE `hookrow_notifications`.body END,
reason = CASE WHEN VALUES(attempts) > 0 THEN coalesce(`hookrow_notifications`.reason, VALUES(reason)) ELSE `hookrow_notifications`.reason END,
provider = CASE WHEN VALUES(attempts) > 0 THEN coalesce(`hookrow_notifications`.provider, VALUES(provider)) ELSE `hookrow_notifications`.provider END,
trace_id = CASE WHEN VALUES(attempts) > 0 THEN coalesce(`hookrow_notifications`.trace_id, VALUES(trace_id)) ELSE `hookrow_notifications`.trace_id END,
attempts = `hookrow_notifications`.attempts + VALUES(attempts),
change_number = coalesce(VALUES(change_number), `hookrow_notifications`.change_number),
received_at = CASE WHEN `hookrow_notifications`.received_at < VALUES(received_at) THEN `hookrow_notifications`.received_at ELSE VALUES(received_at) END,
last_received_at = CASE WHEN `hookrow_notifications`.last_received_at > VALUES(last_received_at) THEN `hookrow_notifications`.last_received_at ELSE VALUES(last_received_at) END;
COMMIT;

-- a group of late deliveries
BEGIN;
SET @hookrow_check = IF((SELECT count(*)
FROM (SELECT * FROM JSON_TABLE(%s, '$[*]' COLUMNS (key_0 bigint PATH '$[0]')) AS given) AS given STRAIGHT_JOIN `mails` AS d
WHERE d.`id` = given.key_0
FOR UPDATE) = %s, 1, (SELECT 1 UNION ALL SELECT 2));
UPDATE `mails` AS d SET d.`delivered_at` = CASE d.`id` %s END
WHERE d.`id` IN (%s) AND (d.`delivered_at` IS NULL OR d.`delivered_at` < CAST(CASE d.`id` %s END AS datetime(6)));
SELECT name INTO @hookrow_writer FROM `hookrow_meta`
WHERE name = CASE (unix_timestamp() DIV 40) %% 2 WHEN 0 THEN 'lock_writers_0' ELSE 'lock_writers_1' END
LOCK IN SHARE MODE;
INSERT INTO `hookrow_notifications` (fingerprint, record_type, message_id, recipient, occurred_at, outcome, status, attempts, received_at, last_received_at, ended_at, retry_at, body, reason, provider, source, trace_id, entry, change_number, first_outcome)
VALUES %s
ON DUPLICATE KEY UPDATE
ended_at = CASE WHEN `hookrow_notifications`.outcome = 'recorded' AND VALUES(outcome) = `hookrow_notifications`.outcome THEN `hookrow_notifications`.ended_at ELSE VALUES(ended_at) END,
source = CASE WHEN `hookrow_notifications`.outcome = 'recorded' AND VALUES(outcome) = `hookrow_notifications`.outcome THEN `hookrow_notifications`.source ELSE VALUES(source) END,
outcome = VALUES(outcome),
status = VALUES(status),
retry_at = VALUES(retry_at),
recipient = CASE WHEN VALUES(attempts) > 0 THEN coalesce(`hookrow_notifications`.recipient, VALUES(recipient)) ELSE `hookrow_notifications`.recipient END,
body = CASE WHEN VALUES(attempts) > 0 THEN coalesce(`hookrow_notifications`.body, VALUES(body)) ELSE `hookrow_notifications`.body END,
reason = CASE WHEN VALUES(attempts) > 0 THEN coalesce(`hookrow_notifications`.reason, VALUES(reason)) ELSE `hookrow_notifications`.reason END,
provider = CASE WHEN VALUES(attempts) > 0 THEN coalesce(`hookrow_notifications`.provider, VALUES(provider)) ELSE `hookrow_notifications`.provider END,
trace_id = CASE WHEN VALUES(attempts) > 0 THEN coalesce(`hookrow_notifications`.trace_id, VALUES(trace_id)) ELSE `hookrow_notifications`.trace_id END,
attempts = `hookrow_notifications`.attempts + VALUES(attempts),
change_number = coalesce(VALUES(change_number), `hookrow_notifications`.change_number),
received_at = CASE WHEN `hookrow_notifications`.received_at < VALUES(received_at) THEN `hookrow_notifications`.received_at ELSE VALUES(received_at) END,
last_received_at = CASE WHEN `hookrow_notifications`.last_received_at > VALUES(last_received_at) THEN `hookrow_notifications`.last_received_at ELSE VALUES(last_received_at) END;
COMMIT;

-- a group of suppressions
BEGIN;
SET @hookrow_check = IF((SELECT count(*)
FROM (SELECT * FROM JSON_TABLE(%s, '$[*]' COLUMNS (key_0 bigint PATH '$[0]')) AS given) AS given STRAIGHT_JOIN `people` AS s
WHERE s.`id` = given.key_0
FOR UPDATE) = %s
AND (SELECT count(*)
FROM (SELECT * FROM JSON_TABLE(%s, '$[*]' COLUMNS (key_0 bigint PATH '$[0]')) AS given) AS given STRAIGHT_JOIN `mails` AS d
WHERE d.`id` = given.key_0
FOR UPDATE) = %s
AND (SELECT count(*)
FROM (SELECT * FROM JSON_TABLE(%s, '$[*]' COLUMNS (key_0 bigint PATH '$[0]', key_1 bigint PATH '$[1]')) AS given) AS given STRAIGHT_JOIN `members` AS b
WHERE b.`list_id` = given.key_0 AND b.`subscriber_id` = given.key_1
FOR UPDATE) = %s, 1, (SELECT 1 UNION ALL SELECT 2));
UPDATE `members` AS b SET b.`suppressed_at` = CASE %s END, b.`suppression_reason` = concat(CASE %s END), b.`suppression_changed_at` = CASE %s END
WHERE (%s) AND (b.`suppression_changed_at` IS NULL OR b.`suppression_changed_at` <= CAST(CASE %s END AS datetime(6)));
UPDATE `mails` AS d SET d.`suppressed_at` = CASE d.`id` %s END, d.`suppression_reason` = concat(CASE d.`id` %s END), d.`suppression_changed_at` = CASE d.`id` %s END
WHERE d.`id` IN (%s) AND (d.`suppression_changed_at` IS NULL OR d.`suppression_changed_at` <= CAST(CASE d.`id` %s END AS datetime(6)));
UPDATE `people` AS s SET s.`suppressed_at` = CASE s.`id` %s END, s.`suppression_reason` = concat(CASE s.`id` %s END), s.`suppression_changed_at` = CASE s.`id` %s END
WHERE s.`id` IN (%s) AND (s.`suppression_changed_at` IS NULL OR s.`suppression_changed_at` <= CAST(CASE s.`id` %s END AS datetime(6)));
SELECT name INTO @hookrow_writer FROM `hookrow_meta`
WHERE name = CASE (unix_timestamp() DIV 40) %% 2 WHEN 0 THEN 'lock_writers_0' ELSE 'lock_writers_1' END
LOCK IN SHARE MODE;
INSERT INTO `hookrow_notifications` (fingerprint, record_type, message_id, recipient, occurred_at, outcome, status, attempts, received_at, last_received_at, ended_at, retry_at, body, reason, provider, source, trace_id, entry, change_number, first_outcome)
VALUES %s
ON DUPLICATE KEY UPDATE
ended_at = CASE WHEN `hookrow_notifications`.outcome = 'recorded' AND VALUES(outcome) = `hookrow_notifications`.outcome THEN `hookrow_notifications`.ended_at ELSE VALUES(ended_at) END,
source = CASE WHEN `hookrow_notifications`.outcome = 'recorded' AND VALUES(outcome) = `hookrow_notifications`.outcome THEN `hookrow_notifications`.source ELSE VALUES(source) END,
outcome = VALUES(outcome),
status = VALUES(status),
retry_at = VALUES(retry_at),
recipient = CASE WHEN VALUES(attempts) > 0 THEN coalesce(`hookrow_notifications`.recipient, VALUES(recipient)) ELSE `hookrow_notifications`.recipient END,
body = CASE WHEN VALUES(attempts) > 0 THEN coalesce(`hookrow_notifications`.body, VALUES(body)) ELSE `hookrow_notifications`.body END,
reason = CASE WHEN VALUES(attempts) > 0 THEN coalesce(`hookrow_notifications`.reason, VALUES(reason)) ELSE `hookrow_notifications`.reason END,
provider = CASE WHEN VALUES(attempts) > 0 THEN coalesce(`hookrow_notifications`.provider, VALUES(provider)) ELSE `hookrow_notifications`.provider END,
trace_id = CASE WHEN VALUES(attempts) > 0 THEN coalesce(`hookrow_notifications`.trace_id, VALUES(trace_id)) ELSE `hookrow_notifications`.trace_id END,
attempts = `hookrow_notifications`.attempts + VALUES(attempts),
change_number = coalesce(VALUES(change_number), `hookrow_notifications`.change_number),
received_at = CASE WHEN `hookrow_notifications`.received_at < VALUES(received_at) THEN `hookrow_notifications`.received_at ELSE VALUES(received_at) END,
last_received_at = CASE WHEN `hookrow_notifications`.last_received_at > VALUES(last_received_at) THEN `hookrow_notifications`.last_received_at ELSE VALUES(last_received_at) END;
COMMIT;

-- a group of opens and suppressions
BEGIN;
SET @hookrow_check = IF((SELECT count(*)
FROM (SELECT * FROM JSON_TABLE(%s, '$[*]' COLUMNS (key_0 bigint PATH '$[0]')) AS given) AS given STRAIGHT_JOIN `people` AS s
WHERE s.`id` = given.key_0
FOR UPDATE) = %s
AND (SELECT count(*)
FROM (SELECT * FROM JSON_TABLE(%s, '$[*]' COLUMNS (key_0 bigint PATH '$[0]')) AS given) AS given STRAIGHT_JOIN `mails` AS d
WHERE d.`id` = given.key_0
FOR UPDATE) = %s
AND (SELECT count(*)
FROM (SELECT * FROM JSON_TABLE(%s, '$[*]' COLUMNS (key_0 bigint PATH '$[0]', key_1 bigint PATH '$[1]')) AS given) AS given STRAIGHT_JOIN `members` AS b
WHERE b.`list_id` = given.key_0 AND b.`subscriber_id` = given.key_1
FOR UPDATE) = %s, 1, (SELECT 1 UNION ALL SELECT 2));
UPDATE `members` AS b SET b.`suppressed_at` = CASE %s END, b.`suppression_reason` = concat(CASE %s END), b.`suppression_changed_at` = CASE %s END
WHERE (%s) AND (b.`suppression_changed_at` IS NULL OR b.`suppression_changed_at` <= CAST(CASE %s END AS datetime(6)));
UPDATE `mails` AS d SET d.`opened_at` = CASE d.`id` %s END
WHERE d.`id` IN (%s);
UPDATE `mails` AS d SET d.`suppressed_at` = CASE d.`id` %s END, d.`suppression_reason` = concat(CASE d.`id` %s END), d.`suppression_changed_at` = CASE d.`id` %s END
WHERE d.`id` IN (%s) AND (d.`suppression_changed_at` IS NULL OR d.`suppression_changed_at` <= CAST(CASE d.`id` %s END AS datetime(6)));
UPDATE `people` AS s SET s.`suppressed_at` = CASE s.`id` %s END, s.`suppression_reason` = concat(CASE s.`id` %s END), s.`suppression_changed_at` = CASE s.`id` %s END
WHERE s.`id` IN (%s) AND (s.`suppression_changed_at` IS NULL OR s.`suppression_changed_at` <= CAST(CASE s.`id` %s END AS datetime(6)));
SELECT name INTO @hookrow_writer FROM `hookrow_meta`
WHERE name = CASE (unix_timestamp() DIV 40) %% 2 WHEN 0 THEN 'lock_writers_0' ELSE 'lock_writers_1' END
LOCK IN SHARE MODE;
INSERT INTO `hookrow_notifications` (fingerprint, record_type, message_id, recipient, occurred_at, outcome, status, attempts, received_at, last_received_at, ended_at, retry_at, body, reason, provider, source, trace_id, entry, change_number, first_outcome)
VALUES %s
ON DUPLICATE KEY UPDATE
ended_at = CASE WHEN `hookrow_notifications`.outcome = 'recorded' AND VALUES(outcome) = `hookrow_notifications`.outcome THEN `hookrow_notifications`.ended_at ELSE VALUES(ended_at) END,
source = CASE WHEN `hookrow_notifications`.outcome = 'recorded' AND VALUES(outcome) = `hookrow_notifications`.outcome THEN `hookrow_notifications`.source ELSE VALUES(source) END,
outcome = VALUES(outcome),
status = VALUES(status),
retry_at = VALUES(retry_at),
recipient = CASE WHEN VALUES(attempts) > 0 THEN coalesce(`hookrow_notifications`.recipient, VALUES(recipient)) ELSE `hookrow_notifications`.recipient END,
body = CASE WHEN VALUES(attempts) > 0 THEN coalesce(`hookrow_notifications`.body, VALUES(body)) ELSE `hookrow_notifications`.body END,
reason = CASE WHEN VALUES(attempts) > 0 THEN coalesce(`hookrow_notifications`.reason, VALUES(reason)) ELSE `hookrow_notifications`.reason END,
provider = CASE WHEN VALUES(attempts) > 0 THEN coalesce(`hookrow_notifications`.provider, VALUES(provider)) ELSE `hookrow_notifications`.provider END,
trace_id = CASE WHEN VALUES(attempts) > 0 THEN coalesce(`hookrow_notifications`.trace_id, VALUES(trace_id)) ELSE `hookrow_notifications`.trace_id END,
attempts = `hookrow_notifications`.attempts + VALUES(attempts),
change_number = coalesce(VALUES(change_number), `hookrow_notifications`.change_number),
received_at = CASE WHEN `hookrow_notifications`.received_at < VALUES(received_at) THEN `hookrow_notifications`.received_at ELSE VALUES(received_at) END,
last_received_at = CASE WHEN `hookrow_notifications`.last_received_at > VALUES(last_received_at) THEN `hookrow_notifications`.last_received_at ELSE VALUES(last_received_at) END;
COMMIT;

-- count rows by list
SELECT coalesce(d.`list_id`), count(d.`provider_message_id`), count(d.`delivered_at`), count(d.`opened_at`) FROM `mails` AS d WHERE true GROUP BY 1;

-- count rows by list
SELECT coalesce(b.`list_id`), count(*), count(b.`suppressed_at`) FROM `members` AS b WHERE true GROUP BY 1;

-- count the suppressed by reason
SELECT left(NULLIF(coalesce(CAST(s.`suppression_reason` AS CHAR), ''), ''), 512), count(*) FROM `people` AS s WHERE s.`suppressed_at` IS NOT NULL GROUP BY 1;

-- count undelivered dispatches
SELECT count(*) FROM `mails` AS d WHERE coalesce(d.`provider_message_id`) IS NOT NULL AND d.`delivered_at` IS NULL;

-- list undelivered dispatches
SELECT CAST(d.`provider_message_id` AS CHAR), NULL, NULL, d.`id` FROM `mails` AS d WHERE coalesce(d.`provider_message_id`) IS NOT NULL AND d.`delivered_at` IS NULL ORDER BY d.`id` LIMIT 10;

-- list more of them
SELECT CAST(d.`provider_message_id` AS CHAR), NULL, NULL, d.`id` FROM `mails` AS d WHERE coalesce(d.`provider_message_id`) IS NOT NULL AND d.`delivered_at` IS NULL AND d.`id` > %s ORDER BY d.`id` LIMIT 10;

-- step through suppressions
SELECT CAST(s.`suppressed_at` AS CHAR), s.`id` FROM (SELECT s.`suppressed_at`, s.`id` FROM `people` AS s WHERE s.`suppressed_at` IS NOT NULL AND (s.`suppressed_at` > %s OR s.`suppressed_at` = %s AND s.`id` > %s) AND (s.`suppressed_at` < %s OR s.`suppressed_at` = %s AND s.`id` <= %s) AND s.`suppressed_at` >= %s ORDER BY s.`suppressed_at` ASC, s.`id` ASC LIMIT 1 OFFSET 99) AS s;

-- read suppressions
SELECT s.`suppressed_at`, CAST(s.`email` AS CHAR), substr(coalesce(CAST(s.`suppression_reason` AS CHAR), ''), 1, 1000), CAST(s.`suppressed_at` AS CHAR), s.`id` FROM `people` AS s WHERE s.`suppressed_at` IS NOT NULL ORDER BY s.`suppressed_at` DESC, s.`id` DESC LIMIT 10;

-- read suppressions of a reason
SELECT s.`suppressed_at`, CAST(s.`email` AS CHAR), substr(coalesce(CAST(s.`suppression_reason` AS CHAR), ''), 1, 1000), CAST(s.`suppressed_at` AS CHAR), s.`id` FROM `people` AS s WHERE s.`suppressed_at` IS NOT NULL AND (s.`suppressed_at` > %s OR s.`suppressed_at` = %s AND s.`id` > %s) AND (s.`suppressed_at` < %s OR s.`suppressed_at` = %s AND s.`id` <= %s) AND s.`suppressed_at` >= %s AND s.`suppression_reason` = %s AND char_length(s.`suppression_reason`) <= 64 ORDER BY s.`suppressed_at` ASC, s.`id` ASC LIMIT 10;

-- read suppressions of an entry
SELECT s.`suppressed_at`, CAST(s.`email` AS CHAR), substr(coalesce(CAST(s.`suppression_reason` AS CHAR), ''), 1, 1000), CAST(s.`suppressed_at` AS CHAR), s.`id` FROM `people` AS s WHERE s.`suppressed_at` IS NOT NULL AND (SELECT 1 FROM `hookrow_notifications` AS n WHERE n.reason IS NOT NULL AND n.changed_recipient = lower(CONVERT(CAST(s.`email` AS CHAR) USING utf8mb4) COLLATE utf8mb4_bin) AND n.entry = %s AND n.outcome IN ('dispatch_not_found', 'recipient_mismatch', 'recorded', 'unmapped') LIMIT 1) = 1 ORDER BY s.`suppressed_at` DESC, s.`id` DESC LIMIT 10;

-- count suppressions
SELECT count(*) FROM (SELECT 1 FROM `people` AS s WHERE s.`suppressed_at` IS NOT NULL ORDER BY s.`suppressed_at` DESC, s.`id` DESC LIMIT 10) AS found;

-- changes in the log
SELECT id, message_id, recipient, reason, entry, occurred_at, received_at, last_received_at FROM `hookrow_notifications` WHERE (record_type = 'SubscriptionChange' OR reason IS NOT NULL) AND outcome IN ('dispatch_not_found', 'recipient_mismatch', 'recorded', 'unmapped') AND changed_recipient IN (%s) ORDER BY id + 0 DESC LIMIT 10;

-- lists
WITH RECURSIVE found (list_id) AS (SELECT (SELECT b.`list_id` FROM `members` AS b WHERE b.`list_id` IS NOT NULL ORDER BY b.`list_id` LIMIT 1) UNION ALL SELECT (SELECT b.`list_id` FROM `members` AS b WHERE b.`list_id` > found.list_id ORDER BY b.`list_id` LIMIT 1) FROM found WHERE list_id IS NOT NULL) SELECT list_id FROM found WHERE list_id IS NOT NULL LIMIT 10;

-- the size of a list
SELECT count(*) FROM (SELECT 1 FROM `members` AS b WHERE b.`list_id` = %s LIMIT 10000) AS found;

-- read suppressions of a list
SELECT s.`suppressed_at`, CAST(s.`email` AS CHAR), substr(coalesce(CAST(s.`suppression_reason` AS CHAR), ''), 1, 1000), CAST(s.`suppressed_at` AS CHAR), s.`id` FROM `people` AS s WHERE s.`suppressed_at` IS NOT NULL AND (SELECT 1 FROM `members` AS b WHERE b.`list_id` = %s AND s.`id` = b.`subscriber_id` LIMIT 1) = 1 ORDER BY s.`suppressed_at` DESC, s.`id` DESC LIMIT 10;

-- read those of a small list
SELECT s.`suppressed_at`, CAST(s.`email` AS CHAR), substr(coalesce(CAST(s.`suppression_reason` AS CHAR), ''), 1, 1000), CAST(s.`suppressed_at` AS CHAR), s.`id` FROM `people` AS s WHERE s.`suppressed_at` IS NOT NULL AND s.`id` IN (SELECT * FROM (SELECT b.`subscriber_id` FROM `members` AS b WHERE b.`list_id` = %s) AS selected) ORDER BY s.`suppressed_at` DESC, s.`id` DESC LIMIT 10;

-- emails that begin with a text
SELECT CAST(s.`email` AS CHAR) FROM (SELECT s.`id`, s.`email`, s.`suppressed_at`, s.`suppression_reason`, s.`suppression_changed_at`, s.`team` FROM `people` AS s WHERE s.`email_folded` >= %s ORDER BY s.`email_folded` LIMIT 10) AS s WHERE s.`email` IS NOT NULL;

-- message ids that begin with a text
SELECT CAST(d.`provider_message_id` AS CHAR) FROM (SELECT d.`id`, d.`provider_message_id`, d.`subscriber_id`, d.`delivered_at`, d.`opened_at`, d.`list_id`, d.`suppressed_at`, d.`suppression_reason`, d.`suppression_changed_at` FROM `mails` AS d WHERE d.`provider_message_id` >= %s ORDER BY d.`provider_message_id` LIMIT 10) AS d WHERE d.`provider_message_id` IS NOT NULL;

-- the messages of a subscriber
SELECT d.`id`, CAST(d.`provider_message_id` AS CHAR), NULL, d.`list_id`, NULL FROM `people` AS s JOIN `mails` AS d ON s.`id` = d.`subscriber_id` WHERE s.`id` = %s ORDER BY d.`id` DESC LIMIT 10;

-- the lists of a subscriber
SELECT b.`list_id`, b.`subscriber_id`, NULL FROM `people` AS s JOIN `members` AS b ON s.`id` = b.`subscriber_id` WHERE s.`id` = %s ORDER BY b.`list_id` LIMIT 10;
