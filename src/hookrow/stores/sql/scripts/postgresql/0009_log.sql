-- The parked entries in the order in which a sweep searches them, also if many are due at one time.

CREATE INDEX CONCURRENTLY hookrow_parked
    ON hookrow_notifications (retry_at, id) WHERE retry_at IS NOT NULL;
