-- The suppressed subscribers, by the time of suppression.

CREATE INDEX CONCURRENTLY hookrow_subscribers_suppressed
    ON hookrow_subscribers (suppressed_at, id) WHERE suppressed_at IS NOT NULL;
