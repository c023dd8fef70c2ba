-- The suppressed subscribers by reason, unless it is too long for an index.

CREATE INDEX CONCURRENTLY hookrow_subscribers_reason
    ON hookrow_subscribers (suppression_reason, suppressed_at, id)
    WHERE suppressed_at IS NOT NULL AND length(suppression_reason) <= 64;
