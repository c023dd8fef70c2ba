-- A person's history of suppressions and reactivations.

CREATE INDEX CONCURRENTLY hookrow_notifications_changes
    ON hookrow_notifications (recipient) WHERE record_type = 'SubscriptionChange';
