-- The columns of a dispatch that a later version of hookrow will use.

ALTER TABLE hookrow_dispatches
    ADD COLUMN first_opened_at TIMESTAMP WITH TIME ZONE,
    ADD COLUMN clicked_at TIMESTAMP WITH TIME ZONE,
    ADD COLUMN bounced_at TIMESTAMP WITH TIME ZONE,
    ADD COLUMN bounce_type VARCHAR(64),
    ADD COLUMN complained_at TIMESTAMP WITH TIME ZONE;
