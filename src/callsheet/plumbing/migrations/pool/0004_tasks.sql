-- Tasks: jobs addressed to an actor.
ALTER TABLE ai_jobs
    ADD COLUMN actor            text CHECK (actor ~ '^[a-z][a-z0-9_]{0,62}$'),
    ADD COLUMN queue_name       text CHECK (queue_name ~ '^[a-z0-9][a-z0-9_-]{0,62}$'),
    -- Whatever the user's own system calls the run that this task is part of.
    ADD COLUMN workflow_run_id  text CHECK (workflow_run_id <> ''),
    ADD CHECK ((actor IS NULL) = (queue_name IS NULL));
CREATE INDEX jobs_of_workflow_run ON ai_jobs (workflow_run_id, user_id, id) WHERE workflow_run_id IS NOT NULL;

-- What scrapes found, kept for the texts, pictures and films that are made from it.
CREATE TABLE products (
    tenant_id    uuid NOT NULL REFERENCES pool_tenants (tenant_id),
    -- That of the job that scraped it.
    id           uuid NOT NULL,
    user_id      uuid NOT NULL,
    url          text NOT NULL,
    title        text NOT NULL,
    description  text NOT NULL DEFAULT '',
    price        text,
    currency     text,
    images       jsonb NOT NULL DEFAULT '[]' CHECK (jsonb_typeof(images) = 'array'),
    text         text NOT NULL DEFAULT '',
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant_id, id),
    FOREIGN KEY (tenant_id, id) REFERENCES ai_jobs (tenant_id, id)
);
CREATE INDEX products_of_user ON products (user_id, id);

-- For lists of tasks: a user's other jobs may be many more.
CREATE INDEX tasks_of_user ON ai_jobs (user_id, id) WHERE actor IS NOT NULL;
