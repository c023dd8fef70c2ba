-- Entries that were refused at first, are recorded now, and are not yet counted as recovered.

CREATE INDEX CONCURRENTLY hookrow_recoveries
    ON hookrow_notifications (id)
    WHERE first_outcome <> 'recorded' AND outcome = 'recorded' AND recovery_counted IS NULL;
