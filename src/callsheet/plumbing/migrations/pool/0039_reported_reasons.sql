-- needs code: any
--
-- The reason of an event for operators, if its user reads another one: it contains the text of a worker or a provider.
ALTER TABLE job_events ADD COLUMN reported text;
