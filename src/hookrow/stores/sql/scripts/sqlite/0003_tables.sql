-- The columns of a dispatch that a later version of hookrow will use.

ALTER TABLE hookrow_dispatches ADD COLUMN first_opened_at DATETIME;

ALTER TABLE hookrow_dispatches ADD COLUMN clicked_at DATETIME;

ALTER TABLE hookrow_dispatches ADD COLUMN bounced_at DATETIME;

ALTER TABLE hookrow_dispatches ADD COLUMN bounce_type VARCHAR(64);

ALTER TABLE hookrow_dispatches ADD COLUMN complained_at DATETIME;
