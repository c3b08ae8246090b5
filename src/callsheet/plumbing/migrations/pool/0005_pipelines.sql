-- Pipelines: what a run makes step by step, and the tree of what it made.
CREATE TABLE pipelines (
    tenant_id    uuid NOT NULL REFERENCES pool_tenants (tenant_id),
    id           uuid NOT NULL,
    user_id      uuid NOT NULL,
    slug         text NOT NULL CHECK (slug ~ '^[a-z0-9][a-z0-9-]{0,62}$'),
    name         text NOT NULL CHECK (name <> ''),
    description  text NOT NULL DEFAULT '',
    -- Which of its steps are in force. A run keeps the version it began with, so steps are never changed, only followed.
    version      integer NOT NULL DEFAULT 1 CHECK (version > 0),
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant_id, id),
    UNIQUE (user_id, slug, tenant_id)
);
CREATE INDEX pipelines_of_user ON pipelines (user_id, id);

CREATE TABLE pipeline_steps (
    tenant_id                uuid NOT NULL,
    id                       uuid NOT NULL,
    pipeline_id              uuid NOT NULL,
    version                  integer NOT NULL CHECK (version > 0),
    -- From 1, without a gap.
    position                 integer NOT NULL CHECK (position > 0),
    name                     text NOT NULL CHECK (name <> ''),
    -- A segment of the paths of its files.
    slug                     text NOT NULL CHECK (slug ~ '^[a-z0-9][a-z0-9-]{0,62}$'),
    workflow                 text NOT NULL,
    -- The effect that says what the workflow costs and who executes it; it lives in central.
    effect_id                uuid NOT NULL,
    -- Values of the workflow's properties that are the same in every run, by key.
    "values"                 jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof("values") = 'object'),
    needs_run_prompt         boolean NOT NULL DEFAULT false,
    needs_parent_image_path  boolean NOT NULL DEFAULT false,
    needs_run_variables      boolean NOT NULL DEFAULT false,
    -- These three are about candidates of this step as parents of the next.
    max_children             integer NOT NULL CHECK (max_children BETWEEN 1 AND 10000),
    top_k                    integer CHECK (top_k > 0),
    requires_approval        boolean NOT NULL DEFAULT false,
    PRIMARY KEY (tenant_id, id),
    UNIQUE (pipeline_id, version, position, tenant_id),
    UNIQUE (pipeline_id, version, slug, tenant_id),
    FOREIGN KEY (tenant_id, pipeline_id) REFERENCES pipelines (tenant_id, id) ON DELETE CASCADE,
    CHECK (position > 1 OR NOT needs_parent_image_path)
);

CREATE TABLE pipeline_runs (
    tenant_id         uuid NOT NULL,
    id                uuid NOT NULL,
    user_id           uuid NOT NULL,
    pipeline_id       uuid NOT NULL,
    pipeline_version  integer NOT NULL,
    -- How many steps it has: candidates of the last one are its leaves.
    steps             integer NOT NULL CHECK (steps > 0),
    name              text NOT NULL CHECK (name <> ''),
    target_folder     text NOT NULL CHECK (target_folder ~ '^[a-z0-9][a-z0-9-]{0,62}$'),
    prompt            text,
    variables         jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(variables) = 'object'),
    strategy          text NOT NULL DEFAULT 'finish_first' CHECK (strategy IN ('finish_first', 'breadth_first')),
    seed              bigint NOT NULL CHECK (seed >= 0),
    -- In place of every step's own.
    max_children      integer CHECK (max_children BETWEEN 1 AND 10000),
    target_leaves     integer NOT NULL CHECK (target_leaves BETWEEN 1 AND 100000),
    -- Jobs at once; where it is null the settings decide.
    concurrency       integer CHECK (concurrency > 0),
    -- Tokens. What was spent is what its jobs hold or have used up: what was refunded is not in it.
    budget            bigint NOT NULL CHECK (budget > 0),
    spent             bigint NOT NULL DEFAULT 0 CHECK (spent >= 0),
    status            text NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'paused', 'completed', 'canceled')),
    -- Why it does not go on: a code for programs and a sentence for people.
    reason            text CHECK (reason <> ''),
    reason_detail     text CHECK (reason_detail <> ''),
    -- How many jobs were begun: the n-th was drawn from RNG(seed, n).
    draws             integer NOT NULL DEFAULT 0 CHECK (draws >= 0),
    candidates        integer NOT NULL DEFAULT 0 CHECK (candidates >= 0),
    -- Times in a row that a job without a parent failed: there is no branch to leave alone.
    base_failures     integer NOT NULL DEFAULT 0 CHECK (base_failures >= 0),
    -- Branches that were left alone without a child since something was last made from a parent. Without this a step that
    -- always fails would have the whole budget spent on new bases.
    dead_branches     integer NOT NULL DEFAULT 0 CHECK (dead_branches >= 0),
    -- When the loop looks at it next; whoever was looked at longest ago comes first.
    due_at            timestamptz NOT NULL DEFAULT clock_timestamp(),
    created_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at          timestamptz,
    PRIMARY KEY (tenant_id, id),
    -- Two runs of a user never write into the same folder.
    UNIQUE (target_folder, tenant_id),
    FOREIGN KEY (tenant_id, pipeline_id) REFERENCES pipelines (tenant_id, id),
    FOREIGN KEY (tenant_id, user_id) REFERENCES token_wallets (tenant_id, user_id),
    CONSTRAINT run_stays_in_its_budget CHECK (spent <= budget),
    CHECK ((status IN ('completed', 'canceled')) = (ended_at IS NOT NULL)),
    CHECK (reason_detail IS NULL OR reason IS NOT NULL)
) WITH (fillfactor = 50);
CREATE INDEX runs_of_user ON pipeline_runs (user_id, id);
CREATE INDEX runs_of_pipeline ON pipeline_runs (pipeline_id, id);
CREATE INDEX runs_due ON pipeline_runs (due_at) WHERE status = 'active';

CREATE TABLE candidates (
    tenant_id          uuid NOT NULL,
    id                 uuid NOT NULL,
    run_id             uuid NOT NULL,
    -- From 1 in the order they were made; at one job at a time the same seed and votes give the same numbers.
    number             integer NOT NULL CHECK (number > 0),
    step_id            uuid NOT NULL,
    -- The step's; deeper in the tree is higher.
    position           integer NOT NULL CHECK (position > 0),
    parent_id          uuid,
    job_id             uuid NOT NULL,
    output_index       integer NOT NULL CHECK (output_index >= 0),
    -- Not a foreign key: what is old may have been deleted.
    file_id            uuid NOT NULL,
    thumbnail_file_id  uuid,
    -- When it is to be made; null once it was, or where it cannot be.
    thumbnail_due_at   timestamptz DEFAULT clock_timestamp(),
    seed               bigint NOT NULL CHECK (seed >= 0),
    -- Whole points, so that a vote that is taken back leaves nothing behind.
    elo                integer NOT NULL DEFAULT 1000 CHECK (elo >= 0),
    votes              integer NOT NULL DEFAULT 0 CHECK (votes >= 0),
    status             text NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'rejected')),
    rejected_at        timestamptz,
    rejected_by        uuid,
    -- The candidate that was killed: this one, or one it descends from.
    rejected_with      uuid,
    -- Candidates that were made from it, and jobs that are about to make some.
    child_count        integer NOT NULL DEFAULT 0 CHECK (child_count >= 0),
    in_flight          integer NOT NULL DEFAULT 0 CHECK (in_flight >= 0),
    slots              integer NOT NULL DEFAULT 0 CHECK (slots >= 0),
    -- N, as it was when the run began; 0 in the last step, so that a leaf is nobody's parent.
    max_children       integer NOT NULL CHECK (max_children >= 0),
    failure_count      integer NOT NULL DEFAULT 0 CHECK (failure_count >= 0),
    created_at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant_id, id),
    UNIQUE (run_id, number, tenant_id),
    UNIQUE (job_id, output_index, tenant_id),
    FOREIGN KEY (tenant_id, run_id) REFERENCES pipeline_runs (tenant_id, id),
    FOREIGN KEY (tenant_id, step_id) REFERENCES pipeline_steps (tenant_id, id),
    FOREIGN KEY (tenant_id, parent_id) REFERENCES candidates (tenant_id, id),
    FOREIGN KEY (tenant_id, job_id) REFERENCES ai_jobs (tenant_id, id),
    CHECK ((position = 1) = (parent_id IS NULL)),
    CHECK ((status = 'rejected') = (rejected_at IS NOT NULL)),
    CHECK (num_nulls(rejected_at, rejected_with) IN (0, 2))
) WITH (fillfactor = 70);
CREATE INDEX children_of_candidate ON candidates (parent_id) WHERE parent_id IS NOT NULL;
CREATE INDEX candidates_of_step ON candidates (run_id, position, number);
-- The best of a step, for winners, pairs and top-K.
CREATE INDEX candidates_by_elo ON candidates (run_id, position, elo DESC, number) INCLUDE (tenant_id)
    WHERE status = 'active';
-- Those that were compared least, for pairs.
CREATE INDEX candidates_by_votes ON candidates (run_id, position, votes, number) WHERE status = 'active';
CREATE INDEX thumbnails_due ON candidates (thumbnail_due_at) WHERE thumbnail_due_at IS NOT NULL;
-- Whom the next job may be made from. Selecting reads this and never the tree.
CREATE INDEX eligible_parents ON candidates (run_id, position, number) INCLUDE (elo, tenant_id)
    WHERE status = 'active' AND child_count + in_flight < max_children AND failure_count < 3;

-- A place in the tree that a job was begun for, written in the transaction that submits it: of two control planes that
-- choose the same, one is refused.
CREATE TABLE candidate_slots (
    tenant_id   uuid NOT NULL,
    run_id      uuid NOT NULL,
    -- RNG(run seed, draw) chose it.
    draw        integer NOT NULL CHECK (draw > 0),
    parent_id   uuid,
    step_id     uuid NOT NULL,
    position    integer NOT NULL CHECK (position > 0),
    ordinal     integer NOT NULL CHECK (ordinal > 0),
    job_id      uuid NOT NULL,
    cost        bigint NOT NULL CHECK (cost >= 0),
    seed        bigint NOT NULL CHECK (seed >= 0),
    -- What the job was built from besides its payload: workflow, prompt, variables, values.
    lineage     jsonb NOT NULL DEFAULT '{}',
    status      text NOT NULL DEFAULT 'open' CHECK (status IN ('open', 'made', 'failed', 'canceled')),
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    settled_at  timestamptz,
    PRIMARY KEY (tenant_id, run_id, draw),
    CONSTRAINT one_job_per_slot UNIQUE NULLS NOT DISTINCT (run_id, parent_id, step_id, ordinal, tenant_id),
    UNIQUE (job_id, tenant_id),
    FOREIGN KEY (tenant_id, run_id) REFERENCES pipeline_runs (tenant_id, id),
    FOREIGN KEY (tenant_id, step_id) REFERENCES pipeline_steps (tenant_id, id),
    FOREIGN KEY (tenant_id, parent_id) REFERENCES candidates (tenant_id, id),
    FOREIGN KEY (tenant_id, job_id) REFERENCES ai_jobs (tenant_id, id),
    CHECK ((position = 1) = (parent_id IS NULL)),
    CHECK ((status = 'open') = (settled_at IS NULL))
) WITH (fillfactor = 70);
CREATE INDEX open_slots ON candidate_slots (run_id) WHERE status = 'open';
CREATE INDEX settled_slots ON candidate_slots (settled_at) WHERE settled_at IS NOT NULL;

CREATE TABLE votes (
    tenant_id    uuid NOT NULL,
    id           uuid NOT NULL,
    run_id       uuid NOT NULL,
    user_id      uuid NOT NULL,
    winner_id    uuid NOT NULL,
    loser_id     uuid NOT NULL,
    -- What the winner gained and the loser lost: an undo gives exactly that back.
    elo_change   integer NOT NULL CHECK (elo_change >= 0),
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    undone_at    timestamptz,
    PRIMARY KEY (tenant_id, id),
    FOREIGN KEY (tenant_id, run_id) REFERENCES pipeline_runs (tenant_id, id),
    FOREIGN KEY (tenant_id, winner_id) REFERENCES candidates (tenant_id, id),
    FOREIGN KEY (tenant_id, loser_id) REFERENCES candidates (tenant_id, id),
    CHECK (winner_id <> loser_id)
);
CREATE INDEX votes_of_run ON votes (run_id, id);
-- A user judges two candidates once, whichever way round, until that is taken back.
CREATE UNIQUE INDEX one_vote_per_pair
    ON votes (user_id, least(winner_id, loser_id), greatest(winner_id, loser_id), tenant_id) WHERE undone_at IS NULL;

-- Steps whose candidates a person has let go on.
CREATE TABLE step_approvals (
    tenant_id    uuid NOT NULL,
    run_id       uuid NOT NULL,
    step_id      uuid NOT NULL,
    user_id      uuid NOT NULL,
    approved_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant_id, run_id, step_id),
    FOREIGN KEY (tenant_id, run_id) REFERENCES pipeline_runs (tenant_id, id),
    FOREIGN KEY (tenant_id, step_id) REFERENCES pipeline_steps (tenant_id, id)
);

ALTER TABLE ai_jobs
    ADD COLUMN run_id               uuid,
    ADD COLUMN step_id              uuid,
    ADD COLUMN parent_candidate_id  uuid,
    ADD CHECK ((run_id IS NULL) = (step_id IS NULL)),
    ADD CHECK (parent_candidate_id IS NULL OR run_id IS NOT NULL);
CREATE INDEX jobs_of_run ON ai_jobs (run_id, id) WHERE run_id IS NOT NULL;

-- Whether the slot that was chosen can still be filled; otherwise why not. Volatile on purpose, like active_jobs: called
-- after the wallet's lock, it takes the run's and the parent's, and sees what was committed meanwhile. `the_draw` is the
-- fence: whoever chose before somebody else's job was begun is refused.
CREATE FUNCTION slot_refused(
    the_tenant uuid, the_user uuid, the_run uuid, the_parent uuid, the_draw integer, the_cost bigint,
    per_run integer, in_total integer
) RETURNS text LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    run pipeline_runs%ROWTYPE;
    most integer;
BEGIN
    SELECT * INTO run FROM pipeline_runs WHERE tenant_id = the_tenant AND id = the_run FOR NO KEY UPDATE;
    IF NOT FOUND OR run.user_id <> the_user OR run.status <> 'active' THEN
        RETURN 'run_not_active';
    END IF;
    IF run.draws + 1 <> the_draw THEN
        RETURN 'overtaken';
    END IF;
    IF run.spent + the_cost > run.budget THEN
        RETURN 'budget_spent';
    END IF;
    IF the_parent IS NOT NULL THEN
        PERFORM FROM candidates
            WHERE tenant_id = the_tenant AND id = the_parent AND run_id = the_run AND status = 'active'
              AND child_count + in_flight < max_children AND failure_count < 3
            FOR NO KEY UPDATE;
        IF NOT FOUND THEN
            RETURN 'parent_not_eligible';
        END IF;
    END IF;
    -- Between runs: counted one after the other, in this database.
    PERFORM pg_advisory_xact_lock(hashtextextended('pipelines.in_total', 0));
    most := least(per_run, coalesce(run.concurrency, per_run));
    IF (SELECT count(*) FROM (
            SELECT FROM candidate_slots WHERE run_id = the_run AND status = 'open' LIMIT most) slot) >= most
        OR (SELECT count(*) FROM (SELECT FROM candidate_slots WHERE status = 'open' LIMIT in_total) slot) >= in_total
    THEN
        RETURN 'at_capacity';
    END IF;
    RETURN NULL;
END $$;
