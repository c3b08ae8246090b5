-- A lane becomes the queue of one user: whose turn it is can be decided without looking at the jobs. Jobs that were queued
-- before stay in lanes of nobody in particular, which have a turn like any other.
ALTER TABLE dispatch_lanes
    ADD COLUMN tenant_id uuid NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000',
    ADD COLUMN user_id   uuid NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000',
    -- False: no queued row of it can be leased. It may be true for a moment after the last one was.
    ADD COLUMN has_work  boolean NOT NULL DEFAULT true,
    ADD COLUMN opened_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    DROP CONSTRAINT dispatch_lanes_workflow_id_stage_provider_concurrency_ident_key,
    ADD UNIQUE (workflow_id, stage, provider, concurrency_identifier, priority, tenant_id, user_id);

CREATE INDEX lanes_with_work ON dispatch_lanes (workflow_id, stage, provider) WHERE has_work;

ALTER TABLE ai_job_dispatches
    ADD COLUMN user_id uuid NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000';

-- For a lane that is removed: whether any row is left in it. The workflow first, or the planner would take this one for the
-- heads of lanes too, and walk over all that is not queued.
CREATE INDEX dispatches_of_lane ON ai_job_dispatches (workflow_id, lane_id);
-- What tenants and users have in flight, where that is bounded.
CREATE INDEX dispatches_of_tenant ON ai_job_dispatches (tenant_id, user_id) WHERE status <> 'queued';

ALTER TABLE tenants
    ADD COLUMN weight               double precision NOT NULL DEFAULT 1 CHECK (weight BETWEEN 0.01 AND 1000),
    ADD COLUMN max_running          integer CHECK (max_running >= 0),
    ADD COLUMN max_running_per_user integer CHECK (max_running_per_user >= 0);

-- The few whose share of the workers is not the ordinary one.
CREATE INDEX tenants_with_terms ON tenants (id)
    WHERE weight <> 1 OR max_running IS NOT NULL OR max_running_per_user IS NOT NULL;
