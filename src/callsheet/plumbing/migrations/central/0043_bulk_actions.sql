-- Actions of operators on many jobs: what was asked for, and how far it is. The jobs themselves are in the pools.
-- needs code: any
CREATE TABLE bulk_actions (
    id                uuid PRIMARY KEY,
    action            text NOT NULL CHECK (action IN ('retry', 'cancel', 'set_priority')),
    priority          integer,
    -- As the API takes it. Only jobs that were created before `created_at` are acted on.
    filter            jsonb NOT NULL,
    reason            text,
    created_by        uuid NOT NULL,
    created_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    state             text NOT NULL DEFAULT 'running' CHECK (state IN ('running', 'stopped', 'completed')),
    stopped_by        uuid,
    finished_at       timestamptz,
    -- Whether all jobs that the filter matches were found.
    is_collected      boolean NOT NULL DEFAULT false,
    -- Counted from the jobs in the pools, as of the last count.
    total             bigint NOT NULL DEFAULT 0,
    done              bigint NOT NULL DEFAULT 0,
    refused           bigint NOT NULL DEFAULT 0,
    refusals          jsonb NOT NULL DEFAULT '[]',
    -- False: the action ended, and the last jobs may be missing in the counts.
    is_counted        boolean NOT NULL DEFAULT false,
    -- False: its jobs are still in the pools, for the counts.
    is_cleared        boolean NOT NULL DEFAULT false,
    lease_token       uuid,
    lease_expires_at  timestamptz,
    CHECK ((action = 'set_priority') = (priority IS NOT NULL)),
    CHECK ((state = 'running') = (finished_at IS NULL)),
    CHECK ((state = 'stopped') = (stopped_by IS NOT NULL))
);
CREATE INDEX bulk_actions_with_work ON bulk_actions (lease_expires_at, id) WHERE NOT is_counted;
CREATE INDEX bulk_actions_to_clear ON bulk_actions (finished_at) WHERE is_counted AND NOT is_cleared;
