-- find owners
SELECT CAST(o.`id` AS CHAR), CAST(o.`email` AS CHAR), CAST(d.`provider_message_id` AS CHAR), d.`id`, NULL
FROM `mails` AS d
LEFT JOIN `people` AS o ON o.`id` = d.`subscriber_id`
WHERE d.`provider_message_id` IN (SELECT value FROM JSON_TABLE(%s, '$[*]' COLUMNS (value varchar(321) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PATH '$')) AS given);

-- find
SELECT CAST(s.`id` AS CHAR), CAST(s.`email` AS CHAR), NULL, NULL, NULL
FROM `people` AS s
WHERE s.`email` IN (SELECT value FROM JSON_TABLE(%s, '$[*]' COLUMNS (value varchar(321) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci PATH '$')) AS given)
UNION ALL
SELECT CAST(o.`id` AS CHAR), CAST(o.`email` AS CHAR), CAST(d.`provider_message_id` AS CHAR), d.`id`, NULL
FROM `mails` AS d
LEFT JOIN `people` AS o ON o.`id` = d.`subscriber_id`
WHERE d.`provider_message_id` IN (SELECT value FROM JSON_TABLE(%s, '$[*]' COLUMNS (value varchar(321) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PATH '$')) AS given);

-- read subscribers
SELECT CAST(s.`id` AS CHAR), s.`suppressed_at`
FROM JSON_TABLE(%s, '$[*]' COLUMNS (key_0 varchar(37) CHARACTER SET ascii COLLATE ascii_bin PATH '$[0]')) AS given STRAIGHT_JOIN `people` AS s
WHERE s.`id` = given.key_0;

-- lock subscribers
SELECT CAST(s.`id` AS CHAR)
FROM (SELECT * FROM JSON_TABLE(%s, '$[*]' COLUMNS (key_0 varchar(37) CHARACTER SET ascii COLLATE ascii_bin PATH '$[0]')) AS given) AS given STRAIGHT_JOIN `people` AS s
WHERE s.`id` = given.key_0
FOR UPDATE;

-- lock subscribers, skipping locked rows
SELECT CAST(s.`id` AS CHAR)
FROM (SELECT * FROM JSON_TABLE(%s, '$[*]' COLUMNS (key_0 varchar(37) CHARACTER SET ascii COLLATE ascii_bin PATH '$[0]')) AS given) AS given STRAIGHT_JOIN `people` AS s
WHERE s.`id` = given.key_0
FOR UPDATE SKIP LOCKED;

-- read dispatches
SELECT d.`id`, d.`delivered_at`, d.`opened_at`
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

-- date the suppression of subscribers
INSERT INTO `hookrow_suppression_changes` (role, row_key, changed_at)
SELECT 'subscribers' AS role, given.row_key, given.suppression_changed_at
FROM JSON_TABLE(%s, '$[*]' COLUMNS (key_0 varchar(37) CHARACTER SET ascii COLLATE ascii_bin PATH '$[0]', row_key varchar(1024) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PATH '$[1]', suppression_changed_at datetime(6) PATH '$[2]')) AS given
WHERE EXISTS (SELECT 1 FROM `people` AS s WHERE s.`id` = given.key_0)
ON DUPLICATE KEY UPDATE
changed_at = greatest(`hookrow_suppression_changes`.changed_at, VALUES(changed_at));

-- set the suppression of subscribers
UPDATE JSON_TABLE(%s, '$[*]' COLUMNS (key_0 varchar(37) CHARACTER SET ascii COLLATE ascii_bin PATH '$[0]', suppressed_at datetime(6) PATH '$[1]' ERROR ON ERROR, row_key varchar(1024) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PATH '$[2]' ERROR ON ERROR, suppression_changed_at datetime(6) PATH '$[3]' ERROR ON ERROR)) AS given STRAIGHT_JOIN `people` AS s SET s.`suppressed_at` = given.suppressed_at
WHERE s.`id` = given.key_0
AND EXISTS (SELECT 1 FROM `hookrow_suppression_changes` AS dated WHERE dated.role = 'subscribers'
    AND dated.row_key = given.row_key AND dated.changed_at <= given.suppression_changed_at);

-- read the dates of subscribers
SELECT row_key, changed_at FROM `hookrow_suppression_changes` WHERE role = 'subscribers' AND row_key IN (SELECT value FROM JSON_TABLE(%s, '$[*]' COLUMNS (value varchar(1024) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PATH '$')) AS given);

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
    EXISTS (SELECT 1 FROM `mails` AS d STRAIGHT_JOIN `people` AS s
        WHERE d.`provider_message_id` = CONVERT(n.message_id USING utf8mb4) COLLATE utf8mb4_bin AND s.`id` = d.`subscriber_id` AND s.`email` = CONVERT(n.recipient USING utf8mb4) COLLATE utf8mb4_general_ci)
    OR ((n.reason IS NOT NULL OR n.record_type = 'SubscriptionChange')
        AND n.outcome = 'subscriber_not_found'
        AND EXISTS (SELECT 1 FROM `people` AS s WHERE s.`email` = CONVERT(n.recipient USING utf8mb4) COLLATE utf8mb4_general_ci))
);

-- probe 1
UPDATE `people` SET `suppressed_at` = `suppressed_at` WHERE 1 = 0;

-- probe 2
UPDATE `mails` SET `delivered_at` = `delivered_at` WHERE 1 = 0;

-- probe 3
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
FROM (SELECT * FROM JSON_TABLE(%s, '$[*]' COLUMNS (key_0 varchar(37) CHARACTER SET ascii COLLATE ascii_bin PATH '$[0]')) AS given) AS given STRAIGHT_JOIN `people` AS s
WHERE s.`id` = given.key_0
FOR UPDATE) = %s, 1, (SELECT 1 UNION ALL SELECT 2));
INSERT INTO `hookrow_suppression_changes` (role, row_key, changed_at)
SELECT 'subscribers' AS role, given.row_key, given.suppression_changed_at
FROM JSON_TABLE(%s, '$[*]' COLUMNS (key_0 varchar(37) CHARACTER SET ascii COLLATE ascii_bin PATH '$[0]', row_key varchar(1024) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PATH '$[1]', suppression_changed_at datetime(6) PATH '$[2]')) AS given
WHERE EXISTS (SELECT 1 FROM `people` AS s WHERE s.`id` = given.key_0)
ON DUPLICATE KEY UPDATE
changed_at = greatest(`hookrow_suppression_changes`.changed_at, VALUES(changed_at));
UPDATE `people` AS s SET s.`suppressed_at` = CASE s.`id` %s END
WHERE s.`id` IN (%s)
AND EXISTS (SELECT 1 FROM `hookrow_suppression_changes` AS dated WHERE dated.role = 'subscribers'
    AND dated.row_key = CASE s.`id` %s END AND dated.changed_at <= CAST(CASE s.`id` %s END AS datetime(6)));
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
FROM (SELECT * FROM JSON_TABLE(%s, '$[*]' COLUMNS (key_0 varchar(37) CHARACTER SET ascii COLLATE ascii_bin PATH '$[0]')) AS given) AS given STRAIGHT_JOIN `people` AS s
WHERE s.`id` = given.key_0
FOR UPDATE) = %s
AND (SELECT count(*)
FROM (SELECT * FROM JSON_TABLE(%s, '$[*]' COLUMNS (key_0 bigint PATH '$[0]')) AS given) AS given STRAIGHT_JOIN `mails` AS d
WHERE d.`id` = given.key_0
FOR UPDATE) = %s, 1, (SELECT 1 UNION ALL SELECT 2));
INSERT INTO `hookrow_suppression_changes` (role, row_key, changed_at)
SELECT 'subscribers' AS role, given.row_key, given.suppression_changed_at
FROM JSON_TABLE(%s, '$[*]' COLUMNS (key_0 varchar(37) CHARACTER SET ascii COLLATE ascii_bin PATH '$[0]', row_key varchar(1024) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PATH '$[1]', suppression_changed_at datetime(6) PATH '$[2]')) AS given
WHERE EXISTS (SELECT 1 FROM `people` AS s WHERE s.`id` = given.key_0)
ON DUPLICATE KEY UPDATE
changed_at = greatest(`hookrow_suppression_changes`.changed_at, VALUES(changed_at));
UPDATE `mails` AS d SET d.`opened_at` = CASE d.`id` %s END
WHERE d.`id` IN (%s);
UPDATE `people` AS s SET s.`suppressed_at` = CASE s.`id` %s END
WHERE s.`id` IN (%s)
AND EXISTS (SELECT 1 FROM `hookrow_suppression_changes` AS dated WHERE dated.role = 'subscribers'
    AND dated.row_key = CASE s.`id` %s END AND dated.changed_at <= CAST(CASE s.`id` %s END AS datetime(6)));
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
SELECT NULL, count(d.`provider_message_id`), count(d.`delivered_at`), count(d.`opened_at`) FROM `mails` AS d WHERE true GROUP BY 1;

-- count the suppressed by reason
SELECT left(NULLIF(CAST('' AS CHAR), ''), 512), count(*) FROM `people` AS s WHERE s.`suppressed_at` IS NOT NULL GROUP BY 1;

-- count undelivered dispatches
SELECT count(*) FROM `mails` AS d WHERE coalesce(d.`provider_message_id`) IS NOT NULL AND d.`delivered_at` IS NULL;

-- list undelivered dispatches
SELECT CAST(d.`provider_message_id` AS CHAR), NULL, NULL, d.`id` FROM `mails` AS d WHERE coalesce(d.`provider_message_id`) IS NOT NULL AND d.`delivered_at` IS NULL ORDER BY d.`id` LIMIT 10;

-- list more of them
SELECT CAST(d.`provider_message_id` AS CHAR), NULL, NULL, d.`id` FROM `mails` AS d WHERE coalesce(d.`provider_message_id`) IS NOT NULL AND d.`delivered_at` IS NULL AND d.`id` > %s ORDER BY d.`id` LIMIT 10;

-- step through suppressions
SELECT CAST(s.`suppressed_at` AS CHAR), CAST(s.`id` AS CHAR) FROM (SELECT s.`suppressed_at`, s.`id` FROM `people` AS s WHERE s.`suppressed_at` IS NOT NULL AND (s.`suppressed_at` > %s OR s.`suppressed_at` = %s AND s.`id` > %s) AND (s.`suppressed_at` < %s OR s.`suppressed_at` = %s AND s.`id` <= %s) AND s.`suppressed_at` >= %s ORDER BY s.`suppressed_at` ASC, s.`id` ASC LIMIT 1 OFFSET 99) AS s;

-- read suppressions
SELECT s.`suppressed_at`, CAST(s.`email` AS CHAR), substr(CAST('' AS CHAR), 1, 1000), CAST(s.`suppressed_at` AS CHAR), CAST(s.`id` AS CHAR) FROM `people` AS s WHERE s.`suppressed_at` IS NOT NULL ORDER BY s.`suppressed_at` DESC, s.`id` DESC LIMIT 10;

-- read suppressions of a reason
SELECT s.`suppressed_at`, CAST(s.`email` AS CHAR), substr(CAST('' AS CHAR), 1, 1000), CAST(s.`suppressed_at` AS CHAR), CAST(s.`id` AS CHAR) FROM `people` AS s WHERE s.`suppressed_at` IS NOT NULL AND (s.`suppressed_at` > %s OR s.`suppressed_at` = %s AND s.`id` > %s) AND (s.`suppressed_at` < %s OR s.`suppressed_at` = %s AND s.`id` <= %s) AND s.`suppressed_at` >= %s AND CAST('' AS CHAR) = %s ORDER BY s.`suppressed_at` ASC, s.`id` ASC LIMIT 10;

-- read suppressions of an entry
SELECT s.`suppressed_at`, CAST(s.`email` AS CHAR), substr(CAST('' AS CHAR), 1, 1000), CAST(s.`suppressed_at` AS CHAR), CAST(s.`id` AS CHAR) FROM `people` AS s WHERE s.`suppressed_at` IS NOT NULL AND (SELECT 1 FROM `hookrow_notifications` AS n WHERE n.reason IS NOT NULL AND n.changed_recipient = lower(CONVERT(CAST(s.`email` AS CHAR) USING utf8mb4) COLLATE utf8mb4_bin) AND n.entry = %s AND n.outcome IN ('dispatch_not_found', 'recipient_mismatch', 'recorded', 'unmapped') LIMIT 1) = 1 ORDER BY s.`suppressed_at` DESC, s.`id` DESC LIMIT 10;

-- count suppressions
SELECT count(*) FROM (SELECT 1 FROM `people` AS s WHERE s.`suppressed_at` IS NOT NULL ORDER BY s.`suppressed_at` DESC, s.`id` DESC LIMIT 10) AS found;

-- changes in the log
SELECT id, message_id, recipient, reason, entry, occurred_at, received_at, last_received_at FROM `hookrow_notifications` WHERE (record_type = 'SubscriptionChange' OR reason IS NOT NULL) AND outcome IN ('dispatch_not_found', 'recipient_mismatch', 'recorded', 'unmapped') AND changed_recipient IN (%s) ORDER BY id + 0 DESC LIMIT 10;

-- emails that begin with a text
SELECT CAST(s.`email` AS CHAR) FROM (SELECT s.`id`, s.`email`, s.`suppressed_at` FROM `people` AS s WHERE s.`email` >= %s ORDER BY s.`email` LIMIT 10) AS s WHERE s.`email` IS NOT NULL;

-- message ids that begin with a text
SELECT CAST(d.`provider_message_id` AS CHAR) FROM (SELECT d.`id`, d.`provider_message_id`, d.`subscriber_id`, d.`delivered_at`, d.`opened_at` FROM `mails` AS d WHERE d.`provider_message_id` >= %s ORDER BY d.`provider_message_id` LIMIT 10) AS d WHERE d.`provider_message_id` IS NOT NULL;

-- the messages of a subscriber
SELECT d.`id`, CAST(d.`provider_message_id` AS CHAR), NULL, NULL, NULL FROM `people` AS s JOIN `mails` AS d ON s.`id` = d.`subscriber_id` WHERE s.`id` = %s ORDER BY d.`id` DESC LIMIT 10;
