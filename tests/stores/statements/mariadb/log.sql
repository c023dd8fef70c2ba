-- bounds
SELECT (SELECT min(id) FROM `hookrow_notifications`), (SELECT max(id) FROM `hookrow_notifications`);

-- the first id since a time
SELECT received_at, ended_at FROM `hookrow_notifications` WHERE id >= %s ORDER BY id LIMIT 1;

-- newest
SELECT id, octet_length(body) FROM `hookrow_notifications` WHERE id BETWEEN %s AND %s ORDER BY id DESC LIMIT 10;

-- newest
SELECT fingerprint, record_type, message_id, recipient, occurred_at, outcome, status, attempts, received_at, last_received_at, ended_at, retry_at, body, reason, provider, source, trace_id, entry, change_number, id, first_outcome, retries FROM `hookrow_notifications` WHERE id IN (SELECT value FROM JSON_TABLE(%s, '$[*]' COLUMNS (value bigint PATH '$')) AS given);

-- newest without bodies
SELECT fingerprint, record_type, message_id, recipient, occurred_at, outcome, status, attempts, received_at, last_received_at, ended_at, retry_at, NULL, reason, provider, source, trace_id, entry, change_number, id, first_outcome, retries FROM `hookrow_notifications` WHERE id BETWEEN %s AND %s ORDER BY id DESC LIMIT 10;

-- newest by every condition
SELECT id, octet_length(body) FROM `hookrow_notifications` WHERE id + 0 BETWEEN %s AND %s AND coalesce(outcome) = %s AND coalesce(first_outcome) = %s AND coalesce(reason) = %s AND coalesce(record_type) = %s AND changed_recipient = %s AND coalesce(message_id) = %s AND coalesce(entry) = %s AND id IN (SELECT value FROM JSON_TABLE(%s, '$[*]' COLUMNS (value bigint PATH '$')) AS given) AND received_at >= %s AND received_at < %s AND retry_at IS NOT NULL AND is_expired = 1 AND (record_type = 'SubscriptionChange' OR reason IS NOT NULL) AND outcome IN ('dispatch_not_found', 'recipient_mismatch', 'recorded', 'unmapped') AND attempts > 0 AND provider IS NOT NULL ORDER BY id + 0 DESC LIMIT 10;

-- newest changes of a person
SELECT id, octet_length(body) FROM `hookrow_notifications` WHERE id BETWEEN %s AND %s AND changed_recipient = %s AND (record_type = 'SubscriptionChange' OR reason IS NOT NULL) AND outcome IN ('dispatch_not_found', 'recipient_mismatch', 'recorded', 'unmapped') ORDER BY id DESC LIMIT 10;

-- oldest
SELECT id, octet_length(body) FROM `hookrow_notifications` WHERE id BETWEEN %s AND %s ORDER BY id LIMIT 10;

-- oldest of other types
SELECT id, octet_length(body) FROM `hookrow_notifications` WHERE id BETWEEN %s AND %s AND (record_type IS NULL OR record_type NOT IN (%s, %s, %s, %s, %s, %s)) ORDER BY id LIMIT 10;

-- count
SELECT count(*) FROM (SELECT 1 FROM `hookrow_notifications` WHERE true LIMIT 10) AS found;

-- parked entries of messages
SELECT id, octet_length(body) FROM `hookrow_notifications` WHERE parked_message_id IN (%s, %s) AND retry_at IS NOT NULL AND id > %s ORDER BY id;

-- hopeful entries
SELECT n.retry_at, n.id FROM `hookrow_notifications` AS n WHERE n.retry_at IS NOT NULL AND (n.retry_at > %s OR n.retry_at = %s AND n.id > %s) ORDER BY n.retry_at, n.id LIMIT 1 OFFSET 1;

-- hopeful entries
SELECT n.id FROM `hookrow_notifications` AS n WHERE n.retry_at IS NOT NULL AND (n.retry_at <= %s OR n.retry_at > %s) AND concat(coalesce(n.entry, ''), ' ', coalesce(n.provider, '')) IN (SELECT value FROM JSON_TABLE(%s, '$[*]' COLUMNS (value varchar(1024) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PATH '$')) AS given) AND n.retry_at IS NOT NULL AND (n.retry_at > %s OR n.retry_at = %s AND n.id > %s) AND (n.retry_at < %s OR n.retry_at = %s AND n.id <= %s) AND n.outcome IN ('dispatch_not_found', 'recipient_mismatch', 'subscriber_not_found') AND (
    EXISTS (SELECT 1 FROM `hookrow_dispatches` AS d STRAIGHT_JOIN `hookrow_subscribers` AS s
        WHERE d.`provider_message_id` = CONVERT(n.message_id USING utf8mb4) COLLATE utf8mb4_bin AND s.`id` = d.`subscriber_id` AND s.`email_folded` = CONVERT(n.recipient USING utf8mb4) COLLATE utf8mb4_bin)
    OR ((n.reason IS NOT NULL OR n.record_type = 'SubscriptionChange')
        AND n.outcome = 'subscriber_not_found'
        AND EXISTS (SELECT 1 FROM `hookrow_subscribers` AS s WHERE s.`email_folded` = CONVERT(n.recipient USING utf8mb4) COLLATE utf8mb4_bin))
) ORDER BY n.id;

-- due entries, FAILING
SELECT n.id FROM `hookrow_notifications` AS n WHERE n.retry_at IS NOT NULL AND (n.retry_at <= %s OR n.retry_at > %s) AND concat(coalesce(n.entry, ''), ' ', coalesce(n.provider, '')) IN (SELECT value FROM JSON_TABLE(%s, '$[*]' COLUMNS (value varchar(1024) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PATH '$')) AS given) AND n.outcome IN ('failed', 'recipient_mismatch') ORDER BY TIMESTAMPDIFF(SECOND, '1970-01-01', n.retry_at) - TIMESTAMPDIFF(SECOND, '1970-01-01', n.received_at), n.id LIMIT 10;

-- due entries, MISSING
SELECT n.id FROM `hookrow_notifications` AS n WHERE n.retry_at IS NOT NULL AND (n.retry_at <= %s OR n.retry_at > %s) AND concat(coalesce(n.entry, ''), ' ', coalesce(n.provider, '')) IN (SELECT value FROM JSON_TABLE(%s, '$[*]' COLUMNS (value varchar(1024) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PATH '$')) AS given) AND n.outcome IN ('dispatch_not_found', 'subscriber_not_found') ORDER BY n.received_at DESC, n.id LIMIT 10;

-- take
SELECT id, octet_length(body) FROM `hookrow_notifications` WHERE id IN (SELECT value FROM JSON_TABLE(%s, '$[*]' COLUMNS (value bigint PATH '$')) AS given) AND (retry_at <= %s OR retry_at > %s) ORDER BY id FOR UPDATE SKIP LOCKED;

-- take
UPDATE `hookrow_notifications` SET retry_at = %s, retries = retries + 1 WHERE id = %s;

-- count retries
UPDATE JSON_TABLE(%s, '$[*]' COLUMNS (value bigint PATH '$')) AS given STRAIGHT_JOIN `hookrow_notifications` FORCE INDEX (`PRIMARY`) SET retries = retries + 1 WHERE `hookrow_notifications`.id = given.value;

-- expire
UPDATE (SELECT n.id FROM `hookrow_notifications` AS n WHERE n.retry_at IS NOT NULL AND (n.retry_at <= %s OR n.retry_at > %s) AND concat(coalesce(n.entry, ''), ' ', coalesce(n.provider, '')) IN (SELECT value FROM JSON_TABLE(%s, '$[*]' COLUMNS (value varchar(1024) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PATH '$')) AS given) AND n.received_at < %s AND n.outcome IN ('dispatch_not_found', 'subscriber_not_found') LIMIT 1000 FOR UPDATE SKIP LOCKED) AS selected STRAIGHT_JOIN `hookrow_notifications` SET retry_at = NULL WHERE `hookrow_notifications`.id = selected.id;

-- the backlog
SELECT count(*), min(CASE WHEN retry_at <= %s THEN retry_at END) FROM `hookrow_notifications` WHERE retry_at IS NOT NULL;

-- the backlog
SELECT count(*) FROM (SELECT 1 FROM `hookrow_notifications` WHERE true AND is_expired = 1 LIMIT 100000) AS found;

-- the backlog of an entry
SELECT count(*), min(CASE WHEN retry_at <= %s THEN retry_at END) FROM `hookrow_notifications` WHERE retry_at IS NOT NULL AND entry = %s;

-- the backlog of an entry
SELECT count(*) FROM (SELECT 1 FROM `hookrow_notifications` WHERE true AND entry = %s AND is_expired = 1 LIMIT 100000) AS found;

-- entries that wait, by origin
SELECT entry, provider, count(retry_at), min(CASE WHEN retry_at <= %s THEN retry_at END), count(CASE WHEN retry_at IS NULL THEN 1 END), count(CASE WHEN retry_at IS NULL AND outcome IN ('subscriber_not_found') THEN 1 END) FROM (SELECT entry, provider, retry_at, outcome FROM `hookrow_notifications` WHERE retry_at IS NOT NULL UNION ALL SELECT * FROM (SELECT entry, provider, retry_at, outcome FROM `hookrow_notifications` WHERE true AND is_expired = 1 AND NOT (outcome IN ('subscriber_not_found') AND (recipient IS NULL OR recipient = '')) LIMIT 100000) AS expired) AS waiting GROUP BY entry, provider;

-- count a chunk by hour

SELECT column_name, data_type, column_type, is_nullable = 'YES', extra,
    column_default IS NOT NULL AND column_default <> 'NULL',
    character_maximum_length, character_octet_length, character_set_name, collation_name,
    datetime_precision, privileges, generation_expression
FROM information_schema.columns WHERE table_name = %s AND table_schema = coalesce(nullif(%s, ''), database()) ORDER BY ordinal_position
;

-- count a chunk by hour
SELECT version();

-- count a chunk by hour
SELECT privileges FROM information_schema.columns WHERE table_name = %s AND table_schema = coalesce(nullif(%s, ''), database());

-- count a chunk by hour
SHOW VARIABLES WHERE variable_name IN ('tx_isolation', 'transaction_isolation');

-- count a chunk by hour

SELECT table_schema, table_name FROM information_schema.tables WHERE table_name = %s AND table_schema = coalesce(nullif(%s, ''), database())
;

-- count a chunk by hour
SELECT name FROM `hookrow_meta` WHERE name IN (%s);

-- count a chunk by hour
SELECT name FROM `hookrow_meta` WHERE name IN (%s) FOR UPDATE SKIP LOCKED;

-- count a chunk by hour
INSERT INTO `hookrow_meta` (name, value)
VALUES (%s, %s)
ON DUPLICATE KEY UPDATE
name = `hookrow_meta`.name;

-- count a chunk by hour
SELECT name, value FROM `hookrow_meta` WHERE name IN (%s, %s, %s) ORDER BY name DESC FOR UPDATE;

-- count a chunk by hour
SELECT coalesce(max(id), 0) FROM `hookrow_notifications`;

-- count a chunk by hour
SELECT auto_increment - 1 FROM information_schema.tables WHERE table_name = %s AND table_schema = coalesce(nullif(%s, ''), database());

-- count a chunk by hour
SELECT name FROM `hookrow_meta` WHERE name IN (%s, %s);

-- count a chunk by hour
SELECT name FROM `hookrow_meta` WHERE name IN (%s, %s) FOR UPDATE SKIP LOCKED;

-- count a chunk by hour
INSERT INTO `hookrow_meta` (name, value)
VALUES (%s, %s)
ON DUPLICATE KEY UPDATE
value = VALUES(value);

-- count a chunk by hour
SELECT id FROM `hookrow_notifications` WHERE first_outcome <> 'recorded' AND outcome = 'recorded' AND recovery_counted IS NULL AND coalesce(id) <= coalesce((SELECT CAST(value AS SIGNED) FROM `hookrow_meta` WHERE name = 'hours_watermark'), 0) ORDER BY coalesce(id) LIMIT 5000 FOR UPDATE SKIP LOCKED;

-- count the next chunk
SELECT min(id) FROM `hookrow_notifications` WHERE id > %s AND id <= %s;

-- count the next chunk
INSERT INTO `hookrow_hours` (hour, record_type, reason, first_outcome, entry, entries, recovered)
SELECT date_format(received_at, '%%Y-%%m-%%d %%H:00:00'), CASE WHEN record_type IN ('Bounce', 'Click', 'Delivery', 'Open', 'SpamComplaint', 'SubscriptionChange') THEN record_type ELSE 'other' END, CASE WHEN reason IS NULL THEN '' WHEN reason IN ('HardBounce', 'ManualSuppression', 'SpamComplaint') THEN reason ELSE 'other' END, first_outcome, coalesce(entry, ''), count(*), 0 FROM `hookrow_notifications` WHERE id > %s AND id <= %s GROUP BY date_format(received_at, '%%Y-%%m-%%d %%H:00:00'), 2, 3, 4, 5
ON DUPLICATE KEY UPDATE
entries = `hookrow_hours`.entries + VALUES(entries),
recovered = `hookrow_hours`.recovered + VALUES(recovered);

-- counts by hour
SELECT CASE WHEN received_at >= %s THEN TIMESTAMPDIFF(SECOND, '1970-01-01', received_at) DIV 3600 END, CASE WHEN record_type IN ('Bounce', 'Click', 'Delivery', 'Open', 'SpamComplaint', 'SubscriptionChange') THEN record_type ELSE 'other' END, CASE WHEN reason IS NULL THEN '' WHEN reason IN ('HardBounce', 'ManualSuppression', 'SpamComplaint') THEN reason ELSE 'other' END, first_outcome, coalesce(entry, ''), count(*), count(CASE WHEN first_outcome <> 'recorded' AND outcome = 'recorded' THEN 1 END), TIMESTAMPDIFF(SECOND, '1970-01-01', min(ended_at)) FROM (SELECT received_at, ended_at, record_type, reason, outcome, first_outcome, entry FROM `hookrow_notifications` WHERE id > coalesce((SELECT CAST(value AS SIGNED) FROM `hookrow_meta` WHERE name = 'hours_watermark'), 0) ORDER BY id DESC LIMIT 100000) AS entries GROUP BY 1, 2, 3, 4, 5 UNION ALL SELECT TIMESTAMPDIFF(SECOND, '1970-01-01', hour) DIV 3600, record_type, reason, first_outcome, entry, CAST(sum(entries) AS SIGNED), CAST(sum(recovered) AS SIGNED), NULL FROM `hookrow_hours` WHERE hour >= %s AND first_outcome NOT IN ('missing secret', 'wrong secret', 'expired', 'old secret', 'unavailable') GROUP BY 1, 2, 3, 4, 5 UNION ALL SELECT CASE WHEN received_at >= %s THEN TIMESTAMPDIFF(SECOND, '1970-01-01', received_at) DIV 3600 END, CASE WHEN record_type IN ('Bounce', 'Click', 'Delivery', 'Open', 'SpamComplaint', 'SubscriptionChange') THEN record_type ELSE 'other' END, CASE WHEN reason IS NULL THEN '' WHEN reason IN ('HardBounce', 'ManualSuppression', 'SpamComplaint') THEN reason ELSE 'other' END, first_outcome, coalesce(entry, ''), 0, count(*), NULL FROM (SELECT received_at, ended_at, record_type, reason, outcome, first_outcome, entry FROM `hookrow_notifications` WHERE first_outcome <> 'recorded' AND outcome = 'recorded' AND recovery_counted IS NULL AND coalesce(id) <= coalesce((SELECT CAST(value AS SIGNED) FROM `hookrow_meta` WHERE name = 'hours_watermark'), 0) ORDER BY coalesce(id) DESC LIMIT 10000) AS entries GROUP BY 1, 2, 3, 4, 5;

-- counts by minute
SELECT CASE WHEN received_at >= %s THEN TIMESTAMPDIFF(SECOND, '1970-01-01', received_at) DIV 60 END, CASE WHEN record_type IN ('Bounce', 'Click', 'Delivery', 'Open', 'SpamComplaint', 'SubscriptionChange') THEN record_type ELSE 'other' END, CASE WHEN reason IS NULL THEN '' WHEN reason IN ('HardBounce', 'ManualSuppression', 'SpamComplaint') THEN reason ELSE 'other' END, first_outcome, coalesce(entry, ''), count(*), count(CASE WHEN first_outcome <> 'recorded' AND outcome = 'recorded' THEN 1 END), TIMESTAMPDIFF(SECOND, '1970-01-01', min(ended_at)) FROM (SELECT received_at, ended_at, record_type, reason, outcome, first_outcome, entry FROM `hookrow_notifications` WHERE id > %s ORDER BY id DESC LIMIT 100000) AS entries GROUP BY 1, 2, 3, 4, 5;

-- recent entries
SELECT outcome, record_type, entry, count(*), max(last_received_at) FROM (SELECT outcome, record_type, entry, last_received_at FROM `hookrow_notifications` ORDER BY id DESC LIMIT 10) AS newest GROUP BY 1, 2, 3;

-- those of an entry
SELECT outcome, record_type, entry, count(*), max(last_received_at) FROM (SELECT outcome, record_type, entry, last_received_at FROM `hookrow_notifications` WHERE id > (SELECT max(id) FROM `hookrow_notifications`) - 100000 AND entry = %s ORDER BY id DESC LIMIT 10) AS newest GROUP BY 1, 2, 3;

-- deliveries
SELECT message_id, occurred_at FROM `hookrow_notifications` WHERE id > (SELECT max(id) FROM `hookrow_notifications`) - 100000 AND record_type = 'Delivery' AND outcome = 'recorded' AND message_id IS NOT NULL AND occurred_at IS NOT NULL AND received_at >= %s ORDER BY id DESC LIMIT 10;

-- deliveries of an entry
SELECT message_id, occurred_at FROM `hookrow_notifications` WHERE id > (SELECT max(id) FROM `hookrow_notifications`) - 100000 AND record_type = 'Delivery' AND outcome = 'recorded' AND message_id IS NOT NULL AND occurred_at IS NOT NULL AND received_at >= %s AND entry = %s ORDER BY id DESC LIMIT 10;

-- add requests
INSERT INTO `hookrow_hours` (hour, record_type, reason, first_outcome, entry, entries, recovered)
VALUES (%s, '', '', %s, %s, %s, 0), (%s, '', '', %s, %s, %s, 0), (%s, '', '', %s, %s, %s, 0), (%s, '', '', %s, %s, %s, 0), (%s, '', '', %s, %s, %s, 0)
ON DUPLICATE KEY UPDATE
entries = `hookrow_hours`.entries + VALUES(entries),
recovered = `hookrow_hours`.recovered + VALUES(recovered);

-- requests
SELECT first_outcome, entry, CAST(sum(entries) AS SIGNED) AS number, min(hour), max(hour) FROM `hookrow_hours` WHERE hour >= %s AND first_outcome IN ('missing secret', 'wrong secret', 'expired', 'old secret', 'unavailable') GROUP BY first_outcome, entry ORDER BY number DESC, entry;

-- what can be pruned
SELECT count(CASE WHEN last_received_at < %s AND (retry_at IS NULL OR received_at < %s) AND id < (SELECT max(id) FROM `hookrow_notifications`) THEN 1 END), count(CASE WHEN last_received_at < %s AND body IS NOT NULL AND NOT outcome IN ('dispatch_not_found', 'failed', 'recipient_mismatch', 'subscriber_not_found') AND NOT (last_received_at < %s AND (retry_at IS NULL OR received_at < %s) AND id < (SELECT max(id) FROM `hookrow_notifications`)) THEN 1 END) FROM `hookrow_notifications`;

-- prune bodies
EXPLAIN DELETE FROM `hookrow_notifications` WHERE 1 = 0;

-- prune bodies
UPDATE `hookrow_notifications` SET body = NULL WHERE last_received_at < %s AND body IS NOT NULL AND NOT outcome IN ('dispatch_not_found', 'failed', 'recipient_mismatch', 'subscriber_not_found') AND id BETWEEN %s AND %s;

-- prune bodies
SELECT min(received_at) FROM `hookrow_notifications` WHERE id BETWEEN %s AND %s;

-- prune
SELECT coalesce((SELECT CAST(value AS SIGNED) FROM `hookrow_meta` WHERE name = 'hours_watermark'), 0), (SELECT coalesce(max(id), 0) FROM `hookrow_notifications`);

-- prune
SELECT name, value FROM `hookrow_meta` WHERE name IN (%s, %s) ORDER BY name FOR UPDATE;

-- prune
SELECT min(change_number), max(change_number) FROM `hookrow_notifications` WHERE last_received_at < %s AND (retry_at IS NULL OR received_at < %s) AND id <= %s AND NOT (first_outcome <> 'recorded' AND outcome = 'recorded' AND recovery_counted IS NULL) AND id BETWEEN %s AND %s;

-- prune
DELETE FROM `hookrow_notifications` WHERE last_received_at < %s AND (retry_at IS NULL OR received_at < %s) AND id <= %s AND NOT (first_outcome <> 'recorded' AND outcome = 'recorded' AND recovery_counted IS NULL) AND id BETWEEN %s AND %s AND (change_number IS NULL OR change_number > 0);

-- changes
SELECT id, change_number FROM `hookrow_notifications` WHERE change_number > %s ORDER BY change_number LIMIT 10;

-- changes
SELECT name, value FROM `hookrow_meta` WHERE name IN (%s, %s) ORDER BY name ;

-- changes
SELECT id FROM `hookrow_notifications` WHERE change_number < 1 ORDER BY change_number, id LIMIT 1;

-- changes
SELECT id FROM `hookrow_notifications` WHERE change_number < 1 ORDER BY change_number, id LIMIT 1000 FOR UPDATE SKIP LOCKED;

-- changes
UPDATE JSON_TABLE(%s, '$[*]' COLUMNS (value bigint PATH '$')) AS given STRAIGHT_JOIN `hookrow_notifications` FORCE INDEX (`PRIMARY`) SET change_number = id + 0 WHERE `hookrow_notifications`.id = given.value;

-- changes
SELECT id, octet_length(body) FROM `hookrow_notifications` WHERE id IN (SELECT value FROM JSON_TABLE(%s, '$[*]' COLUMNS (value bigint PATH '$')) AS given) ORDER BY change_number;

-- forget
UPDATE `hookrow_notifications` SET recipient = NULL, body = NULL, reason = NULL, retry_at = NULL WHERE recipient = %s AND id BETWEEN %s AND %s;

-- forget
SELECT id, octet_length(body) FROM `hookrow_notifications` WHERE (lower(body) LIKE %s ESCAPE '!' OR body LIKE %s ESCAPE '!' OR body LIKE %s ESCAPE '!' OR body LIKE %s ESCAPE '!' OR octet_length(body) <> char_length(body)) AND id BETWEEN %s AND %s ORDER BY id;

-- forget in an entry
UPDATE `hookrow_notifications` SET recipient = NULL, body = NULL, reason = NULL, retry_at = NULL WHERE recipient = %s AND entry IN (SELECT value FROM JSON_TABLE(%s, '$[*]' COLUMNS (value varchar(1024) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PATH '$')) AS given) AND id BETWEEN %s AND %s;

-- forget in an entry
SELECT id, octet_length(body) FROM `hookrow_notifications` WHERE (lower(body) LIKE %s ESCAPE '!' OR body LIKE %s ESCAPE '!' OR body LIKE %s ESCAPE '!' OR body LIKE %s ESCAPE '!' OR octet_length(body) <> char_length(body)) AND entry IN (SELECT value FROM JSON_TABLE(%s, '$[*]' COLUMNS (value varchar(1024) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PATH '$')) AS given) AND id BETWEEN %s AND %s ORDER BY id;
