-- What lists show of a job and what it is found by: written with the job, never changed, gone when its user deletes the job.
-- Apart from the job, whose row is copied by every change of status. Jobs from before have none.
CREATE TABLE job_descriptions (
    tenant_id    uuid NOT NULL,
    user_id      uuid NOT NULL,
    job_id       uuid NOT NULL,
    -- The name of its effect or actor at that time.
    title        text NOT NULL,
    -- The name of its primary input.
    input_name   text,
    prompt       text,
    -- Title, names of its inputs and its texts, case-folded and cut to what an index can hold.
    search_text  text COLLATE "C" NOT NULL CHECK (octet_length(search_text) <= 2000),
    -- `input_payload` of a job of an effect, as its user sent it. The job's payload is what an engine gets.
    sent         jsonb,
    -- With the text: a user's texts lie side by side in the index, and a search reads some hundred pages of it instead of one
    -- page of the table for each job.
    PRIMARY KEY (user_id, job_id) INCLUDE (tenant_id, search_text)
);

-- Columns without a default: no row is rewritten.
ALTER TABLE ai_jobs
    -- What its main output is: image, video, audio, text or other. Expected until it completes.
    ADD COLUMN medium         text,
    -- The status that it ended with, and the charge cycle that ended so. The status itself can be in no index: each change of
    -- it would be written to all of them. Of a cycle that has not ended, or was ended by an earlier release, it says nothing.
    ADD COLUMN outcome        text,
    ADD COLUMN outcome_cycle  integer,
    ADD COLUMN deleted_at     timestamptz;
-- Not validated: all of them are null, and looking at every row would hold the table.
ALTER TABLE ai_jobs ADD CONSTRAINT outcome_is_the_status_of_its_cycle
    CHECK (outcome_cycle IS DISTINCT FROM charge_cycle OR outcome = status) NOT VALID;
-- A retry that overlaps a deletion fails here.
ALTER TABLE ai_jobs ADD CONSTRAINT only_ended_jobs_are_deleted
    CHECK (deleted_at IS NULL OR completed_at IS NOT NULL) NOT VALID;

CREATE FUNCTION medium_of(mime_type text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN split_part(mime_type, '/', 1) IN ('image', 'video', 'audio', 'text')
        THEN split_part(mime_type, '/', 1) ELSE 'other' END
$$;

-- Everything that lists filter by is in the index: a user's jobs lie side by side there, and anywhere in the table. It also
-- needs pages whose rows everybody can see, which is what vacuum knows of them.
DROP INDEX jobs_of_user;
CREATE INDEX jobs_of_user ON ai_jobs (user_id, id)
    INCLUDE (tenant_id, kind, actor, medium, effect_id, run_id, created_at, charge_cycle, outcome, outcome_cycle, deleted_at);
ALTER TABLE ai_jobs SET (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.05);
