-- needs code: any
--
-- The id of the HTTP request that caused the event, as its lines in the log have it. NULL: a background loop caused it,
-- or a control plane that does not know the column.
ALTER TABLE job_events ADD COLUMN request_id text;
