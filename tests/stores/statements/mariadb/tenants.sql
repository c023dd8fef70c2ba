-- find owners
SELECT CASE WHEN o.`tenant` = 7 AND o.`active` = true AND o.`deleted_at` IS NULL THEN CAST(o.`id` AS CHAR) END, CAST(o.`address` AS CHAR), CAST(d.`postmark_id` AS CHAR), CAST(d.`key` AS CHAR), m.`list_id`
FROM `mail`.`sends` AS d
LEFT JOIN `peo"ple` AS o ON o.`id` = CONVERT(d.`person` USING latin1) COLLATE latin1_swedish_ci AND (o.`tenant` = 7 AND o.`active` = true AND o.`deleted_at` IS NULL
    OR NOT EXISTS (SELECT 1 FROM `peo"ple` AS s WHERE s.`id` = CONVERT(d.`person` USING latin1) COLLATE latin1_swedish_ci AND s.`tenant` = 7 AND s.`active` = true AND s.`deleted_at` IS NULL)) LEFT JOIN `campaigns` AS m ON m.`id` = d.`campaign` AND m.`tenant` = 7
WHERE d.`postmark_id` IN (SELECT value FROM JSON_TABLE(%s, '$[*]' COLUMNS (value varchar(37) CHARACTER SET ascii COLLATE ascii_bin PATH '$')) AS given) AND d.`state` IS NULL;

-- find
SELECT CAST(s.`id` AS CHAR), CAST(s.`address` AS CHAR), NULL, NULL, NULL
FROM `peo"ple` AS s
WHERE lower(s.`address`) IN (SELECT lower(value) FROM JSON_TABLE(%s, '$[*]' COLUMNS (value varchar(321) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PATH '$')) AS given) AND s.`tenant` = 7 AND s.`active` = true AND s.`deleted_at` IS NULL
UNION ALL
SELECT CASE WHEN o.`tenant` = 7 AND o.`active` = true AND o.`deleted_at` IS NULL THEN CAST(o.`id` AS CHAR) END, CAST(o.`address` AS CHAR), CAST(d.`postmark_id` AS CHAR), CAST(d.`key` AS CHAR), m.`list_id`
FROM `mail`.`sends` AS d
LEFT JOIN `peo"ple` AS o ON o.`id` = CONVERT(d.`person` USING latin1) COLLATE latin1_swedish_ci AND (o.`tenant` = 7 AND o.`active` = true AND o.`deleted_at` IS NULL
    OR NOT EXISTS (SELECT 1 FROM `peo"ple` AS s WHERE s.`id` = CONVERT(d.`person` USING latin1) COLLATE latin1_swedish_ci AND s.`tenant` = 7 AND s.`active` = true AND s.`deleted_at` IS NULL)) LEFT JOIN `campaigns` AS m ON m.`id` = d.`campaign` AND m.`tenant` = 7
WHERE d.`postmark_id` IN (SELECT value FROM JSON_TABLE(%s, '$[*]' COLUMNS (value varchar(37) CHARACTER SET ascii COLLATE ascii_bin PATH '$')) AS given) AND d.`state` IS NULL;

-- find pairs of subscriptions
SELECT b.`list_id`, CAST(b.`subscriber_id` AS CHAR), given.key_0, CAST(given.key_1 AS CHAR)
FROM JSON_TABLE(%s, '$[*]' COLUMNS (key_0 bigint PATH '$[0]', key_1 varchar(37) CHARACTER SET latin1 COLLATE latin1_swedish_ci PATH '$[1]')) AS given STRAIGHT_JOIN `members` AS b
WHERE b.`list_id` = given.key_0 AND b.`subscriber_id` = given.key_1;

-- read subscribers
SELECT CAST(s.`id` AS CHAR), s.`left_at`, s.`why`, s.`100%%`
FROM JSON_TABLE(%s, '$[*]' COLUMNS (key_0 varchar(37) CHARACTER SET latin1 COLLATE latin1_swedish_ci PATH '$[0]')) AS given STRAIGHT_JOIN `peo"ple` AS s
WHERE s.`id` = given.key_0 AND s.`tenant` = 7 AND s.`active` = true AND s.`deleted_at` IS NULL;

-- lock subscribers
SELECT CAST(s.`id` AS CHAR)
FROM (SELECT * FROM JSON_TABLE(%s, '$[*]' COLUMNS (key_0 varchar(37) CHARACTER SET latin1 COLLATE latin1_swedish_ci PATH '$[0]')) AS given) AS given STRAIGHT_JOIN `peo"ple` AS s
WHERE s.`id` = given.key_0 AND s.`tenant` = 7 AND s.`active` = true AND s.`deleted_at` IS NULL
FOR UPDATE;

-- lock subscribers, skipping locked rows
SELECT CAST(s.`id` AS CHAR)
FROM (SELECT * FROM JSON_TABLE(%s, '$[*]' COLUMNS (key_0 varchar(37) CHARACTER SET latin1 COLLATE latin1_swedish_ci PATH '$[0]')) AS given) AS given STRAIGHT_JOIN `peo"ple` AS s
WHERE s.`id` = given.key_0 AND s.`tenant` = 7 AND s.`active` = true AND s.`deleted_at` IS NULL
FOR UPDATE SKIP LOCKED;

-- read dispatches
SELECT CAST(d.`key` AS CHAR), d.`got`, d.`saw`
FROM JSON_TABLE(%s, '$[*]' COLUMNS (key_0 varchar(37) CHARACTER SET ascii COLLATE ascii_bin PATH '$[0]')) AS given STRAIGHT_JOIN `mail`.`sends` AS d
WHERE d.`key` = given.key_0 AND d.`state` IS NULL;

-- lock dispatches
SELECT CAST(d.`key` AS CHAR)
FROM (SELECT * FROM JSON_TABLE(%s, '$[*]' COLUMNS (key_0 varchar(37) CHARACTER SET ascii COLLATE ascii_bin PATH '$[0]')) AS given) AS given STRAIGHT_JOIN `mail`.`sends` AS d
WHERE d.`key` = given.key_0 AND d.`state` IS NULL
FOR UPDATE;

-- lock dispatches, skipping locked rows
SELECT CAST(d.`key` AS CHAR)
FROM (SELECT * FROM JSON_TABLE(%s, '$[*]' COLUMNS (key_0 varchar(37) CHARACTER SET ascii COLLATE ascii_bin PATH '$[0]')) AS given) AS given STRAIGHT_JOIN `mail`.`sends` AS d
WHERE d.`key` = given.key_0 AND d.`state` IS NULL
FOR UPDATE SKIP LOCKED;

-- read subscriptions
SELECT b.`list_id`, CAST(b.`subscriber_id` AS CHAR), b.`left_at`
FROM JSON_TABLE(%s, '$[*]' COLUMNS (key_0 bigint PATH '$[0]', key_1 varchar(37) CHARACTER SET latin1 COLLATE latin1_swedish_ci PATH '$[1]')) AS given STRAIGHT_JOIN `members` AS b
WHERE b.`list_id` = given.key_0 AND b.`subscriber_id` = given.key_1;

-- lock subscriptions
SELECT b.`list_id`, CAST(b.`subscriber_id` AS CHAR)
FROM (SELECT * FROM JSON_TABLE(%s, '$[*]' COLUMNS (key_0 bigint PATH '$[0]', key_1 varchar(37) CHARACTER SET latin1 COLLATE latin1_swedish_ci PATH '$[1]')) AS given) AS given STRAIGHT_JOIN `members` AS b
WHERE b.`list_id` = given.key_0 AND b.`subscriber_id` = given.key_1
FOR UPDATE;

-- lock subscriptions, skipping locked rows
SELECT b.`list_id`, CAST(b.`subscriber_id` AS CHAR)
FROM (SELECT * FROM JSON_TABLE(%s, '$[*]' COLUMNS (key_0 bigint PATH '$[0]', key_1 varchar(37) CHARACTER SET latin1 COLLATE latin1_swedish_ci PATH '$[1]')) AS given) AS given STRAIGHT_JOIN `members` AS b
WHERE b.`list_id` = given.key_0 AND b.`subscriber_id` = given.key_1
FOR UPDATE SKIP LOCKED;

-- set delivered_at
UPDATE JSON_TABLE(%s, '$[*]' COLUMNS (key_0 varchar(37) CHARACTER SET ascii COLLATE ascii_bin PATH '$[0]', delivered_at datetime(6) PATH '$[1]' ERROR ON ERROR)) AS given STRAIGHT_JOIN `mail`.`sends` AS d SET d.`got` = given.delivered_at
WHERE d.`key` = given.key_0 AND d.`state` IS NULL;

-- set delivered_at late
UPDATE JSON_TABLE(%s, '$[*]' COLUMNS (key_0 varchar(37) CHARACTER SET ascii COLLATE ascii_bin PATH '$[0]', delivered_at datetime(6) PATH '$[1]' ERROR ON ERROR)) AS given STRAIGHT_JOIN `mail`.`sends` AS d SET d.`got` = given.delivered_at
WHERE d.`key` = given.key_0 AND (d.`got` IS NULL OR d.`got` < given.delivered_at) AND d.`state` IS NULL;

-- set opened_at
UPDATE JSON_TABLE(%s, '$[*]' COLUMNS (key_0 varchar(37) CHARACTER SET ascii COLLATE ascii_bin PATH '$[0]', opened_at datetime(6) PATH '$[1]' ERROR ON ERROR)) AS given STRAIGHT_JOIN `mail`.`sends` AS d SET d.`saw` = given.opened_at
WHERE d.`key` = given.key_0 AND d.`state` IS NULL;

-- set opened_at late
UPDATE JSON_TABLE(%s, '$[*]' COLUMNS (key_0 varchar(37) CHARACTER SET ascii COLLATE ascii_bin PATH '$[0]', opened_at datetime(6) PATH '$[1]' ERROR ON ERROR)) AS given STRAIGHT_JOIN `mail`.`sends` AS d SET d.`saw` = given.opened_at
WHERE d.`key` = given.key_0 AND (d.`saw` IS NULL OR d.`saw` < given.opened_at) AND d.`state` IS NULL;

-- set the suppression of subscribers
UPDATE JSON_TABLE(%s, '$[*]' COLUMNS (key_0 varchar(37) CHARACTER SET latin1 COLLATE latin1_swedish_ci PATH '$[0]', suppressed_at datetime(6) PATH '$[1]' ERROR ON ERROR, suppression_reason varchar(256) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PATH '$[2]' ERROR ON ERROR, suppression_changed_at datetime(6) PATH '$[3]' ERROR ON ERROR)) AS given STRAIGHT_JOIN `peo"ple` AS s SET s.`left_at` = given.suppressed_at, s.`why` = given.suppression_reason, s.`100%%` = given.suppression_changed_at
WHERE s.`id` = given.key_0 AND s.`tenant` = 7 AND s.`active` = true AND s.`deleted_at` IS NULL;

-- set the suppression of subscribers late
UPDATE JSON_TABLE(%s, '$[*]' COLUMNS (key_0 varchar(37) CHARACTER SET latin1 COLLATE latin1_swedish_ci PATH '$[0]', suppressed_at datetime(6) PATH '$[1]' ERROR ON ERROR, suppression_reason varchar(256) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PATH '$[2]' ERROR ON ERROR, suppression_changed_at datetime(6) PATH '$[3]' ERROR ON ERROR)) AS given STRAIGHT_JOIN `peo"ple` AS s SET s.`left_at` = given.suppressed_at, s.`why` = given.suppression_reason, s.`100%%` = given.suppression_changed_at
WHERE s.`id` = given.key_0 AND (s.`100%%` IS NULL OR s.`100%%` <= given.suppression_changed_at) AND s.`tenant` = 7 AND s.`active` = true AND s.`deleted_at` IS NULL;

-- date the suppression of subscriptions
INSERT INTO `mail`.`hookrow_suppression_changes` (role, row_key, changed_at)
SELECT 'subscriptions' AS role, given.row_key, given.suppression_changed_at
FROM JSON_TABLE(%s, '$[*]' COLUMNS (key_0 bigint PATH '$[0]', key_1 varchar(37) CHARACTER SET latin1 COLLATE latin1_swedish_ci PATH '$[1]', row_key varchar(1024) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PATH '$[2]', suppression_changed_at datetime(6) PATH '$[3]')) AS given
WHERE EXISTS (SELECT 1 FROM `members` AS b WHERE b.`list_id` = given.key_0 AND b.`subscriber_id` = given.key_1)
ON DUPLICATE KEY UPDATE
changed_at = greatest(`mail`.`hookrow_suppression_changes`.changed_at, VALUES(changed_at));

-- set the suppression of subscriptions
UPDATE JSON_TABLE(%s, '$[*]' COLUMNS (key_0 bigint PATH '$[0]', key_1 varchar(37) CHARACTER SET latin1 COLLATE latin1_swedish_ci PATH '$[1]', suppressed_at datetime(6) PATH '$[2]' ERROR ON ERROR, row_key varchar(1024) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PATH '$[3]' ERROR ON ERROR, suppression_changed_at datetime(6) PATH '$[4]' ERROR ON ERROR)) AS given STRAIGHT_JOIN `members` AS b SET b.`left_at` = given.suppressed_at
WHERE b.`list_id` = given.key_0 AND b.`subscriber_id` = given.key_1
AND EXISTS (SELECT 1 FROM `mail`.`hookrow_suppression_changes` AS dated WHERE dated.role = 'subscriptions'
    AND dated.row_key = given.row_key AND dated.changed_at <= given.suppression_changed_at);

-- read the dates of subscriptions
SELECT row_key, changed_at FROM `mail`.`hookrow_suppression_changes` WHERE role = 'subscriptions' AND row_key IN (SELECT value FROM JSON_TABLE(%s, '$[*]' COLUMNS (value varchar(1024) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PATH '$')) AS given);

-- add entries to the log
INSERT INTO `mail`.`notifications` (fingerprint, record_type, message_id, recipient, occurred_at, outcome, status, attempts, received_at, last_received_at, ended_at, retry_at, body, reason, provider, source, trace_id, entry, change_number, first_outcome)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
ON DUPLICATE KEY UPDATE
ended_at = CASE WHEN `mail`.`notifications`.outcome = 'recorded' AND VALUES(outcome) = `mail`.`notifications`.outcome THEN `mail`.`notifications`.ended_at ELSE VALUES(ended_at) END,
source = CASE WHEN `mail`.`notifications`.outcome = 'recorded' AND VALUES(outcome) = `mail`.`notifications`.outcome THEN `mail`.`notifications`.source ELSE VALUES(source) END,
outcome = VALUES(outcome),
status = VALUES(status),
retry_at = VALUES(retry_at),
recipient = CASE WHEN VALUES(attempts) > 0 THEN coalesce(`mail`.`notifications`.recipient, VALUES(recipient)) ELSE `mail`.`notifications`.recipient END,
body = CASE WHEN VALUES(attempts) > 0 THEN coalesce(`mail`.`notifications`.body, VALUES(body)) ELSE `mail`.`notifications`.body END,
reason = CASE WHEN VALUES(attempts) > 0 THEN coalesce(`mail`.`notifications`.reason, VALUES(reason)) ELSE `mail`.`notifications`.reason END,
provider = CASE WHEN VALUES(attempts) > 0 THEN coalesce(`mail`.`notifications`.provider, VALUES(provider)) ELSE `mail`.`notifications`.provider END,
trace_id = CASE WHEN VALUES(attempts) > 0 THEN coalesce(`mail`.`notifications`.trace_id, VALUES(trace_id)) ELSE `mail`.`notifications`.trace_id END,
attempts = `mail`.`notifications`.attempts + VALUES(attempts),
change_number = coalesce(VALUES(change_number), `mail`.`notifications`.change_number),
received_at = CASE WHEN `mail`.`notifications`.received_at < VALUES(received_at) THEN `mail`.`notifications`.received_at ELSE VALUES(received_at) END,
last_received_at = CASE WHEN `mail`.`notifications`.last_received_at > VALUES(last_received_at) THEN `mail`.`notifications`.last_received_at ELSE VALUES(last_received_at) END;

-- rehearse entries of the log
INSERT INTO `mail`.`notifications` (id, fingerprint, record_type, message_id, recipient, occurred_at, outcome, status, attempts, received_at, last_received_at, ended_at, retry_at, body, reason, provider, source, trace_id, entry, change_number, first_outcome)
VALUES (-1 - floor(rand() * 2147483648), %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
ON DUPLICATE KEY UPDATE
ended_at = CASE WHEN `mail`.`notifications`.outcome = 'recorded' AND VALUES(outcome) = `mail`.`notifications`.outcome THEN `mail`.`notifications`.ended_at ELSE VALUES(ended_at) END,
source = CASE WHEN `mail`.`notifications`.outcome = 'recorded' AND VALUES(outcome) = `mail`.`notifications`.outcome THEN `mail`.`notifications`.source ELSE VALUES(source) END,
outcome = VALUES(outcome),
status = VALUES(status),
retry_at = VALUES(retry_at),
recipient = CASE WHEN VALUES(attempts) > 0 THEN coalesce(`mail`.`notifications`.recipient, VALUES(recipient)) ELSE `mail`.`notifications`.recipient END,
body = CASE WHEN VALUES(attempts) > 0 THEN coalesce(`mail`.`notifications`.body, VALUES(body)) ELSE `mail`.`notifications`.body END,
reason = CASE WHEN VALUES(attempts) > 0 THEN coalesce(`mail`.`notifications`.reason, VALUES(reason)) ELSE `mail`.`notifications`.reason END,
provider = CASE WHEN VALUES(attempts) > 0 THEN coalesce(`mail`.`notifications`.provider, VALUES(provider)) ELSE `mail`.`notifications`.provider END,
trace_id = CASE WHEN VALUES(attempts) > 0 THEN coalesce(`mail`.`notifications`.trace_id, VALUES(trace_id)) ELSE `mail`.`notifications`.trace_id END,
attempts = `mail`.`notifications`.attempts + VALUES(attempts),
change_number = coalesce(VALUES(change_number), `mail`.`notifications`.change_number),
received_at = CASE WHEN `mail`.`notifications`.received_at < VALUES(received_at) THEN `mail`.`notifications`.received_at ELSE VALUES(received_at) END,
last_received_at = CASE WHEN `mail`.`notifications`.last_received_at > VALUES(last_received_at) THEN `mail`.`notifications`.last_received_at ELSE VALUES(last_received_at) END;

-- the condition of entries `n` that can be recorded
n.outcome IN ('dispatch_not_found', 'recipient_mismatch', 'subscriber_not_found') AND (
    EXISTS (SELECT 1 FROM `mail`.`sends` AS d STRAIGHT_JOIN `peo"ple` AS s
        WHERE d.`postmark_id` IN (n.message_id, replace(lower(n.message_id), '-', '')) AND s.`id` = CONVERT(d.`person` USING latin1) COLLATE latin1_swedish_ci AND lower(s.`address`) = lower(CONVERT(n.recipient USING utf8mb4) COLLATE utf8mb4_bin) AND d.`state` IS NULL AND s.`tenant` = 7 AND s.`active` = true AND s.`deleted_at` IS NULL)
    OR ((n.reason IS NOT NULL OR n.record_type = 'SubscriptionChange')
        AND n.outcome = 'subscriber_not_found'
        AND EXISTS (SELECT 1 FROM `peo"ple` AS s WHERE lower(s.`address`) = lower(CONVERT(n.recipient USING utf8mb4) COLLATE utf8mb4_bin) AND s.`tenant` = 7 AND s.`active` = true AND s.`deleted_at` IS NULL))
);

-- probe 1
UPDATE `peo"ple` SET `left_at` = `left_at` WHERE 1 = 0;

-- probe 2
UPDATE `mail`.`sends` SET `got` = `got` WHERE 1 = 0;

-- probe 3
UPDATE `members` SET `left_at` = `left_at` WHERE 1 = 0;

-- probe 4
UPDATE `mail`.`notifications` SET `attempts` = `attempts` WHERE 1 = 0;

-- a group of deliveries
BEGIN;
SET @hookrow_check = IF((SELECT count(*)
FROM (SELECT * FROM JSON_TABLE(%s, '$[*]' COLUMNS (key_0 varchar(37) CHARACTER SET ascii COLLATE ascii_bin PATH '$[0]')) AS given) AS given STRAIGHT_JOIN `mail`.`sends` AS d
WHERE d.`key` = given.key_0 AND d.`state` IS NULL
FOR UPDATE) = %s, 1, (SELECT 1 UNION ALL SELECT 2));
UPDATE `mail`.`sends` AS d SET d.`got` = CASE d.`key` %s END
WHERE d.`key` IN (%s) AND d.`state` IS NULL;
SET @hookrow_check = IF(ROW_COUNT() = %s, 1, (SELECT 1 UNION ALL SELECT 2));
SELECT name INTO @hookrow_writer FROM `mail`.`hookrow_meta`
WHERE name = CASE (unix_timestamp() DIV 40) %% 2 WHEN 0 THEN 'lock_writers_0' ELSE 'lock_writers_1' END
LOCK IN SHARE MODE;
INSERT INTO `mail`.`notifications` (fingerprint, record_type, message_id, recipient, occurred_at, outcome, status, attempts, received_at, last_received_at, ended_at, retry_at, body, reason, provider, source, trace_id, entry, change_number, first_outcome)
VALUES %s
ON DUPLICATE KEY UPDATE
ended_at = CASE WHEN `mail`.`notifications`.outcome = 'recorded' AND VALUES(outcome) = `mail`.`notifications`.outcome THEN `mail`.`notifications`.ended_at ELSE VALUES(ended_at) END,
source = CASE WHEN `mail`.`notifications`.outcome = 'recorded' AND VALUES(outcome) = `mail`.`notifications`.outcome THEN `mail`.`notifications`.source ELSE VALUES(source) END,
outcome = VALUES(outcome),
status = VALUES(status),
retry_at = VALUES(retry_at),
recipient = CASE WHEN VALUES(attempts) > 0 THEN coalesce(`mail`.`notifications`.recipient, VALUES(recipient)) ELSE `mail`.`notifications`.recipient END,
body = CASE WHEN VALUES(attempts) > 0 THEN coalesce(`mail`.`notifications`.body, VALUES(body)) ELSE `mail`.`notifications`.body END,
reason = CASE WHEN VALUES(attempts) > 0 THEN coalesce(`mail`.`notifications`.reason, VALUES(reason)) ELSE `mail`.`notifications`.reason END,
provider = CASE WHEN VALUES(attempts) > 0 THEN coalesce(`mail`.`notifications`.provider, VALUES(provider)) ELSE `mail`.`notifications`.provider END,
trace_id = CASE WHEN VALUES(attempts) > 0 THEN coalesce(`mail`.`notifications`.trace_id, VALUES(trace_id)) ELSE `mail`.`notifications`.trace_id END,
attempts = `mail`.`notifications`.attempts + VALUES(attempts),
change_number = coalesce(VALUES(change_number), `mail`.`notifications`.change_number),
received_at = CASE WHEN `mail`.`notifications`.received_at < VALUES(received_at) THEN `mail`.`notifications`.received_at ELSE VALUES(received_at) END,
last_received_at = CASE WHEN `mail`.`notifications`.last_received_at > VALUES(last_received_at) THEN `mail`.`notifications`.last_received_at ELSE VALUES(last_received_at) END;
COMMIT;

-- a group of late deliveries
BEGIN;
SET @hookrow_check = IF((SELECT count(*)
FROM (SELECT * FROM JSON_TABLE(%s, '$[*]' COLUMNS (key_0 varchar(37) CHARACTER SET ascii COLLATE ascii_bin PATH '$[0]')) AS given) AS given STRAIGHT_JOIN `mail`.`sends` AS d
WHERE d.`key` = given.key_0 AND d.`state` IS NULL
FOR UPDATE) = %s, 1, (SELECT 1 UNION ALL SELECT 2));
UPDATE `mail`.`sends` AS d SET d.`got` = CASE d.`key` %s END
WHERE d.`key` IN (%s) AND (d.`got` IS NULL OR d.`got` < CAST(CASE d.`key` %s END AS datetime(6))) AND d.`state` IS NULL;
SELECT name INTO @hookrow_writer FROM `mail`.`hookrow_meta`
WHERE name = CASE (unix_timestamp() DIV 40) %% 2 WHEN 0 THEN 'lock_writers_0' ELSE 'lock_writers_1' END
LOCK IN SHARE MODE;
INSERT INTO `mail`.`notifications` (fingerprint, record_type, message_id, recipient, occurred_at, outcome, status, attempts, received_at, last_received_at, ended_at, retry_at, body, reason, provider, source, trace_id, entry, change_number, first_outcome)
VALUES %s
ON DUPLICATE KEY UPDATE
ended_at = CASE WHEN `mail`.`notifications`.outcome = 'recorded' AND VALUES(outcome) = `mail`.`notifications`.outcome THEN `mail`.`notifications`.ended_at ELSE VALUES(ended_at) END,
source = CASE WHEN `mail`.`notifications`.outcome = 'recorded' AND VALUES(outcome) = `mail`.`notifications`.outcome THEN `mail`.`notifications`.source ELSE VALUES(source) END,
outcome = VALUES(outcome),
status = VALUES(status),
retry_at = VALUES(retry_at),
recipient = CASE WHEN VALUES(attempts) > 0 THEN coalesce(`mail`.`notifications`.recipient, VALUES(recipient)) ELSE `mail`.`notifications`.recipient END,
body = CASE WHEN VALUES(attempts) > 0 THEN coalesce(`mail`.`notifications`.body, VALUES(body)) ELSE `mail`.`notifications`.body END,
reason = CASE WHEN VALUES(attempts) > 0 THEN coalesce(`mail`.`notifications`.reason, VALUES(reason)) ELSE `mail`.`notifications`.reason END,
provider = CASE WHEN VALUES(attempts) > 0 THEN coalesce(`mail`.`notifications`.provider, VALUES(provider)) ELSE `mail`.`notifications`.provider END,
trace_id = CASE WHEN VALUES(attempts) > 0 THEN coalesce(`mail`.`notifications`.trace_id, VALUES(trace_id)) ELSE `mail`.`notifications`.trace_id END,
attempts = `mail`.`notifications`.attempts + VALUES(attempts),
change_number = coalesce(VALUES(change_number), `mail`.`notifications`.change_number),
received_at = CASE WHEN `mail`.`notifications`.received_at < VALUES(received_at) THEN `mail`.`notifications`.received_at ELSE VALUES(received_at) END,
last_received_at = CASE WHEN `mail`.`notifications`.last_received_at > VALUES(last_received_at) THEN `mail`.`notifications`.last_received_at ELSE VALUES(last_received_at) END;
COMMIT;

-- a group of suppressions
BEGIN;
SET @hookrow_check = IF((SELECT count(*)
FROM (SELECT * FROM JSON_TABLE(%s, '$[*]' COLUMNS (key_0 varchar(37) CHARACTER SET latin1 COLLATE latin1_swedish_ci PATH '$[0]')) AS given) AS given STRAIGHT_JOIN `peo"ple` AS s
WHERE s.`id` = given.key_0 AND s.`tenant` = 7 AND s.`active` = true AND s.`deleted_at` IS NULL
FOR UPDATE) = %s
AND (SELECT count(*)
FROM (SELECT * FROM JSON_TABLE(%s, '$[*]' COLUMNS (key_0 bigint PATH '$[0]', key_1 varchar(37) CHARACTER SET latin1 COLLATE latin1_swedish_ci PATH '$[1]')) AS given) AS given STRAIGHT_JOIN `members` AS b
WHERE b.`list_id` = given.key_0 AND b.`subscriber_id` = given.key_1
FOR UPDATE) = %s, 1, (SELECT 1 UNION ALL SELECT 2));
INSERT INTO `mail`.`hookrow_suppression_changes` (role, row_key, changed_at)
SELECT 'subscriptions' AS role, given.row_key, given.suppression_changed_at
FROM JSON_TABLE(%s, '$[*]' COLUMNS (key_0 bigint PATH '$[0]', key_1 varchar(37) CHARACTER SET latin1 COLLATE latin1_swedish_ci PATH '$[1]', row_key varchar(1024) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PATH '$[2]', suppression_changed_at datetime(6) PATH '$[3]')) AS given
WHERE EXISTS (SELECT 1 FROM `members` AS b WHERE b.`list_id` = given.key_0 AND b.`subscriber_id` = given.key_1)
ON DUPLICATE KEY UPDATE
changed_at = greatest(`mail`.`hookrow_suppression_changes`.changed_at, VALUES(changed_at));
UPDATE `members` AS b SET b.`left_at` = CASE %s END
WHERE (%s)
AND EXISTS (SELECT 1 FROM `mail`.`hookrow_suppression_changes` AS dated WHERE dated.role = 'subscriptions'
    AND dated.row_key = CASE %s END AND dated.changed_at <= CAST(CASE %s END AS datetime(6)));
SET @hookrow_check = IF((SELECT count(*) FROM `peo"ple` AS s WHERE s.`id` IN (%s) AND s.`tenant` = 7 AND s.`active` = true AND s.`deleted_at` IS NULL) = %s, 1, (SELECT 1 UNION ALL SELECT 2));
UPDATE `peo"ple` AS s SET s.`left_at` = CASE s.`id` %s END, s.`why` = CASE s.`id` %s END, s.`100%%` = CASE s.`id` %s END
WHERE s.`id` IN (%s) AND (s.`100%%` IS NULL OR s.`100%%` <= CAST(CASE s.`id` %s END AS datetime(6))) AND s.`tenant` = 7 AND s.`active` = true AND s.`deleted_at` IS NULL;
SELECT name INTO @hookrow_writer FROM `mail`.`hookrow_meta`
WHERE name = CASE (unix_timestamp() DIV 40) %% 2 WHEN 0 THEN 'lock_writers_0' ELSE 'lock_writers_1' END
LOCK IN SHARE MODE;
INSERT INTO `mail`.`notifications` (fingerprint, record_type, message_id, recipient, occurred_at, outcome, status, attempts, received_at, last_received_at, ended_at, retry_at, body, reason, provider, source, trace_id, entry, change_number, first_outcome)
VALUES %s
ON DUPLICATE KEY UPDATE
ended_at = CASE WHEN `mail`.`notifications`.outcome = 'recorded' AND VALUES(outcome) = `mail`.`notifications`.outcome THEN `mail`.`notifications`.ended_at ELSE VALUES(ended_at) END,
source = CASE WHEN `mail`.`notifications`.outcome = 'recorded' AND VALUES(outcome) = `mail`.`notifications`.outcome THEN `mail`.`notifications`.source ELSE VALUES(source) END,
outcome = VALUES(outcome),
status = VALUES(status),
retry_at = VALUES(retry_at),
recipient = CASE WHEN VALUES(attempts) > 0 THEN coalesce(`mail`.`notifications`.recipient, VALUES(recipient)) ELSE `mail`.`notifications`.recipient END,
body = CASE WHEN VALUES(attempts) > 0 THEN coalesce(`mail`.`notifications`.body, VALUES(body)) ELSE `mail`.`notifications`.body END,
reason = CASE WHEN VALUES(attempts) > 0 THEN coalesce(`mail`.`notifications`.reason, VALUES(reason)) ELSE `mail`.`notifications`.reason END,
provider = CASE WHEN VALUES(attempts) > 0 THEN coalesce(`mail`.`notifications`.provider, VALUES(provider)) ELSE `mail`.`notifications`.provider END,
trace_id = CASE WHEN VALUES(attempts) > 0 THEN coalesce(`mail`.`notifications`.trace_id, VALUES(trace_id)) ELSE `mail`.`notifications`.trace_id END,
attempts = `mail`.`notifications`.attempts + VALUES(attempts),
change_number = coalesce(VALUES(change_number), `mail`.`notifications`.change_number),
received_at = CASE WHEN `mail`.`notifications`.received_at < VALUES(received_at) THEN `mail`.`notifications`.received_at ELSE VALUES(received_at) END,
last_received_at = CASE WHEN `mail`.`notifications`.last_received_at > VALUES(last_received_at) THEN `mail`.`notifications`.last_received_at ELSE VALUES(last_received_at) END;
COMMIT;

-- a group of opens and suppressions
BEGIN;
SET @hookrow_check = IF((SELECT count(*)
FROM (SELECT * FROM JSON_TABLE(%s, '$[*]' COLUMNS (key_0 varchar(37) CHARACTER SET latin1 COLLATE latin1_swedish_ci PATH '$[0]')) AS given) AS given STRAIGHT_JOIN `peo"ple` AS s
WHERE s.`id` = given.key_0 AND s.`tenant` = 7 AND s.`active` = true AND s.`deleted_at` IS NULL
FOR UPDATE) = %s
AND (SELECT count(*)
FROM (SELECT * FROM JSON_TABLE(%s, '$[*]' COLUMNS (key_0 varchar(37) CHARACTER SET ascii COLLATE ascii_bin PATH '$[0]')) AS given) AS given STRAIGHT_JOIN `mail`.`sends` AS d
WHERE d.`key` = given.key_0 AND d.`state` IS NULL
FOR UPDATE) = %s
AND (SELECT count(*)
FROM (SELECT * FROM JSON_TABLE(%s, '$[*]' COLUMNS (key_0 bigint PATH '$[0]', key_1 varchar(37) CHARACTER SET latin1 COLLATE latin1_swedish_ci PATH '$[1]')) AS given) AS given STRAIGHT_JOIN `members` AS b
WHERE b.`list_id` = given.key_0 AND b.`subscriber_id` = given.key_1
FOR UPDATE) = %s, 1, (SELECT 1 UNION ALL SELECT 2));
INSERT INTO `mail`.`hookrow_suppression_changes` (role, row_key, changed_at)
SELECT 'subscriptions' AS role, given.row_key, given.suppression_changed_at
FROM JSON_TABLE(%s, '$[*]' COLUMNS (key_0 bigint PATH '$[0]', key_1 varchar(37) CHARACTER SET latin1 COLLATE latin1_swedish_ci PATH '$[1]', row_key varchar(1024) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PATH '$[2]', suppression_changed_at datetime(6) PATH '$[3]')) AS given
WHERE EXISTS (SELECT 1 FROM `members` AS b WHERE b.`list_id` = given.key_0 AND b.`subscriber_id` = given.key_1)
ON DUPLICATE KEY UPDATE
changed_at = greatest(`mail`.`hookrow_suppression_changes`.changed_at, VALUES(changed_at));
UPDATE `members` AS b SET b.`left_at` = CASE %s END
WHERE (%s)
AND EXISTS (SELECT 1 FROM `mail`.`hookrow_suppression_changes` AS dated WHERE dated.role = 'subscriptions'
    AND dated.row_key = CASE %s END AND dated.changed_at <= CAST(CASE %s END AS datetime(6)));
UPDATE `mail`.`sends` AS d SET d.`saw` = CASE d.`key` %s END
WHERE d.`key` IN (%s) AND d.`state` IS NULL;
SET @hookrow_check = IF(ROW_COUNT() = %s, 1, (SELECT 1 UNION ALL SELECT 2));
SET @hookrow_check = IF((SELECT count(*) FROM `peo"ple` AS s WHERE s.`id` IN (%s) AND s.`tenant` = 7 AND s.`active` = true AND s.`deleted_at` IS NULL) = %s, 1, (SELECT 1 UNION ALL SELECT 2));
UPDATE `peo"ple` AS s SET s.`left_at` = CASE s.`id` %s END, s.`why` = CASE s.`id` %s END, s.`100%%` = CASE s.`id` %s END
WHERE s.`id` IN (%s) AND (s.`100%%` IS NULL OR s.`100%%` <= CAST(CASE s.`id` %s END AS datetime(6))) AND s.`tenant` = 7 AND s.`active` = true AND s.`deleted_at` IS NULL;
SELECT name INTO @hookrow_writer FROM `mail`.`hookrow_meta`
WHERE name = CASE (unix_timestamp() DIV 40) %% 2 WHEN 0 THEN 'lock_writers_0' ELSE 'lock_writers_1' END
LOCK IN SHARE MODE;
INSERT INTO `mail`.`notifications` (fingerprint, record_type, message_id, recipient, occurred_at, outcome, status, attempts, received_at, last_received_at, ended_at, retry_at, body, reason, provider, source, trace_id, entry, change_number, first_outcome)
VALUES %s
ON DUPLICATE KEY UPDATE
ended_at = CASE WHEN `mail`.`notifications`.outcome = 'recorded' AND VALUES(outcome) = `mail`.`notifications`.outcome THEN `mail`.`notifications`.ended_at ELSE VALUES(ended_at) END,
source = CASE WHEN `mail`.`notifications`.outcome = 'recorded' AND VALUES(outcome) = `mail`.`notifications`.outcome THEN `mail`.`notifications`.source ELSE VALUES(source) END,
outcome = VALUES(outcome),
status = VALUES(status),
retry_at = VALUES(retry_at),
recipient = CASE WHEN VALUES(attempts) > 0 THEN coalesce(`mail`.`notifications`.recipient, VALUES(recipient)) ELSE `mail`.`notifications`.recipient END,
body = CASE WHEN VALUES(attempts) > 0 THEN coalesce(`mail`.`notifications`.body, VALUES(body)) ELSE `mail`.`notifications`.body END,
reason = CASE WHEN VALUES(attempts) > 0 THEN coalesce(`mail`.`notifications`.reason, VALUES(reason)) ELSE `mail`.`notifications`.reason END,
provider = CASE WHEN VALUES(attempts) > 0 THEN coalesce(`mail`.`notifications`.provider, VALUES(provider)) ELSE `mail`.`notifications`.provider END,
trace_id = CASE WHEN VALUES(attempts) > 0 THEN coalesce(`mail`.`notifications`.trace_id, VALUES(trace_id)) ELSE `mail`.`notifications`.trace_id END,
attempts = `mail`.`notifications`.attempts + VALUES(attempts),
change_number = coalesce(VALUES(change_number), `mail`.`notifications`.change_number),
received_at = CASE WHEN `mail`.`notifications`.received_at < VALUES(received_at) THEN `mail`.`notifications`.received_at ELSE VALUES(received_at) END,
last_received_at = CASE WHEN `mail`.`notifications`.last_received_at > VALUES(last_received_at) THEN `mail`.`notifications`.last_received_at ELSE VALUES(last_received_at) END;
COMMIT;

-- count rows by list
SELECT coalesce(m.`list_id`), count(d.`postmark_id`), count(d.`got`), count(d.`saw`) FROM `mail`.`sends` AS d LEFT JOIN `campaigns` AS m ON m.`id` = d.`campaign` AND m.`tenant` = 7 WHERE true AND d.`state` IS NULL GROUP BY 1;

-- count rows by list
SELECT coalesce(b.`list_id`), count(*), count(b.`left_at`) FROM `members` AS b WHERE true GROUP BY 1;

-- count the suppressed by reason
SELECT left(NULLIF(coalesce(CAST(s.`why` AS CHAR), ''), ''), 512), count(*) FROM `peo"ple` AS s WHERE s.`left_at` IS NOT NULL AND s.`tenant` = 7 AND s.`active` = true AND s.`deleted_at` IS NULL GROUP BY 1;

-- count undelivered dispatches
SELECT count(*) FROM `mail`.`sends` AS d WHERE coalesce(d.`postmark_id`) IS NOT NULL AND d.`got` IS NULL AND d.`state` IS NULL;

-- list undelivered dispatches
SELECT CAST(d.`postmark_id` AS CHAR), NULL, NULL, CAST(d.`key` AS CHAR) FROM `mail`.`sends` AS d WHERE coalesce(d.`postmark_id`) IS NOT NULL AND d.`got` IS NULL AND d.`state` IS NULL ORDER BY d.`key` LIMIT 10;

-- list more of them
SELECT CAST(d.`postmark_id` AS CHAR), NULL, NULL, CAST(d.`key` AS CHAR) FROM `mail`.`sends` AS d WHERE coalesce(d.`postmark_id`) IS NOT NULL AND d.`got` IS NULL AND d.`state` IS NULL AND d.`key` > %s ORDER BY d.`key` LIMIT 10;

-- step through suppressions
SELECT CAST(s.`left_at` AS CHAR), CAST(s.`id` AS CHAR) FROM (SELECT s.`left_at`, s.`id` FROM `peo"ple` AS s WHERE s.`left_at` IS NOT NULL AND (s.`left_at` > %s OR s.`left_at` = %s AND s.`id` > %s) AND (s.`left_at` < %s OR s.`left_at` = %s AND s.`id` <= %s) AND s.`left_at` >= %s ORDER BY s.`left_at` ASC, s.`id` ASC LIMIT 1 OFFSET 99) AS s;

-- read suppressions
SELECT s.`left_at`, CAST(s.`address` AS CHAR), substr(coalesce(CAST(s.`why` AS CHAR), ''), 1, 1000), CAST(s.`left_at` AS CHAR), CAST(s.`id` AS CHAR) FROM `peo"ple` AS s WHERE s.`left_at` IS NOT NULL AND s.`tenant` = 7 AND s.`active` = true AND s.`deleted_at` IS NULL ORDER BY s.`left_at` DESC, s.`id` DESC LIMIT 10;

-- read suppressions of a reason
SELECT s.`left_at`, CAST(s.`address` AS CHAR), substr(coalesce(CAST(s.`why` AS CHAR), ''), 1, 1000), CAST(s.`left_at` AS CHAR), CAST(s.`id` AS CHAR) FROM `peo"ple` AS s WHERE s.`left_at` IS NOT NULL AND (s.`left_at` > %s OR s.`left_at` = %s AND s.`id` > %s) AND (s.`left_at` < %s OR s.`left_at` = %s AND s.`id` <= %s) AND s.`left_at` >= %s AND coalesce(CAST(s.`why` AS CHAR), '') = %s AND s.`tenant` = 7 AND s.`active` = true AND s.`deleted_at` IS NULL ORDER BY s.`left_at` ASC, s.`id` ASC LIMIT 10;

-- read suppressions of an entry
SELECT s.`left_at`, CAST(s.`address` AS CHAR), substr(coalesce(CAST(s.`why` AS CHAR), ''), 1, 1000), CAST(s.`left_at` AS CHAR), CAST(s.`id` AS CHAR) FROM `peo"ple` AS s WHERE s.`left_at` IS NOT NULL AND (SELECT 1 FROM `mail`.`notifications` AS n WHERE n.reason IS NOT NULL AND n.changed_recipient = lower(CONVERT(CAST(s.`address` AS CHAR) USING utf8mb4) COLLATE utf8mb4_bin) AND n.entry = %s AND n.outcome IN ('dispatch_not_found', 'recipient_mismatch', 'recorded', 'unmapped') LIMIT 1) = 1 AND s.`tenant` = 7 AND s.`active` = true AND s.`deleted_at` IS NULL ORDER BY s.`left_at` DESC, s.`id` DESC LIMIT 10;

-- count suppressions
SELECT count(*) FROM (SELECT 1 FROM `peo"ple` AS s WHERE s.`left_at` IS NOT NULL AND s.`tenant` = 7 AND s.`active` = true AND s.`deleted_at` IS NULL ORDER BY s.`left_at` DESC, s.`id` DESC LIMIT 10) AS found;

-- changes in the log
SELECT id, message_id, recipient, reason, entry, occurred_at, received_at, last_received_at FROM `mail`.`notifications` WHERE (record_type = 'SubscriptionChange' OR reason IS NOT NULL) AND outcome IN ('dispatch_not_found', 'recipient_mismatch', 'recorded', 'unmapped') AND changed_recipient IN (%s) ORDER BY id + 0 DESC LIMIT 10;

-- lists
WITH RECURSIVE found (list_id) AS (SELECT (SELECT b.`list_id` FROM `members` AS b WHERE b.`list_id` IS NOT NULL ORDER BY b.`list_id` LIMIT 1) UNION ALL SELECT (SELECT b.`list_id` FROM `members` AS b WHERE b.`list_id` > found.list_id ORDER BY b.`list_id` LIMIT 1) FROM found WHERE list_id IS NOT NULL) SELECT list_id FROM found WHERE list_id IS NOT NULL LIMIT 10;

-- the size of a list
SELECT count(*) FROM (SELECT 1 FROM `members` AS b WHERE b.`list_id` = %s LIMIT 10000) AS found;

-- read suppressions of a list
SELECT s.`left_at`, CAST(s.`address` AS CHAR), substr(coalesce(CAST(s.`why` AS CHAR), ''), 1, 1000), CAST(s.`left_at` AS CHAR), CAST(s.`id` AS CHAR) FROM `peo"ple` AS s WHERE s.`left_at` IS NOT NULL AND (SELECT 1 FROM `members` AS b WHERE b.`list_id` = %s AND s.`id` = b.`subscriber_id` LIMIT 1) = 1 AND s.`tenant` = 7 AND s.`active` = true AND s.`deleted_at` IS NULL ORDER BY s.`left_at` DESC, s.`id` DESC LIMIT 10;

-- read those of a small list
SELECT s.`left_at`, CAST(s.`address` AS CHAR), substr(coalesce(CAST(s.`why` AS CHAR), ''), 1, 1000), CAST(s.`left_at` AS CHAR), CAST(s.`id` AS CHAR) FROM `peo"ple` AS s WHERE s.`left_at` IS NOT NULL AND s.`id` IN (SELECT * FROM (SELECT b.`subscriber_id` FROM `members` AS b WHERE b.`list_id` = %s) AS selected) AND s.`tenant` = 7 AND s.`active` = true AND s.`deleted_at` IS NULL ORDER BY s.`left_at` DESC, s.`id` DESC LIMIT 10;

-- emails that begin with a text
SELECT CAST(s.`address` AS CHAR) FROM (SELECT s.`id`, s.`address`, s.`left_at`, s.`why`, s.`100%%`, s.`tenant`, s.`active`, s.`deleted_at` FROM `peo"ple` AS s WHERE lower(s.`address`) >= lower(%s) ORDER BY lower(s.`address`) LIMIT 10) AS s WHERE s.`address` IS NOT NULL AND s.`tenant` = 7 AND s.`active` = true AND s.`deleted_at` IS NULL;

-- the messages of a subscriber
SELECT CAST(d.`key` AS CHAR), CAST(d.`postmark_id` AS CHAR), NULL, m.`list_id`, NULL FROM `peo"ple` AS s JOIN `mail`.`sends` AS d ON s.`id` = CONVERT(d.`person` USING latin1) COLLATE latin1_swedish_ci LEFT JOIN `campaigns` AS m ON m.`id` = d.`campaign` AND m.`tenant` = 7 WHERE s.`id` = %s AND s.`tenant` = 7 AND s.`active` = true AND s.`deleted_at` IS NULL AND d.`state` IS NULL ORDER BY d.`key` DESC LIMIT 10;

-- the lists of a subscriber
SELECT b.`list_id`, CAST(b.`subscriber_id` AS CHAR), NULL FROM `peo"ple` AS s JOIN `members` AS b ON s.`id` = b.`subscriber_id` WHERE s.`id` = %s AND s.`tenant` = 7 AND s.`active` = true AND s.`deleted_at` IS NULL ORDER BY b.`list_id` LIMIT 10;
