
/*!40101 SET @OLD_CHARACTER_SET_CLIENT=@@CHARACTER_SET_CLIENT */;
/*!40101 SET @OLD_CHARACTER_SET_RESULTS=@@CHARACTER_SET_RESULTS */;
/*!40101 SET @OLD_COLLATION_CONNECTION=@@COLLATION_CONNECTION */;
/*!40101 SET NAMES utf8mb4 */;
/*!40103 SET @OLD_TIME_ZONE=@@TIME_ZONE */;
/*!40103 SET TIME_ZONE='+00:00' */;
/*!40014 SET @OLD_UNIQUE_CHECKS=@@UNIQUE_CHECKS, UNIQUE_CHECKS=0 */;
/*!40014 SET @OLD_FOREIGN_KEY_CHECKS=@@FOREIGN_KEY_CHECKS, FOREIGN_KEY_CHECKS=0 */;
/*!40101 SET @OLD_SQL_MODE=@@SQL_MODE, SQL_MODE='NO_AUTO_VALUE_ON_ZERO' */;
/*!40111 SET @OLD_SQL_NOTES=@@SQL_NOTES, SQL_NOTES=0 */;
DROP TABLE IF EXISTS `django_migrations`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `django_migrations` (
  `id` bigint(20) NOT NULL AUTO_INCREMENT,
  `app` varchar(255) NOT NULL,
  `name` varchar(255) NOT NULL,
  `applied` datetime(6) NOT NULL,
  PRIMARY KEY (`id`)
) ENGINE=InnoDB AUTO_INCREMENT=3 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
/*!40101 SET character_set_client = @saved_cs_client */;

LOCK TABLES `django_migrations` WRITE;
/*!40000 ALTER TABLE `django_migrations` DISABLE KEYS */;
INSERT INTO `django_migrations` VALUES
(1,'hookrow','0001_initial','2026-11-29 14:07:03.771603'),
(2,'hookrow_tables','0001_initial','2026-11-29 14:07:04.386281');
/*!40000 ALTER TABLE `django_migrations` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `hookrow_dispatches`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `hookrow_dispatches` (
  `id` bigint(20) NOT NULL AUTO_INCREMENT,
  `provider_message_id` varchar(255) DEFAULT NULL,
  `subscriber_id` bigint(20) NOT NULL,
  `list_id` bigint(20) DEFAULT NULL,
  `delivered_at` datetime(6) DEFAULT NULL,
  `opened_at` datetime(6) DEFAULT NULL,
  `suppressed_at` datetime(6) DEFAULT NULL,
  `suppression_reason` mediumtext DEFAULT NULL,
  `suppression_changed_at` datetime(6) DEFAULT NULL,
  `first_opened_at` datetime(6) DEFAULT NULL,
  `clicked_at` datetime(6) DEFAULT NULL,
  `bounced_at` datetime(6) DEFAULT NULL,
  `bounce_type` varchar(64) DEFAULT NULL,
  `complained_at` datetime(6) DEFAULT NULL,
  `created_at` datetime(6) NOT NULL DEFAULT utc_timestamp(6),
  PRIMARY KEY (`id`),
  UNIQUE KEY `hookrow_dispatches_message_id` (`provider_message_id`,`subscriber_id`),
  KEY `hookrow_dispatches_subscriber_id_fkey` (`subscriber_id`),
  KEY `hookrow_dispatches_list_id_fkey` (`list_id`),
  CONSTRAINT `hookrow_dispatches_list_id_fkey` FOREIGN KEY (`list_id`) REFERENCES `hookrow_lists` (`id`),
  CONSTRAINT `hookrow_dispatches_subscriber_id_fkey` FOREIGN KEY (`subscriber_id`) REFERENCES `hookrow_subscribers` (`id`)
) ENGINE=InnoDB AUTO_INCREMENT=9 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin ROW_FORMAT=DYNAMIC;
/*!40101 SET character_set_client = @saved_cs_client */;

LOCK TABLES `hookrow_dispatches` WRITE;
/*!40000 ALTER TABLE `hookrow_dispatches` DISABLE KEYS */;
INSERT INTO `hookrow_dispatches` VALUES
(1,'6f1d0a4e-3b52-4c8e-9a17-0c5be2d4f901',1,1,'2026-11-29 13:07:04.883346','2026-11-29 14:07:04.883346',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'2026-11-29 14:07:04.882460'),
(2,'0d9c7b36-52ae-4f0b-8d31-7a6e94c1b802',2,1,NULL,NULL,'2026-11-29 14:07:05.243413','Asked by phone','2026-11-29 14:07:05.243413',NULL,NULL,NULL,NULL,NULL,'2026-11-29 14:07:04.882460'),
(3,'c47e2f18-9b06-4d5a-b3f2-18d05a7ce603',3,1,NULL,'2026-11-29 14:07:04.883346','2026-11-29 14:07:04.883346','HardBounce','2026-11-29 14:07:04.883346',NULL,NULL,NULL,NULL,NULL,'2026-11-29 14:07:04.882460'),
(4,'91b8e3d5-07fc-4a62-bc49-e52f6d30a704',4,1,'2026-11-29 14:07:04.883346',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'2026-11-29 14:07:04.882460'),
(5,'5a2c6e90-d841-47b3-96ef-30bd8f17c805',5,1,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'2026-11-29 14:07:04.882460'),
(6,'e8f40b27-6c93-4e1d-a5d8-b9127c64f306',6,1,NULL,NULL,NULL,NULL,'2026-11-29 14:07:04.883346',NULL,NULL,NULL,NULL,NULL,'2026-11-29 14:07:04.882460'),
(7,NULL,2,2,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'2026-11-29 14:07:04.882460'),
(8,NULL,1,2,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'2026-11-29 14:07:04.882460');
/*!40000 ALTER TABLE `hookrow_dispatches` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `hookrow_hours`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `hookrow_hours` (
  `hour` datetime(6) NOT NULL,
  `record_type` varchar(64) NOT NULL,
  `reason` varchar(64) NOT NULL,
  `first_outcome` varchar(32) NOT NULL,
  `entry` varchar(64) NOT NULL,
  `entries` bigint(20) NOT NULL,
  `recovered` bigint(20) NOT NULL DEFAULT 0,
  PRIMARY KEY (`hour`,`record_type`,`reason`,`first_outcome`,`entry`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin ROW_FORMAT=DYNAMIC;
/*!40101 SET character_set_client = @saved_cs_client */;

LOCK TABLES `hookrow_hours` WRITE;
/*!40000 ALTER TABLE `hookrow_hours` DISABLE KEYS */;
INSERT INTO `hookrow_hours` VALUES
('2026-11-29 14:00:00.000000','','','wrong secret','',3,0),
('2026-11-29 14:00:00.000000','Delivery','','dispatch_not_found','',1,0),
('2026-11-29 14:00:00.000000','Delivery','','recorded','',2,0),
('2026-11-29 14:00:00.000000','Open','','recipient_mismatch','',1,0),
('2026-11-29 14:00:00.000000','Open','','recorded','',1,0),
('2026-11-29 14:00:00.000000','Open','','recorded','shop',1,0),
('2026-11-29 14:00:00.000000','SubscriptionChange','','recorded','',2,0),
('2026-11-29 14:00:00.000000','SubscriptionChange','HardBounce','recorded','',1,0),
('2026-11-29 14:00:00.000000','SubscriptionChange','other','recorded','',2,0);
/*!40000 ALTER TABLE `hookrow_hours` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `hookrow_lists`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `hookrow_lists` (
  `id` bigint(20) NOT NULL AUTO_INCREMENT,
  `name` varchar(255) NOT NULL,
  `created_at` datetime(6) NOT NULL DEFAULT utc_timestamp(6),
  PRIMARY KEY (`id`)
) ENGINE=InnoDB AUTO_INCREMENT=3 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin ROW_FORMAT=DYNAMIC;
/*!40101 SET character_set_client = @saved_cs_client */;

LOCK TABLES `hookrow_lists` WRITE;
/*!40000 ALTER TABLE `hookrow_lists` DISABLE KEYS */;
INSERT INTO `hookrow_lists` VALUES
(1,'news','2026-11-29 14:07:04.872997'),
(2,'offers','2026-11-29 14:07:04.872997');
/*!40000 ALTER TABLE `hookrow_lists` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `hookrow_meta`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `hookrow_meta` (
  `name` varchar(64) NOT NULL,
  `value` text NOT NULL,
  PRIMARY KEY (`name`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin ROW_FORMAT=DYNAMIC;
/*!40101 SET character_set_client = @saved_cs_client */;

LOCK TABLES `hookrow_meta` WRITE;
/*!40000 ALTER TABLE `hookrow_meta` DISABLE KEYS */;
INSERT INTO `hookrow_meta` VALUES
('changes_last','12'),
('changes_pruned','0'),
('hours_ceiling','12 -'),
('hours_watermark','12'),
('lock_counting',''),
('lock_writers_0',''),
('lock_writers_1',''),
('mapping','[{\"subscribers\":{\"table\":\"hookrow_subscribers\"},\"dispatches\":{\"table\":\"hookrow_dispatches\"},\"subscriptions\":{\"table\":\"hookrow_subscriptions\"}}]');
/*!40000 ALTER TABLE `hookrow_meta` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `hookrow_notifications`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `hookrow_notifications` (
  `id` bigint(20) NOT NULL AUTO_INCREMENT,
  `fingerprint` binary(16) NOT NULL,
  `record_type` varchar(64) DEFAULT NULL,
  `message_id` varchar(255) DEFAULT NULL,
  `recipient` varchar(320) DEFAULT NULL,
  `occurred_at` datetime(6) DEFAULT NULL,
  `outcome` varchar(32) NOT NULL,
  `first_outcome` varchar(32) NOT NULL,
  `status` smallint(6) NOT NULL,
  `attempts` bigint(20) NOT NULL,
  `retries` bigint(20) NOT NULL DEFAULT 0,
  `received_at` datetime(6) NOT NULL,
  `last_received_at` datetime(6) NOT NULL,
  `ended_at` datetime(6) NOT NULL,
  `retry_at` datetime(6) DEFAULT NULL,
  `reason` varchar(64) DEFAULT NULL,
  `trace_id` varchar(255) DEFAULT NULL,
  `provider` varchar(32) DEFAULT NULL,
  `entry` varchar(64) DEFAULT NULL,
  `source` varchar(16) NOT NULL,
  `recovery_counted` tinyint(1) DEFAULT NULL,
  `change_number` bigint(20) DEFAULT NULL,
  `body` longtext DEFAULT NULL,
  `parked_message_id` varchar(255) GENERATED ALWAYS AS (case when `retry_at` is not null then `message_id` end) VIRTUAL,
  `changed_recipient` varchar(320) GENERATED ALWAYS AS (case when `record_type` = _utf8mb4'SubscriptionChange' or `reason` is not null then `recipient` end) VIRTUAL,
  `is_expired` tinyint(1) GENERATED ALWAYS AS (case when `retry_at` is null and `body` is not null and `outcome` in (_utf8mb4'dispatch_not_found',_utf8mb4'failed',_utf8mb4'recipient_mismatch',_utf8mb4'subscriber_not_found') then 1 end) STORED,
  PRIMARY KEY (`id`),
  UNIQUE KEY `hookrow_notifications_fingerprint` (`fingerprint`),
  KEY `hookrow_parked` (`retry_at`,`id`),
  KEY `hookrow_parked_message_id` (`parked_message_id`),
  KEY `hookrow_notifications_changes` (`changed_recipient`),
  KEY `hookrow_recoveries` (`outcome`,`recovery_counted`,`first_outcome`),
  KEY `hookrow_expired` (`is_expired`,`id`),
  KEY `hookrow_change_numbers` (`change_number`,`id`)
) ENGINE=InnoDB AUTO_INCREMENT=13 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin ROW_FORMAT=DYNAMIC;
/*!40101 SET character_set_client = @saved_cs_client */;

LOCK TABLES `hookrow_notifications` WRITE;
/*!40000 ALTER TABLE `hookrow_notifications` DISABLE KEYS */;
INSERT INTO `hookrow_notifications` VALUES
(1,0x6B0C237825A5D1D63A2D1715BE330568,'Delivery','6f1d0a4e-3b52-4c8e-9a17-0c5be2d4f901','ada@example.com','2026-11-29 13:07:04.883346','recorded','recorded',200,2,0,'2026-11-29 14:07:04.885976','2026-11-29 14:07:05.142197','2026-11-29 14:07:05.138139',NULL,NULL,NULL,'postmark',NULL,'live',NULL,1,'{\"RecordType\":\"Delivery\",\"MessageStream\":\"broadcast\",\"MessageID\":\"6f1d0a4e-3b52-4c8e-9a17-0c5be2d4f901\",\"Recipient\":\"ada@example.com\",\"Tag\":\"newsletter\",\"Metadata\":{},\"ServerID\":23,\"DeliveredAt\":\"2026-11-29T13:07:04.883346Z\",\"Details\":\"smtp;250 2.0.0 OK\"}',NULL,NULL,NULL),
(3,0x6B0C31888ABB2F2CA433CBA372E8EB28,'Open','6f1d0a4e-3b52-4c8e-9a17-0c5be2d4f901','ada@example.com','2026-11-29 14:07:04.883346','recorded','recorded',200,1,0,'2026-11-29 14:07:05.167753','2026-11-29 14:07:05.167753','2026-11-29 14:07:05.171633',NULL,NULL,NULL,'postmark',NULL,'live',NULL,3,'{\"RecordType\":\"Open\",\"MessageStream\":\"broadcast\",\"MessageID\":\"6f1d0a4e-3b52-4c8e-9a17-0c5be2d4f901\",\"Recipient\":\"ada@example.com\",\"Tag\":\"newsletter\",\"Metadata\":{},\"ServerID\":23,\"FirstOpen\":true,\"ReadSeconds\":5,\"ReceivedAt\":\"2026-11-29T14:07:04.883346Z\",\"Platform\":\"Desktop\",\"UserAgent\":\"Mozilla/5.0\",\"Client\":{},\"OS\":{},\"Geo\":{}}',NULL,NULL,NULL),
(4,0x6B0C3188634BF655A29CF9717AADCFB4,'SubscriptionChange','c47e2f18-9b06-4d5a-b3f2-18d05a7ce603','zoë.müller@example.net','2026-11-29 14:07:04.883346','recorded','recorded',200,1,0,'2026-11-29 14:07:05.174568','2026-11-29 14:07:05.174568','2026-11-29 14:07:05.175849',NULL,'HardBounce',NULL,'postmark',NULL,'live',NULL,4,'{\"RecordType\":\"SubscriptionChange\",\"MessageStream\":\"broadcast\",\"MessageID\":\"c47e2f18-9b06-4d5a-b3f2-18d05a7ce603\",\"Recipient\":\"zoë.müller@example.net\",\"Tag\":null,\"Metadata\":{},\"ServerID\":23,\"ChangedAt\":\"2026-11-29T14:07:04.883346Z\",\"Origin\":\"Recipient\",\"SuppressSending\":true,\"SuppressionReason\":\"HardBounce\"}',NULL,'zoë.müller@example.net',NULL),
(5,0x6B0C3188CD6DCFBE040B38FD115D1FD5,'SubscriptionChange','e8f40b27-6c93-4e1d-a5d8-b9127c64f306','gil@example.com','2026-11-29 14:07:04.883346','recorded','recorded',200,1,0,'2026-11-29 14:07:05.194582','2026-11-29 14:07:05.194582','2026-11-29 14:07:05.197245',NULL,NULL,NULL,'postmark',NULL,'live',NULL,5,'{\"RecordType\":\"SubscriptionChange\",\"MessageStream\":\"broadcast\",\"MessageID\":\"e8f40b27-6c93-4e1d-a5d8-b9127c64f306\",\"Recipient\":\"gil@example.com\",\"Tag\":null,\"Metadata\":{},\"ServerID\":23,\"ChangedAt\":\"2026-11-29T14:07:04.883346Z\",\"Origin\":\"Customer\",\"SuppressSending\":false,\"SuppressionReason\":null}',NULL,'gil@example.com',NULL),
(6,0x6B0C318820AEEFE4F66C237D021CF4F1,'Delivery','91b8e3d5-07fc-4a62-bc49-e52f6d30a704',NULL,'2026-11-29 14:07:04.883346','recorded','recorded',200,1,0,'2026-11-29 14:07:05.204559','2026-11-29 14:07:05.204559','2026-11-29 14:07:05.207326',NULL,NULL,NULL,'postmark',NULL,'live',NULL,6,NULL,NULL,NULL,NULL),
(7,0x6B0C3188BC1470192C41B9F5FA89615D,'Open','6f1d0a4e-3b52-4c8e-9a17-0c5be2d4f901','bea+news@example.org','2026-11-29 14:07:04.883346','recipient_mismatch','recipient_mismatch',400,1,0,'2026-11-29 14:07:05.211884','2026-11-29 14:07:05.211884','2026-11-29 14:07:05.216805','2026-11-29 14:08:05.221726',NULL,NULL,'postmark',NULL,'live',NULL,NULL,'{\"RecordType\":\"Open\",\"MessageStream\":\"broadcast\",\"MessageID\":\"6f1d0a4e-3b52-4c8e-9a17-0c5be2d4f901\",\"Recipient\":\"bea+news@example.org\",\"Tag\":\"newsletter\",\"Metadata\":{},\"ServerID\":23,\"FirstOpen\":true,\"ReadSeconds\":5,\"ReceivedAt\":\"2026-11-29T14:07:04.883346Z\",\"Platform\":\"Desktop\",\"UserAgent\":\"Mozilla/5.0\",\"Client\":{},\"OS\":{},\"Geo\":{}}','6f1d0a4e-3b52-4c8e-9a17-0c5be2d4f901',NULL,NULL),
(8,0x6B0C3188898464BAF0D4825FCCAB48CF,'Delivery','b1f6c2aa-30e7-4d0c-9f52-6f1f0d7e8a07','ada@example.com','2026-11-29 14:07:04.883346','dispatch_not_found','dispatch_not_found',404,1,0,'2026-11-29 14:07:05.221689','2026-11-29 14:07:05.221689','2026-11-29 14:07:05.227347','2026-11-29 14:08:05.233005',NULL,NULL,'postmark',NULL,'live',NULL,NULL,'{\"RecordType\":\"Delivery\",\"MessageStream\":\"broadcast\",\"MessageID\":\"b1f6c2aa-30e7-4d0c-9f52-6f1f0d7e8a07\",\"Recipient\":\"ada@example.com\",\"Tag\":\"newsletter\",\"Metadata\":{},\"ServerID\":23,\"DeliveredAt\":\"2026-11-29T14:07:04.883346Z\",\"Details\":\"smtp;250 2.0.0 OK\"}','b1f6c2aa-30e7-4d0c-9f52-6f1f0d7e8a07',NULL,NULL),
(9,0x6B0C3189F1F7174DE212D8940A4932E0,'SubscriptionChange',NULL,'dora@xn--exmple-cua.example','2026-11-29 14:07:05.228858','recorded','recorded',200,1,0,'2026-11-29 14:07:05.228858','2026-11-29 14:07:05.228858','2026-11-29 14:07:05.236072',NULL,'Asked by phone',NULL,NULL,NULL,'live',NULL,9,'{\"RecordType\":\"SubscriptionChange\",\"Recipient\":\"dora@xn--exmple-cua.example\",\"MessageID\":null,\"ChangedAt\":\"2026-11-29T14:07:05.228858+00:00\",\"Origin\":\"Host\",\"ChangedBy\":\"ada\",\"Note\":\"Asked by phone\",\"SuppressSending\":true,\"SuppressionReason\":\"Asked by phone\"}',NULL,'dora@xn--exmple-cua.example',NULL),
(10,0x6B0C3189CE6712782C70E5C6B3774D80,'SubscriptionChange','0d9c7b36-52ae-4f0b-8d31-7a6e94c1b802','bea+news@example.org','2026-11-29 14:07:05.243413','recorded','recorded',200,1,0,'2026-11-29 14:07:05.243413','2026-11-29 14:07:05.243413','2026-11-29 14:07:05.382999',NULL,'Asked by phone',NULL,NULL,NULL,'live',NULL,10,'{\"RecordType\":\"SubscriptionChange\",\"Recipient\":\"bea+news@example.org\",\"MessageID\":\"0d9c7b36-52ae-4f0b-8d31-7a6e94c1b802\",\"ChangedAt\":\"2026-11-29T14:07:05.243413+00:00\",\"Origin\":\"Host\",\"ChangedBy\":\"ada\",\"Note\":\"Asked by phone\",\"SuppressSending\":true,\"SuppressionReason\":\"Asked by phone\"}',NULL,'bea+news@example.org',NULL),
(11,0x6B0C31898FDA654B1EE630C6D8627DA9,'SubscriptionChange',NULL,'bea+news@example.org','2026-11-29 14:07:05.389794','recorded','recorded',200,1,0,'2026-11-29 14:07:05.389794','2026-11-29 14:07:05.389794','2026-11-29 14:07:05.490124',NULL,NULL,NULL,NULL,NULL,'live',NULL,11,'{\"RecordType\":\"SubscriptionChange\",\"Recipient\":\"bea+news@example.org\",\"MessageID\":null,\"ChangedAt\":\"2026-11-29T14:07:05.389794+00:00\",\"Origin\":\"Host\",\"ChangedBy\":\"ada\",\"Note\":\"Asked again\",\"SuppressSending\":false,\"SuppressionReason\":null}',NULL,'bea+news@example.org',NULL),
(12,0x6B0C31887D6DF2AAE9871F49A9A40CBB,'Open','c47e2f18-9b06-4d5a-b3f2-18d05a7ce603','zoë.müller@example.net','2026-11-29 14:07:04.883346','recorded','recorded',200,1,0,'2026-11-29 14:07:05.518326','2026-11-29 14:07:05.518326','2026-11-29 14:07:05.521461',NULL,NULL,NULL,'postmark','shop','live',NULL,12,'{\"RecordType\":\"Open\",\"MessageStream\":\"broadcast\",\"MessageID\":\"c47e2f18-9b06-4d5a-b3f2-18d05a7ce603\",\"Recipient\":\"zoë.müller@example.net\",\"Tag\":\"newsletter\",\"Metadata\":{},\"ServerID\":23,\"FirstOpen\":true,\"ReadSeconds\":5,\"ReceivedAt\":\"2026-11-29T14:07:04.883346Z\",\"Platform\":\"Desktop\",\"UserAgent\":\"Mozilla/5.0\",\"Client\":{},\"OS\":{},\"Geo\":{}}',NULL,NULL,NULL);
/*!40000 ALTER TABLE `hookrow_notifications` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `hookrow_subscribers`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `hookrow_subscribers` (
  `id` bigint(20) NOT NULL AUTO_INCREMENT,
  `email` varchar(320) NOT NULL,
  `email_folded` varchar(320) GENERATED ALWAYS AS (convert(cast(lcase(convert(cast(`email` as char charset binary) using ascii)) as char charset binary) using utf8mb4)) STORED,
  `suppressed_at` datetime(6) DEFAULT NULL,
  `suppression_reason` mediumtext DEFAULT NULL,
  `suppression_changed_at` datetime(6) DEFAULT NULL,
  `created_at` datetime(6) NOT NULL DEFAULT utc_timestamp(6),
  PRIMARY KEY (`id`),
  UNIQUE KEY `hookrow_subscribers_email` (`email_folded`),
  KEY `hookrow_subscribers_suppressed` (`suppressed_at`,`id`),
  KEY `hookrow_subscribers_reason` (`suppression_reason`(64),`suppressed_at`,`id`)
) ENGINE=InnoDB AUTO_INCREMENT=7 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin ROW_FORMAT=DYNAMIC;
/*!40101 SET character_set_client = @saved_cs_client */;

LOCK TABLES `hookrow_subscribers` WRITE;
/*!40000 ALTER TABLE `hookrow_subscribers` DISABLE KEYS */;
INSERT INTO `hookrow_subscribers` VALUES
(1,'ada@example.com','ada@example.com',NULL,NULL,NULL,'2026-11-29 14:07:04.866668'),
(2,'bea+news@example.org','bea+news@example.org',NULL,NULL,'2026-11-29 14:07:05.389794','2026-11-29 14:07:04.866668'),
(3,'zoë.müller@example.net','zoë.müller@example.net','2026-11-29 14:07:04.883346','HardBounce','2026-11-29 14:07:04.883346','2026-11-29 14:07:04.866668'),
(4,'Carl.Upper@Example.COM','carl.upper@example.com',NULL,NULL,NULL,'2026-11-29 14:07:04.866668'),
(5,'dora@xn--exmple-cua.example','dora@xn--exmple-cua.example','2026-11-29 14:07:05.228858','Asked by phone','2026-11-29 14:07:05.228858','2026-11-29 14:07:04.866668'),
(6,'gil@example.com','gil@example.com',NULL,NULL,'2026-11-29 14:07:04.883346','2026-11-29 14:07:04.866668');
/*!40000 ALTER TABLE `hookrow_subscribers` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `hookrow_subscriptions`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `hookrow_subscriptions` (
  `id` bigint(20) NOT NULL AUTO_INCREMENT,
  `list_id` bigint(20) NOT NULL,
  `subscriber_id` bigint(20) NOT NULL,
  `suppressed_at` datetime(6) DEFAULT NULL,
  `suppression_reason` mediumtext DEFAULT NULL,
  `suppression_changed_at` datetime(6) DEFAULT NULL,
  `created_at` datetime(6) NOT NULL DEFAULT utc_timestamp(6),
  PRIMARY KEY (`id`),
  UNIQUE KEY `hookrow_subscriptions_unique` (`list_id`,`subscriber_id`),
  KEY `hookrow_subscriptions_subscriber_id_fkey` (`subscriber_id`),
  CONSTRAINT `hookrow_subscriptions_list_id_fkey` FOREIGN KEY (`list_id`) REFERENCES `hookrow_lists` (`id`),
  CONSTRAINT `hookrow_subscriptions_subscriber_id_fkey` FOREIGN KEY (`subscriber_id`) REFERENCES `hookrow_subscribers` (`id`)
) ENGINE=InnoDB AUTO_INCREMENT=8 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin ROW_FORMAT=DYNAMIC;
/*!40101 SET character_set_client = @saved_cs_client */;

LOCK TABLES `hookrow_subscriptions` WRITE;
/*!40000 ALTER TABLE `hookrow_subscriptions` DISABLE KEYS */;
INSERT INTO `hookrow_subscriptions` VALUES
(1,1,1,NULL,NULL,NULL,'2026-11-29 14:07:04.874424'),
(2,1,2,'2026-11-29 14:07:05.243413','Asked by phone','2026-11-29 14:07:05.243413','2026-11-29 14:07:04.874424'),
(3,1,3,'2026-11-29 14:07:04.883346','HardBounce','2026-11-29 14:07:04.883346','2026-11-29 14:07:04.874424'),
(4,1,4,NULL,NULL,NULL,'2026-11-29 14:07:04.874424'),
(5,1,5,NULL,NULL,NULL,'2026-11-29 14:07:04.874424'),
(6,1,6,NULL,NULL,'2026-11-29 14:07:04.883346','2026-11-29 14:07:04.874424'),
(7,2,1,NULL,NULL,NULL,'2026-11-29 14:07:04.874424');
/*!40000 ALTER TABLE `hookrow_subscriptions` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `hookrow_suppression_changes`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `hookrow_suppression_changes` (
  `role` varchar(32) NOT NULL,
  `row_key` varchar(736) NOT NULL,
  `changed_at` datetime(6) NOT NULL,
  PRIMARY KEY (`role`,`row_key`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin ROW_FORMAT=DYNAMIC;
/*!40101 SET character_set_client = @saved_cs_client */;

LOCK TABLES `hookrow_suppression_changes` WRITE;
/*!40000 ALTER TABLE `hookrow_suppression_changes` DISABLE KEYS */;
/*!40000 ALTER TABLE `hookrow_suppression_changes` ENABLE KEYS */;
UNLOCK TABLES;
/*!40103 SET TIME_ZONE=@OLD_TIME_ZONE */;

/*!40101 SET SQL_MODE=@OLD_SQL_MODE */;
/*!40014 SET FOREIGN_KEY_CHECKS=@OLD_FOREIGN_KEY_CHECKS */;
/*!40014 SET UNIQUE_CHECKS=@OLD_UNIQUE_CHECKS */;
/*!40101 SET CHARACTER_SET_CLIENT=@OLD_CHARACTER_SET_CLIENT */;
/*!40101 SET CHARACTER_SET_RESULTS=@OLD_CHARACTER_SET_RESULTS */;
/*!40101 SET COLLATION_CONNECTION=@OLD_COLLATION_CONNECTION */;
/*!40111 SET SQL_NOTES=@OLD_SQL_NOTES */;

