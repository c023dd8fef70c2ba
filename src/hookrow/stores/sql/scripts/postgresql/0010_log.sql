-- Entries that are neither recorded nor retried any more, but can be replayed.

CREATE INDEX CONCURRENTLY hookrow_expired
    ON hookrow_notifications (id)
    WHERE retry_at IS NULL AND body IS NOT NULL AND outcome IN
        ('dispatch_not_found', 'failed', 'recipient_mismatch', 'subscriber_not_found');
