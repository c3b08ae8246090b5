-- What a workflow requires of an engine: as it was set, and all of it with what the graph names. Null: nothing is known,
-- as of a workflow that was written before this column or that no engine runs.
ALTER TABLE workflows
    ADD COLUMN requirements jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(requirements) = 'object'),
    ADD COLUMN required jsonb CHECK (jsonb_typeof(required) = 'object');

-- What engines have: node classes, models, versions. By the hash of it, so that all workers of one image share a row.
CREATE TABLE worker_environments (
    digest        bytea PRIMARY KEY CHECK (length(digest) = 32),
    inventory     jsonb NOT NULL CHECK (jsonb_typeof(inventory) = 'object'),
    last_used_at  timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- The workflows that an environment cannot run, each with the first things that are missing. What is not here can run.
CREATE TABLE environment_lacks (
    digest       bytea NOT NULL REFERENCES worker_environments (digest) ON DELETE CASCADE,
    workflow_id  bigint NOT NULL REFERENCES workflows (id) ON DELETE CASCADE,
    lacks        jsonb NOT NULL CHECK (jsonb_typeof(lacks) = 'array'),
    PRIMARY KEY (digest, workflow_id)
);
CREATE INDEX environment_lacks_of_workflow ON environment_lacks (workflow_id);

-- Null: the worker has not said what it has, and is given every job of its workflows.
ALTER TABLE comfyui_workers ADD COLUMN environment bytea REFERENCES worker_environments (digest);
CREATE INDEX workers_of_environment ON comfyui_workers (environment) WHERE environment IS NOT NULL;
