CREATE TABLE IF NOT EXISTS hookrow_migrations (revision VARCHAR(32) NOT NULL PRIMARY KEY, applied_at DATETIME DEFAULT (strftime('%Y-%m-%d %H:%M:%f000', 'now')) NOT NULL)
