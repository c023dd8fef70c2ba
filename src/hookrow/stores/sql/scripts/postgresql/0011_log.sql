-- How often hookrow retried a notification, beside the number of times that it was posted.

ALTER TABLE hookrow_notifications ADD COLUMN retries BIGINT DEFAULT 0 NOT NULL;
