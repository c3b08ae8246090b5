-- Counts are kept in windows of several lengths, so each says itself when it can be swept. The default is for control planes
-- of the version before, which do not say it.
ALTER TABLE login_attempts ADD COLUMN ends_at timestamptz NOT NULL DEFAULT clock_timestamp() + interval '2 hours';
CREATE INDEX login_attempts_by_end ON login_attempts (ends_at);
