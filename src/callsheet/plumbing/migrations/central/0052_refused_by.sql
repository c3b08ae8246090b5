-- needs code: any
--
-- The workers whose engines refused the graph of this dispatch because they lack a value that the job chose.

ALTER TABLE ai_job_dispatches ADD COLUMN refused_by text[] NOT NULL DEFAULT '{}';
