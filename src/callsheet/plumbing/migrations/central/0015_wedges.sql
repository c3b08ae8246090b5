-- How often a run of the dispatch stopped its engine for good: the second time the job fails.
ALTER TABLE ai_job_dispatches ADD COLUMN wedges integer NOT NULL DEFAULT 0 CHECK (wedges >= 0);
