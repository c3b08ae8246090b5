-- needs code: any
--
-- When each part of a run happened, as its worker reported it with the end of the run: one row per attempt, for the
-- operator's page of a job. Written with the event that ended the attempt, and known by the number of that event.
CREATE TABLE job_traces (
    tenant_id  uuid NOT NULL,
    job_id     uuid NOT NULL,
    seq        integer NOT NULL CHECK (seq > 0),
    trace      jsonb NOT NULL CHECK (jsonb_typeof(trace) = 'object'),
    PRIMARY KEY (tenant_id, job_id, seq),
    FOREIGN KEY (tenant_id, job_id) REFERENCES ai_jobs (tenant_id, id)
);

-- The node of the graph that runs now. Empty: none does. NULL: the worker does not say.
ALTER TABLE job_progress ADD COLUMN node_id text;
