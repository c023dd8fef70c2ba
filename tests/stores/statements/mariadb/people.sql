-- find
SELECT s.`id`, CAST(s.`email` AS CHAR), NULL, NULL, NULL
FROM `people` AS s
WHERE s.`email_folded` IN (SELECT value FROM JSON_TABLE(%s, '$[*]' COLUMNS (value varchar(321) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PATH '$')) AS given) AND s.`deleted_at` IS NULL;

-- read subscribers
SELECT s.`id`, s.`suppressed_at`, s.`suppression_reason`, s.`suppression_changed_at`
FROM JSON_TABLE(%s, '$[*]' COLUMNS (key_0 bigint PATH '$[0]')) AS given STRAIGHT_JOIN `people` AS s
WHERE s.`id` = given.key_0 AND s.`deleted_at` IS NULL;

-- lock subscribers
SELECT s.`id`
FROM (SELECT * FROM JSON_TABLE(%s, '$[*]' COLUMNS (key_0 bigint PATH '$[0]')) AS given) AS given STRAIGHT_JOIN `people` AS s
WHERE s.`id` = given.key_0 AND s.`deleted_at` IS NULL
FOR UPDATE;

-- lock subscribers, skipping locked rows
SELECT s.`id`
FROM (SELECT * FROM JSON_TABLE(%s, '$[*]' COLUMNS (key_0 bigint PATH '$[0]')) AS given) AS given STRAIGHT_JOIN `people` AS s
WHERE s.`id` = given.key_0 AND s.`deleted_at` IS NULL
FOR UPDATE SKIP LOCKED;

-- set the suppression of subscribers
UPDATE JSON_TABLE(%s, '$[*]' COLUMNS (key_0 bigint PATH '$[0]', suppressed_at datetime(6) PATH '$[1]' ERROR ON ERROR, suppression_reason varchar(321) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PATH '$[2]' ERROR ON ERROR, suppression_changed_at datetime(6) PATH '$[3]' ERROR ON ERROR)) AS given STRAIGHT_JOIN `people` AS s SET s.`suppressed_at` = given.suppressed_at, s.`suppression_reason` = concat(given.suppression_reason), s.`suppression_changed_at` = given.suppression_changed_at
WHERE s.`id` = given.key_0 AND s.`deleted_at` IS NULL;

-- set the suppression of subscribers late
UPDATE JSON_TABLE(%s, '$[*]' COLUMNS (key_0 bigint PATH '$[0]', suppressed_at datetime(6) PATH '$[1]' ERROR ON ERROR, suppression_reason varchar(321) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PATH '$[2]' ERROR ON ERROR, suppression_changed_at datetime(6) PATH '$[3]' ERROR ON ERROR)) AS given STRAIGHT_JOIN `people` AS s SET s.`suppressed_at` = given.suppressed_at, s.`suppression_reason` = concat(given.suppression_reason), s.`suppression_changed_at` = given.suppression_changed_at
WHERE s.`id` = given.key_0 AND (s.`suppression_changed_at` IS NULL OR s.`suppression_changed_at` <= given.suppression_changed_at) AND s.`deleted_at` IS NULL;

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
n.outcome IN ('dispatch_not_found', 'recipient_mismatch', 'subscriber_not_found') AND (
    ((n.reason IS NOT NULL OR n.record_type = 'SubscriptionChange')
        AND n.outcome = 'subscriber_not_found'
        AND EXISTS (SELECT 1 FROM `people` AS s WHERE s.`email_folded` = CONVERT(n.recipient USING utf8mb4) COLLATE utf8mb4_bin AND s.`deleted_at` IS NULL))
);

-- probe 1
UPDATE `people` SET `suppressed_at` = `suppressed_at` WHERE 1 = 0;

-- probe 2
UPDATE `hookrow_notifications` SET `attempts` = `attempts` WHERE 1 = 0;

-- a group of suppressions
BEGIN;
SET @hookrow_check = IF((SELECT count(*)
FROM (SELECT * FROM JSON_TABLE(%s, '$[*]' COLUMNS (key_0 bigint PATH '$[0]')) AS given) AS given STRAIGHT_JOIN `people` AS s
WHERE s.`id` = given.key_0 AND s.`deleted_at` IS NULL
FOR UPDATE) = %s, 1, (SELECT 1 UNION ALL SELECT 2));
UPDATE `people` AS s SET s.`suppressed_at` = CASE s.`id` %s END, s.`suppression_reason` = concat(CASE s.`id` %s END), s.`suppression_changed_at` = CASE s.`id` %s END
WHERE s.`id` IN (%s) AND (s.`suppression_changed_at` IS NULL OR s.`suppression_changed_at` <= CAST(CASE s.`id` %s END AS datetime(6))) AND s.`deleted_at` IS NULL;
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

-- count the suppressed by reason
SELECT left(NULLIF(coalesce(CAST(s.`suppression_reason` AS CHAR), ''), ''), 512), count(*) FROM `people` AS s WHERE s.`suppressed_at` IS NOT NULL AND s.`deleted_at` IS NULL GROUP BY 1;

-- step through suppressions
SELECT CAST(s.`suppressed_at` AS CHAR), s.`id` FROM (SELECT s.`suppressed_at`, s.`id` FROM `people` AS s WHERE s.`suppressed_at` IS NOT NULL AND (s.`suppressed_at` > %s OR s.`suppressed_at` = %s AND s.`id` > %s) AND (s.`suppressed_at` < %s OR s.`suppressed_at` = %s AND s.`id` <= %s) AND s.`suppressed_at` >= %s ORDER BY s.`suppressed_at` ASC, s.`id` ASC LIMIT 1 OFFSET 99) AS s;

-- read suppressions
SELECT s.`suppressed_at`, CAST(s.`email` AS CHAR), substr(coalesce(CAST(s.`suppression_reason` AS CHAR), ''), 1, 1000), CAST(s.`suppressed_at` AS CHAR), s.`id` FROM `people` AS s WHERE s.`suppressed_at` IS NOT NULL AND s.`deleted_at` IS NULL ORDER BY s.`suppressed_at` DESC, s.`id` DESC LIMIT 10;

-- read suppressions of a reason
SELECT s.`suppressed_at`, CAST(s.`email` AS CHAR), substr(coalesce(CAST(s.`suppression_reason` AS CHAR), ''), 1, 1000), CAST(s.`suppressed_at` AS CHAR), s.`id` FROM `people` AS s WHERE s.`suppressed_at` IS NOT NULL AND (s.`suppressed_at` > %s OR s.`suppressed_at` = %s AND s.`id` > %s) AND (s.`suppressed_at` < %s OR s.`suppressed_at` = %s AND s.`id` <= %s) AND s.`suppressed_at` >= %s AND s.`suppression_reason` = %s AND char_length(s.`suppression_reason`) <= 64 AND s.`deleted_at` IS NULL ORDER BY s.`suppressed_at` ASC, s.`id` ASC LIMIT 10;

-- read suppressions of an entry
SELECT s.`suppressed_at`, CAST(s.`email` AS CHAR), substr(coalesce(CAST(s.`suppression_reason` AS CHAR), ''), 1, 1000), CAST(s.`suppressed_at` AS CHAR), s.`id` FROM `people` AS s WHERE s.`suppressed_at` IS NOT NULL AND (SELECT 1 FROM `hookrow_notifications` AS n WHERE n.reason IS NOT NULL AND n.changed_recipient = lower(CONVERT(CAST(s.`email` AS CHAR) USING utf8mb4) COLLATE utf8mb4_bin) AND n.entry = %s AND n.outcome IN ('dispatch_not_found', 'recipient_mismatch', 'recorded', 'unmapped') LIMIT 1) = 1 AND s.`deleted_at` IS NULL ORDER BY s.`suppressed_at` DESC, s.`id` DESC LIMIT 10;

-- count suppressions
SELECT count(*) FROM (SELECT 1 FROM `people` AS s WHERE s.`suppressed_at` IS NOT NULL AND s.`deleted_at` IS NULL ORDER BY s.`suppressed_at` DESC, s.`id` DESC LIMIT 10) AS found;

-- changes in the log
SELECT id, message_id, recipient, reason, entry, occurred_at, received_at, last_received_at FROM `hookrow_notifications` WHERE (record_type = 'SubscriptionChange' OR reason IS NOT NULL) AND outcome IN ('dispatch_not_found', 'recipient_mismatch', 'recorded', 'unmapped') AND changed_recipient IN (%s) ORDER BY id + 0 DESC LIMIT 10;

-- emails that begin with a text
SELECT CAST(s.`email` AS CHAR) FROM (SELECT s.`id`, s.`email`, s.`suppressed_at`, s.`suppression_reason`, s.`suppression_changed_at`, s.`deleted_at` FROM `people` AS s WHERE s.`email_folded` >= %s ORDER BY s.`email_folded` LIMIT 10) AS s WHERE s.`email` IS NOT NULL AND s.`deleted_at` IS NULL;
