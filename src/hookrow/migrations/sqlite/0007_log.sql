-- Entries that were refused first, are recorded now, and are still to be counted as recovered.

CREATE INDEX hookrow_recoveries
    ON hookrow_notifications (id)
    WHERE first_outcome <> 'recorded' AND outcome = 'recorded' AND recovery_counted IS NULL;
