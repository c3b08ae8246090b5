-- Pipelines, what a run of them makes step by step, and the tree of what it made.

CREATE TABLE pipelines (
    tenant_id      uuid NOT NULL,
    id             uuid NOT NULL,
    user_id        uuid NOT NULL,
    slug           text NOT NULL,
    name           text NOT NULL,
    description    text NOT NULL DEFAULT '',
    version        integer NOT NULL DEFAULT 1,
    created_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    counted_bytes  bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant_id, id),
    CONSTRAINT one_pipeline_per_slug UNIQUE (user_id, slug, tenant_id),
    CONSTRAINT tenant_is_in_this_pool FOREIGN KEY (tenant_id) REFERENCES pool_tenants (tenant_id),
    CONSTRAINT slug_is_valid CHECK (slug ~ '^[a-z0-9][a-z0-9-]{0,62}$'),
    CONSTRAINT name_is_not_empty CHECK (name <> ''),
    CONSTRAINT version_is_positive CHECK (version > 0)
);
COMMENT ON TABLE pipelines IS 'A sequence of steps that a user designed.';
COMMENT ON COLUMN pipelines.version IS
    'The version of its steps that new runs get. A run keeps its version, so steps are never changed: a change adds new '
    'ones.';
COMMENT ON COLUMN pipelines.counted_bytes IS 'Bytes of its steps that count for the user in `database_usage`.';
CREATE INDEX pipelines_of_user ON pipelines (user_id, id);
CREATE TRIGGER bytes_added AFTER INSERT ON pipelines
    FOR EACH ROW WHEN (NEW.counted_bytes > 0) EXECUTE FUNCTION database_usage_follow();
CREATE TRIGGER bytes_changed AFTER UPDATE OF counted_bytes ON pipelines
    FOR EACH ROW WHEN (OLD.counted_bytes <> NEW.counted_bytes) EXECUTE FUNCTION database_usage_follow();
CREATE TRIGGER bytes_removed AFTER DELETE ON pipelines
    FOR EACH ROW WHEN (OLD.counted_bytes > 0) EXECUTE FUNCTION database_usage_follow();

CREATE TABLE step_documents (
    tenant_id    uuid NOT NULL,
    pipeline_id  uuid NOT NULL,
    digest       bytea NOT NULL,
    payload      jsonb,
    "values"     jsonb NOT NULL,
    PRIMARY KEY (pipeline_id, digest, tenant_id),
    CONSTRAINT pipeline_exists FOREIGN KEY (tenant_id, pipeline_id) REFERENCES pipelines (tenant_id, id)
        ON DELETE CASCADE,
    CONSTRAINT digest_is_sha256 CHECK (octet_length(digest) = 32),
    CONSTRAINT payload_is_an_object CHECK (jsonb_typeof(payload) = 'object'),
    CONSTRAINT values_is_an_object CHECK (jsonb_typeof("values") = 'object')
);
COMMENT ON TABLE step_documents IS
    'Payload and values of a step. Versions of a pipeline share those of steps that they have in common: if each version '
    'had its own, 30 changes of a pipeline with 50 steps would take 34 MB.';
COMMENT ON COLUMN step_documents.digest IS 'SHA-256 of the JSON of both.';
COMMENT ON COLUMN step_documents.payload IS 'The payload of an actor, with placeholders. NULL: the step has an effect.';
COMMENT ON COLUMN step_documents."values" IS
    'Values of the properties of the workflow that are the same in every run, by key.';

CREATE TABLE pipeline_steps (
    tenant_id                uuid NOT NULL,
    id                       uuid NOT NULL,
    pipeline_id              uuid NOT NULL,
    version                  integer NOT NULL,
    position                 integer NOT NULL,
    name                     text NOT NULL,
    slug                     text NOT NULL,
    workflow                 text NOT NULL,
    effect_id                uuid,
    document                 bytea NOT NULL,
    needs_run_prompt         boolean NOT NULL DEFAULT false,
    needs_parent_image_path  boolean NOT NULL DEFAULT false,
    needs_run_variables      boolean NOT NULL DEFAULT false,
    max_children             integer NOT NULL,
    top_k                    integer,
    requires_approval        boolean NOT NULL DEFAULT false,
    PRIMARY KEY (tenant_id, id),
    CONSTRAINT one_step_per_position UNIQUE (pipeline_id, version, position, tenant_id),
    CONSTRAINT one_step_per_slug UNIQUE (pipeline_id, version, slug, tenant_id),
    CONSTRAINT pipeline_exists FOREIGN KEY (tenant_id, pipeline_id) REFERENCES pipelines (tenant_id, id)
        ON DELETE CASCADE,
    CONSTRAINT document_exists FOREIGN KEY (pipeline_id, document, tenant_id)
        REFERENCES step_documents (pipeline_id, digest, tenant_id) ON DELETE CASCADE,
    CONSTRAINT version_is_positive CHECK (version > 0),
    CONSTRAINT position_is_positive CHECK (position > 0),
    CONSTRAINT name_is_not_empty CHECK (name <> ''),
    CONSTRAINT slug_is_valid CHECK (slug ~ '^[a-z0-9][a-z0-9-]{0,62}$'),
    CONSTRAINT effect_or_actor CHECK ((effect_id IS NULL) = (workflow LIKE 'actor:%')),
    CONSTRAINT first_step_has_no_parent CHECK (position > 1 OR NOT needs_parent_image_path),
    CONSTRAINT max_children_is_in_range CHECK (max_children BETWEEN 1 AND 10000),
    CONSTRAINT top_k_is_positive CHECK (top_k > 0)
);
COMMENT ON TABLE pipeline_steps IS 'A step of one version of a pipeline.';
COMMENT ON COLUMN pipeline_steps.position IS 'From 1, without a gap.';
COMMENT ON COLUMN pipeline_steps.slug IS 'A segment of the paths of its files.';
COMMENT ON COLUMN pipeline_steps.workflow IS 'Slug of the workflow, or `actor:NAME`.';
COMMENT ON COLUMN pipeline_steps.effect_id IS
    'The effect, in central, that says what a job costs and who executes it. NULL: an actor, whose price is in the '
    'settings.';
COMMENT ON COLUMN pipeline_steps.document IS 'Payload and values of the step, in `step_documents`.';
COMMENT ON COLUMN pipeline_steps.max_children IS 'Most candidates of the next step from one candidate of this step.';
COMMENT ON COLUMN pipeline_steps.top_k IS 'Only the best candidates of this step get children. NULL: all.';
COMMENT ON COLUMN pipeline_steps.requires_approval IS
    'Whether a person must approve the step before its candidates get children.';

CREATE VIEW declared_steps AS
SELECT s.tenant_id, s.id, s.pipeline_id, s.version, s.position, s.name, s.slug, s.workflow, s.effect_id, d.payload,
    d."values", s.needs_run_prompt, s.needs_parent_image_path, s.needs_run_variables, s.max_children, s.top_k,
    s.requires_approval
FROM pipeline_steps s
JOIN step_documents d ON d.pipeline_id = s.pipeline_id AND d.digest = s.document AND d.tenant_id = s.tenant_id;
COMMENT ON VIEW declared_steps IS 'Steps with their payloads and values, for every reader.';

CREATE TABLE pipeline_runs (
    tenant_id         uuid NOT NULL,
    id                uuid NOT NULL,
    user_id           uuid NOT NULL,
    pipeline_id       uuid NOT NULL,
    pipeline_version  integer NOT NULL,
    steps             integer NOT NULL,
    name              text NOT NULL,
    target_folder     text NOT NULL,
    prompt            text,
    variables         jsonb NOT NULL DEFAULT '{}',
    strategy          text NOT NULL DEFAULT 'finish_first',
    seed              bigint NOT NULL,
    max_children      integer,
    target_leaves     integer NOT NULL,
    concurrency       integer,
    budget            bigint NOT NULL,
    spent             bigint NOT NULL DEFAULT 0,
    status            text NOT NULL DEFAULT 'active',
    reason            text,
    reason_detail     text,
    draws             integer NOT NULL DEFAULT 0,
    candidates        integer NOT NULL DEFAULT 0,
    base_failures     integer NOT NULL DEFAULT 0,
    dead_branches     integer NOT NULL DEFAULT 0,
    due_at            timestamptz NOT NULL DEFAULT clock_timestamp(),
    created_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at          timestamptz,
    idempotency_key   text,
    request_hash      bytea,
    request_fields    jsonb,
    client_reference  text,
    metadata          jsonb,
    key_id            uuid,
    active_bases      integer NOT NULL DEFAULT 0,
    strikes           integer NOT NULL DEFAULT 3,
    deleted_at        timestamptz,
    counted_bytes     bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant_id, id),
    -- Two runs of a tenant never write into the same folder.
    CONSTRAINT one_run_per_folder UNIQUE (target_folder, tenant_id),
    CONSTRAINT pipeline_exists FOREIGN KEY (tenant_id, pipeline_id) REFERENCES pipelines (tenant_id, id),
    CONSTRAINT wallet_exists FOREIGN KEY (tenant_id, user_id) REFERENCES token_wallets (tenant_id, owner_id),
    CONSTRAINT steps_are_positive CHECK (steps > 0),
    CONSTRAINT name_is_not_empty CHECK (name <> ''),
    CONSTRAINT target_folder_is_valid CHECK (target_folder ~ '^[a-z0-9][a-z0-9-]{0,62}$'),
    CONSTRAINT variables_is_an_object CHECK (jsonb_typeof(variables) = 'object'),
    CONSTRAINT strategy_is_known CHECK (strategy IN ('finish_first', 'breadth_first')),
    CONSTRAINT seed_is_not_negative CHECK (seed >= 0),
    CONSTRAINT max_children_is_in_range CHECK (max_children BETWEEN 1 AND 10000),
    CONSTRAINT target_leaves_are_in_range CHECK (target_leaves BETWEEN 1 AND 100000),
    CONSTRAINT concurrency_is_positive CHECK (concurrency > 0),
    CONSTRAINT budget_is_positive CHECK (budget > 0),
    CONSTRAINT spent_is_not_negative CHECK (spent >= 0),
    CONSTRAINT run_stays_in_its_budget CHECK (spent <= budget),
    CONSTRAINT status_is_known CHECK (status IN ('active', 'paused', 'completed', 'canceled')),
    CONSTRAINT reason_is_not_empty CHECK (reason <> ''),
    CONSTRAINT reason_detail_is_not_empty CHECK (reason_detail <> ''),
    CONSTRAINT detail_needs_a_reason CHECK (reason_detail IS NULL OR reason IS NOT NULL),
    CONSTRAINT draws_are_not_negative CHECK (draws >= 0),
    CONSTRAINT candidates_are_not_negative CHECK (candidates >= 0),
    CONSTRAINT base_failures_are_not_negative CHECK (base_failures >= 0),
    CONSTRAINT dead_branches_are_not_negative CHECK (dead_branches >= 0),
    CONSTRAINT active_bases_are_not_negative CHECK (active_bases >= 0),
    CONSTRAINT strikes_are_positive CHECK (strikes > 0),
    CONSTRAINT ended_means_a_time CHECK ((status IN ('completed', 'canceled')) = (ended_at IS NOT NULL)),
    CONSTRAINT idempotency_key_is_not_empty CHECK (idempotency_key <> ''),
    CONSTRAINT client_reference_is_a_line CHECK (client_reference ~ '^[^\x01-\x1f\x7f]{1,200}$'),
    CONSTRAINT metadata_is_a_small_object CHECK (
        jsonb_typeof(metadata) = 'object' AND octet_length(metadata::text) <= 8192),
    CONSTRAINT run_key_has_its_request CHECK ((idempotency_key IS NULL) = (request_hash IS NULL)),
    CONSTRAINT fields_need_a_request CHECK (request_fields IS NULL OR request_hash IS NOT NULL),
    CONSTRAINT only_ended_runs_are_deleted CHECK (deleted_at IS NULL OR ended_at IS NOT NULL)
) WITH (fillfactor = 50);
COMMENT ON TABLE pipeline_runs IS
    'A run of a pipeline, which submits jobs by itself until it has its leaves. What a choice needs is counted in this '
    'row as it changes.';
COMMENT ON COLUMN pipeline_runs.steps IS 'Number of steps. Candidates of the last one are its leaves.';
COMMENT ON COLUMN pipeline_runs.max_children IS 'Replaces that of every step.';
COMMENT ON COLUMN pipeline_runs.concurrency IS 'Jobs at once. NULL: as in the settings.';
COMMENT ON COLUMN pipeline_runs.budget IS 'Tokens.';
COMMENT ON COLUMN pipeline_runs.spent IS 'Tokens that its jobs hold or have used up, without what was refunded.';
COMMENT ON COLUMN pipeline_runs.reason IS
    'Why it does not continue: a code for programs. `reason_detail` is the sentence for people.';
COMMENT ON COLUMN pipeline_runs.draws IS 'Jobs that were started. The n-th was drawn from RNG(seed, n).';
COMMENT ON COLUMN pipeline_runs.base_failures IS 'Failures in a row of jobs without a parent.';
COMMENT ON COLUMN pipeline_runs.dead_branches IS
    'Branches that were given up without a child since a job last made something from a parent. Without this, a step '
    'that always fails would spend the whole budget on new bases.';
COMMENT ON COLUMN pipeline_runs.due_at IS 'When the loop continues the run. The longest due run comes first.';
COMMENT ON COLUMN pipeline_runs.client_reference IS 'What the client calls the run, for example the number of an order.';
COMMENT ON COLUMN pipeline_runs.metadata IS 'Texts of the client, by key.';
COMMENT ON COLUMN pipeline_runs.request_fields IS
    'A short hash of each field of that request, to say which fields of another request differ. Ids are not hashed.';
COMMENT ON COLUMN pipeline_runs.request_hash IS
    'Hash of the request with the idempotency key: the same key for another request is refused.';
COMMENT ON COLUMN pipeline_runs.active_bases IS
    'Active candidates of the first step. To count 100,000 of them for each job took 13 ms.';
COMMENT ON COLUMN pipeline_runs.strikes IS
    'After how many failures the run gives up: of one candidate, of jobs of the first step in a row, of branches without '
    'a child. As in the settings when the run started.';
COMMENT ON COLUMN pipeline_runs.deleted_at IS
    'When its user or the retention deleted the run: no user sees it any more. A loop removes its files, candidates and '
    'votes in batches, then its row.';
COMMENT ON COLUMN pipeline_runs.counted_bytes IS 'Bytes of JSON that count for the user in `database_usage`.';

CREATE INDEX runs_of_user ON pipeline_runs (user_id, id);
CREATE INDEX runs_of_pipeline ON pipeline_runs (pipeline_id, id);
CREATE UNIQUE INDEX one_run_per_key ON pipeline_runs (idempotency_key, tenant_id, user_id);
CREATE INDEX active_runs_of_user ON pipeline_runs (user_id) INCLUDE (tenant_id) WHERE status = 'active';
-- Only for statements that compare its key, like deadlines_of_active_jobs.
CREATE INDEX active_runs_due ON pipeline_runs (due_at) WHERE status = 'active' AND due_at IS NOT NULL;
-- Runs to remove, and runs that are old enough.
CREATE INDEX deleted_runs ON pipeline_runs (due_at) WHERE deleted_at IS NOT NULL;
CREATE INDEX ended_runs ON pipeline_runs (ended_at) WHERE ended_at IS NOT NULL AND deleted_at IS NULL;
-- Runs that stopped because their jobs failed, by the time at which they stopped: operators get an alert for each.
CREATE INDEX stopped_runs ON pipeline_runs (due_at)
    WHERE status = 'paused' AND reason IN ('base_failed', 'branches_failed');

CREATE TRIGGER bytes_added AFTER INSERT ON pipeline_runs
    FOR EACH ROW WHEN (NEW.counted_bytes > 0) EXECUTE FUNCTION database_usage_follow();
CREATE TRIGGER bytes_removed AFTER DELETE ON pipeline_runs
    FOR EACH ROW WHEN (OLD.counted_bytes > 0) EXECUTE FUNCTION database_usage_follow();

CREATE TABLE candidates (
    tenant_id          uuid NOT NULL,
    id                 uuid NOT NULL,
    run_id             uuid NOT NULL,
    number             integer NOT NULL,
    step_id            uuid NOT NULL,
    position           integer NOT NULL,
    parent_id          uuid,
    job_id             uuid NOT NULL,
    output_index       integer NOT NULL,
    file_id            uuid NOT NULL,
    thumbnail_file_id  uuid,
    thumbnail_due_at   timestamptz DEFAULT clock_timestamp(),
    seed               bigint NOT NULL,
    elo                integer NOT NULL DEFAULT 1000,
    votes              integer NOT NULL DEFAULT 0,
    status             text NOT NULL DEFAULT 'active',
    rejected_at        timestamptz,
    rejected_by        uuid,
    rejected_with      uuid,
    child_count        integer NOT NULL DEFAULT 0,
    in_flight          integer NOT NULL DEFAULT 0,
    slots              integer NOT NULL DEFAULT 0,
    max_children       integer NOT NULL,
    failure_count      integer NOT NULL DEFAULT 0,
    created_at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    strikes            integer NOT NULL DEFAULT 3,
    PRIMARY KEY (tenant_id, id),
    CONSTRAINT one_candidate_per_number UNIQUE (run_id, number, tenant_id),
    CONSTRAINT one_candidate_per_output UNIQUE (job_id, output_index, tenant_id),
    CONSTRAINT run_exists FOREIGN KEY (tenant_id, run_id) REFERENCES pipeline_runs (tenant_id, id),
    CONSTRAINT step_exists FOREIGN KEY (tenant_id, step_id) REFERENCES pipeline_steps (tenant_id, id),
    CONSTRAINT parent_exists FOREIGN KEY (tenant_id, parent_id) REFERENCES candidates (tenant_id, id),
    CONSTRAINT job_exists FOREIGN KEY (tenant_id, job_id) REFERENCES ai_jobs (tenant_id, id),
    CONSTRAINT number_is_positive CHECK (number > 0),
    CONSTRAINT position_is_positive CHECK (position > 0),
    CONSTRAINT output_index_is_not_negative CHECK (output_index >= 0),
    CONSTRAINT seed_is_not_negative CHECK (seed >= 0),
    CONSTRAINT elo_is_not_negative CHECK (elo >= 0),
    CONSTRAINT votes_are_not_negative CHECK (votes >= 0),
    CONSTRAINT status_is_known CHECK (status IN ('active', 'rejected')),
    CONSTRAINT child_count_is_not_negative CHECK (child_count >= 0),
    CONSTRAINT in_flight_is_not_negative CHECK (in_flight >= 0),
    CONSTRAINT slots_are_not_negative CHECK (slots >= 0),
    CONSTRAINT max_children_is_not_negative CHECK (max_children >= 0),
    CONSTRAINT failure_count_is_not_negative CHECK (failure_count >= 0),
    CONSTRAINT strikes_are_positive CHECK (strikes > 0),
    CONSTRAINT first_step_means_no_parent CHECK ((position = 1) = (parent_id IS NULL)),
    CONSTRAINT rejected_means_a_time CHECK ((status = 'rejected') = (rejected_at IS NOT NULL)),
    CONSTRAINT rejection_is_whole CHECK (num_nulls(rejected_at, rejected_with) IN (0, 2))
) WITH (fillfactor = 70);
COMMENT ON TABLE candidates IS 'A result of a step in a run, and a node in the tree of the run.';
COMMENT ON COLUMN candidates.number IS
    'From 1 in the order in which they were made. With one job at a time, the same seed and votes give the same numbers.';
COMMENT ON COLUMN candidates.position IS 'Position of the step.';
COMMENT ON COLUMN candidates.file_id IS 'Not a foreign key: an old file may have been deleted.';
COMMENT ON COLUMN candidates.thumbnail_due_at IS 'When the thumbnail is to be made. NULL: it exists, or cannot be made.';
COMMENT ON COLUMN candidates.elo IS 'Whole points, so that a vote that is undone leaves nothing behind.';
COMMENT ON COLUMN candidates.votes IS 'Votes that compared it with another candidate.';
COMMENT ON COLUMN candidates.rejected_with IS 'The candidate that was rejected: this one, or one that it descends from.';
COMMENT ON COLUMN candidates.child_count IS 'Candidates that were made from it.';
COMMENT ON COLUMN candidates.in_flight IS 'Jobs that are making more.';
COMMENT ON COLUMN candidates.slots IS 'Jobs that were ever started from it.';
COMMENT ON COLUMN candidates.max_children IS 'As it was when the run started. 0 in the last step.';
COMMENT ON COLUMN candidates.failure_count IS 'Jobs from it that failed.';
COMMENT ON COLUMN candidates.strikes IS 'Like that of the run, here for the index.';

CREATE INDEX children_of_candidate ON candidates (parent_id) WHERE parent_id IS NOT NULL;
CREATE INDEX candidates_of_step ON candidates (run_id, position, number);
-- The best of a step, for winners, pairs and top-K.
CREATE INDEX candidates_by_elo ON candidates (run_id, position, elo DESC, number) INCLUDE (tenant_id)
    WHERE status = 'active';
-- Those that were compared least, for pairs.
CREATE INDEX candidates_by_votes ON candidates (run_id, position, votes, number) WHERE status = 'active';
CREATE INDEX thumbnails_due ON candidates (thumbnail_due_at) WHERE thumbnail_due_at IS NOT NULL;
-- Candidates that a job was started from: where only the best of a step get children, they are counted first.
CREATE INDEX started_parents ON candidates (run_id, position, number) INCLUDE (tenant_id)
    WHERE status = 'active' AND slots > 0;
-- For people who list what was rejected, of which there may be little in a large run, and for counting it.
CREATE INDEX rejected_candidates ON candidates (run_id, number) INCLUDE (position, tenant_id) WHERE status = 'rejected';
-- Candidates from which the next job may start. The selection reads this and never the tree.
CREATE INDEX eligible_parents ON candidates (run_id, position, number) INCLUDE (elo, tenant_id)
    WHERE status = 'active' AND child_count + in_flight < max_children AND failure_count < strikes;

-- Jobs for this parent have failed so often that no other is started for it.
CREATE FUNCTION candidate_has_failed(candidate candidates) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT candidate.failure_count >= candidate.strikes
$$;

-- Another job may be started for this parent. The planner replaces a call by the expression in it, so the partial index
-- eligible_parents serves the function: a new version of it needs a new index. Where candidates are read in another order,
-- for example by ELO, a statement names a part of the condition only, or the planner takes that index and sorts.
CREATE FUNCTION candidate_is_eligible(candidate candidates) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT candidate.status = 'active' AND candidate.child_count + candidate.in_flight < candidate.max_children
        AND candidate.failure_count < candidate.strikes
$$;

CREATE TABLE candidate_slots (
    tenant_id   uuid NOT NULL,
    run_id      uuid NOT NULL,
    draw        integer NOT NULL,
    parent_id   uuid,
    step_id     uuid NOT NULL,
    position    integer NOT NULL,
    ordinal     integer NOT NULL,
    job_id      uuid NOT NULL,
    cost        bigint NOT NULL,
    seed        bigint NOT NULL,
    lineage     jsonb NOT NULL DEFAULT '{}',
    status      text NOT NULL DEFAULT 'open',
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    settled_at  timestamptz,
    PRIMARY KEY (tenant_id, run_id, draw),
    CONSTRAINT one_job_per_slot UNIQUE NULLS NOT DISTINCT (run_id, parent_id, step_id, ordinal, tenant_id),
    CONSTRAINT one_slot_per_job UNIQUE (job_id, tenant_id),
    CONSTRAINT run_exists FOREIGN KEY (tenant_id, run_id) REFERENCES pipeline_runs (tenant_id, id),
    CONSTRAINT step_exists FOREIGN KEY (tenant_id, step_id) REFERENCES pipeline_steps (tenant_id, id),
    CONSTRAINT parent_exists FOREIGN KEY (tenant_id, parent_id) REFERENCES candidates (tenant_id, id),
    CONSTRAINT job_exists FOREIGN KEY (tenant_id, job_id) REFERENCES ai_jobs (tenant_id, id),
    CONSTRAINT draw_is_positive CHECK (draw > 0),
    CONSTRAINT position_is_positive CHECK (position > 0),
    CONSTRAINT ordinal_is_positive CHECK (ordinal > 0),
    CONSTRAINT cost_is_not_negative CHECK (cost >= 0),
    CONSTRAINT seed_is_not_negative CHECK (seed >= 0),
    CONSTRAINT status_is_known CHECK (status IN ('open', 'made', 'failed', 'canceled')),
    CONSTRAINT first_step_means_no_parent CHECK ((position = 1) = (parent_id IS NULL)),
    CONSTRAINT open_means_not_settled CHECK ((status = 'open') = (settled_at IS NULL))
) WITH (fillfactor = 70);
COMMENT ON TABLE candidate_slots IS
    'A place in the tree that a job was started for. It is written in the transaction that submits the job: of two '
    'control planes that choose the same place, one is refused.';
COMMENT ON COLUMN candidate_slots.draw IS 'RNG(seed of the run, draw) chose it.';
COMMENT ON COLUMN candidate_slots.ordinal IS 'Number among the jobs of this parent and step.';
COMMENT ON COLUMN candidate_slots.lineage IS
    'What the job was built from besides its payload: workflow, prompt, variables, values.';
CREATE INDEX settled_slots ON candidate_slots (settled_at) WHERE settled_at IS NOT NULL;
CREATE INDEX open_slots ON candidate_slots (run_id) WHERE status = 'open';
-- Jobs of runs are counted per tenant. Only for statements that compare its key, like deadlines_of_active_jobs.
CREATE INDEX tenants_of_open_slots ON candidate_slots (tenant_id)
    WHERE status = 'open' AND tenant_id IS NOT NULL;
-- For the foreign key of removed candidates: without it, each would be searched in all slots.
CREATE INDEX slots_of_parent ON candidate_slots (parent_id) WHERE parent_id IS NOT NULL;

CREATE TABLE run_replays (
    tenant_id     uuid NOT NULL,
    job_id        uuid NOT NULL,
    charge_cycle  integer NOT NULL,
    run_id        uuid NOT NULL,
    position      integer NOT NULL,
    cost          bigint NOT NULL,
    created_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    settled_at    timestamptz,
    PRIMARY KEY (job_id, charge_cycle, tenant_id),
    CONSTRAINT run_exists FOREIGN KEY (tenant_id, run_id) REFERENCES pipeline_runs (tenant_id, id) ON DELETE CASCADE,
    CONSTRAINT job_exists FOREIGN KEY (tenant_id, job_id) REFERENCES ai_jobs (tenant_id, id),
    CONSTRAINT charge_cycle_is_positive CHECK (charge_cycle > 0),
    CONSTRAINT position_is_positive CHECK (position > 0),
    CONSTRAINT cost_is_not_negative CHECK (cost >= 0)
);
COMMENT ON TABLE run_replays IS
    'One charge cycle of a replay: a job that makes a candidate again. The run has spent its cost until it is settled, '
    'and what was not refunded afterwards.';
COMMENT ON COLUMN run_replays.position IS 'Position of the step whose candidate is made again.';
CREATE INDEX replays_of_run ON run_replays (run_id);
CREATE INDEX open_replays ON run_replays (job_id) WHERE settled_at IS NULL;

-- For jobs: why a job may not be submitted for a run, or NULL. Locks the run and the parent. VOLATILE on purpose: it is
-- called after the wallet is locked, and sees rows that other transactions have committed since the statement started.
-- `draw` is the fence: a choice that was made before another job of the run was started is refused. A slot with
-- `replays` is not a place in the tree: only the budget limits it.
CREATE FUNCTION slot_refusal(the_tenant uuid, the_user uuid, the_cost bigint, slot jsonb) RETURNS text
    LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    the_run uuid := slot ->> 'run_id';
    the_parent uuid := slot ->> 'parent_id';
    in_total integer := slot ->> 'in_total';
    run pipeline_runs%ROWTYPE;
    per_run integer;
BEGIN
    SELECT * INTO run FROM pipeline_runs WHERE tenant_id = the_tenant AND id = the_run FOR NO KEY UPDATE;
    IF slot ? 'replays' THEN
        IF NOT FOUND OR run.user_id <> the_user THEN
            RETURN 'no_run';
        END IF;
        RETURN CASE WHEN run.spent + the_cost > run.budget THEN 'budget_spent' END;
    END IF;
    IF NOT FOUND OR run.user_id <> the_user OR run.status <> 'active' THEN
        RETURN 'run_not_active';
    END IF;
    IF run.draws + 1 <> (slot ->> 'draw')::integer THEN
        RETURN 'overtaken';
    END IF;
    IF run.spent + the_cost > run.budget THEN
        RETURN 'budget_spent';
    END IF;
    IF the_parent IS NOT NULL THEN
        PERFORM FROM candidates c
            WHERE c.tenant_id = the_tenant AND c.id = the_parent AND c.run_id = the_run AND candidate_is_eligible(c)
            FOR NO KEY UPDATE;
        IF NOT FOUND THEN
            RETURN 'parent_not_eligible';
        END IF;
    END IF;
    -- Jobs of one tenant's runs are counted one after the other.
    PERFORM pg_advisory_xact_lock(hashtextextended('pipelines.in_total ' || the_tenant, 0));
    per_run := least((slot ->> 'per_run')::integer, run.concurrency);
    IF (SELECT count(*) FROM (
            SELECT FROM candidate_slots WHERE run_id = the_run AND status = 'open' LIMIT per_run) open_slot) >= per_run
    THEN
        RETURN 'at_capacity';
    END IF;
    IF (SELECT count(*) FROM (
            SELECT FROM candidate_slots WHERE tenant_id = the_tenant AND status = 'open' LIMIT in_total) open_slot
        ) >= in_total
    THEN
        RETURN 'tenant_at_capacity';
    END IF;
    RETURN NULL;
END $$;

-- For jobs: a job is submitted for a run, after slot_refusal found no reason against it.
CREATE FUNCTION slot_take(the_tenant uuid, the_job uuid, the_cost bigint, slot jsonb) RETURNS void
    LANGUAGE plpgsql AS $$
DECLARE
    the_run uuid := slot ->> 'run_id';
    the_parent uuid := slot ->> 'parent_id';
BEGIN
    IF slot ? 'replays' THEN
        PERFORM replay_take(the_tenant, the_job, 1, the_run, (slot ->> 'replays')::integer, the_cost);
        RETURN;
    END IF;
    INSERT INTO candidate_slots (tenant_id, run_id, draw, parent_id, step_id, position, ordinal, job_id, cost, seed, lineage)
    SELECT the_tenant, the_run, s.draw, the_parent, s.step_id, s.position, s.ordinal, the_job, the_cost, s.seed, s.lineage
    FROM jsonb_to_record(slot) AS s (
        draw integer, step_id uuid, position integer, ordinal integer, seed bigint, lineage jsonb);
    UPDATE pipeline_runs SET draws = draws + 1, spent = spent + the_cost, reason = NULL, reason_detail = NULL,
        updated_at = clock_timestamp()
    WHERE tenant_id = the_tenant AND id = the_run;
    IF the_parent IS NOT NULL THEN
        UPDATE candidates SET in_flight = in_flight + 1, slots = slots + 1
        WHERE tenant_id = the_tenant AND id = the_parent;
    END IF;
END $$;

-- A charge cycle of a replay starts. The constraint run_stays_in_its_budget refuses it if the budget is spent.
CREATE FUNCTION replay_take(
    the_tenant uuid, the_job uuid, the_cycle integer, the_run uuid, the_position integer, the_cost bigint
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE pipeline_runs SET spent = spent + the_cost, updated_at = clock_timestamp()
    WHERE tenant_id = the_tenant AND id = the_run;
    INSERT INTO run_replays (tenant_id, job_id, charge_cycle, run_id, position, cost)
    VALUES (the_tenant, the_job, the_cycle, the_run, the_position, the_cost);
END $$;

-- A charge cycle of a replay has ended. Refunded tokens are not spent any more, so the run may continue.
CREATE FUNCTION replay_settle(the_tenant uuid, the_job uuid, the_cycle integer) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    the_run uuid;
BEGIN
    -- The run is locked first, as everywhere.
    SELECT run_id INTO the_run FROM run_replays
    WHERE tenant_id = the_tenant AND job_id = the_job AND charge_cycle = the_cycle AND settled_at IS NULL;
    PERFORM FROM pipeline_runs WHERE tenant_id = the_tenant AND id = the_run FOR NO KEY UPDATE;
    UPDATE run_replays SET settled_at = clock_timestamp()
    WHERE tenant_id = the_tenant AND job_id = the_job AND charge_cycle = the_cycle AND settled_at IS NULL;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    UPDATE pipeline_runs SET spent = spent - wallet_refunded(the_tenant, the_job, the_cycle),
        due_at = CASE WHEN status = 'active' THEN clock_timestamp() ELSE due_at END, updated_at = clock_timestamp()
    WHERE tenant_id = the_tenant AND id = the_run;
    RETURN true;
END $$;

-- For jobs: a job was retried. If it is a replay, its next charge cycle counts, too.
CREATE FUNCTION replay_retry(the_tenant uuid, the_job uuid, the_cycle integer, the_cost bigint) RETURNS void
    LANGUAGE plpgsql AS $$
DECLARE
    earlier run_replays%ROWTYPE;
BEGIN
    SELECT * INTO earlier FROM run_replays
    WHERE tenant_id = the_tenant AND job_id = the_job AND charge_cycle = the_cycle - 1;
    IF FOUND THEN
        PERFORM replay_settle(the_tenant, the_job, the_cycle - 1);
        PERFORM replay_take(the_tenant, the_job, the_cycle, earlier.run_id, earlier.position, the_cost);
    END IF;
END $$;

CREATE TABLE votes (
    tenant_id    uuid NOT NULL,
    id           uuid NOT NULL,
    run_id       uuid NOT NULL,
    user_id      uuid NOT NULL,
    winner_id    uuid NOT NULL,
    loser_id     uuid NOT NULL,
    elo_change   integer NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    undone_at    timestamptz,
    verdict      text NOT NULL DEFAULT 'winner',
    both_change  integer NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant_id, id),
    CONSTRAINT run_exists FOREIGN KEY (tenant_id, run_id) REFERENCES pipeline_runs (tenant_id, id),
    CONSTRAINT winner_exists FOREIGN KEY (tenant_id, winner_id) REFERENCES candidates (tenant_id, id),
    CONSTRAINT loser_exists FOREIGN KEY (tenant_id, loser_id) REFERENCES candidates (tenant_id, id),
    CONSTRAINT two_candidates CHECK (winner_id <> loser_id),
    CONSTRAINT elo_change_is_not_negative CHECK (elo_change >= 0),
    CONSTRAINT verdict_is_known CHECK (verdict IN ('winner', 'both', 'neither')),
    CONSTRAINT verdict_says_who_moves CHECK (
        verdict = 'winner' AND both_change = 0 OR verdict = 'both' AND both_change >= 0 AND elo_change = 0
        OR verdict = 'neither' AND both_change <= 0 AND elo_change = 0)
);
COMMENT ON TABLE votes IS 'A comparison of two candidates by a user.';
COMMENT ON COLUMN votes.verdict IS
    'winner: the winner is better. both, neither: both are good or bad, and the two candidates are in any order.';
COMMENT ON COLUMN votes.elo_change IS 'Points that the winner gained and the loser lost: an undo gives them back.';
COMMENT ON COLUMN votes.both_change IS 'Points that each of the two gained; negative for `neither`.';
CREATE INDEX votes_of_run ON votes (run_id, id);
-- A user judges two candidates once, in whichever order, until the vote is undone.
CREATE UNIQUE INDEX one_vote_per_pair
    ON votes (user_id, least(winner_id, loser_id), greatest(winner_id, loser_id), tenant_id) WHERE undone_at IS NULL;
-- For the foreign keys of removed candidates, like slots_of_parent.
CREATE INDEX votes_for_candidate ON votes (winner_id);
CREATE INDEX votes_against_candidate ON votes (loser_id);

CREATE TABLE step_approvals (
    tenant_id    uuid NOT NULL,
    run_id       uuid NOT NULL,
    step_id      uuid NOT NULL,
    user_id      uuid NOT NULL,
    approved_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant_id, run_id, step_id),
    CONSTRAINT run_exists FOREIGN KEY (tenant_id, run_id) REFERENCES pipeline_runs (tenant_id, id),
    CONSTRAINT step_exists FOREIGN KEY (tenant_id, step_id) REFERENCES pipeline_steps (tenant_id, id)
);
COMMENT ON TABLE step_approvals IS 'A step of a run that a person approved: its candidates get children.';

CREATE TABLE branch_kills (
    tenant_id     uuid NOT NULL,
    candidate_id  uuid NOT NULL,
    run_id        uuid NOT NULL,
    user_id       uuid NOT NULL,
    touched_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant_id, candidate_id),
    CONSTRAINT candidate_exists FOREIGN KEY (tenant_id, candidate_id) REFERENCES candidates (tenant_id, id),
    CONSTRAINT run_exists FOREIGN KEY (tenant_id, run_id) REFERENCES pipeline_runs (tenant_id, id)
);
COMMENT ON TABLE branch_kills IS
    'A rejection of a branch that has not ended: some candidates below may still be active. A large branch is rejected '
    'piece by piece. Meanwhile nothing is chosen for the run, and every process that finds one continues it.';
COMMENT ON COLUMN branch_kills.touched_at IS 'When the last piece was rejected.';
CREATE INDEX kills_of_run ON branch_kills (run_id);
