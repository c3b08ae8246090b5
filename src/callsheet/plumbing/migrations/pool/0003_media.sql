-- Objects in storage that belong to a user: uploads, and the outputs of jobs.
CREATE TABLE files (
    tenant_id   uuid NOT NULL REFERENCES pool_tenants (tenant_id),
    id          uuid NOT NULL,
    user_id     uuid NOT NULL,
    purpose     text NOT NULL CHECK (purpose IN ('upload', 'output')),
    -- pending: an address to upload to was given out. ready: the object is there and is what was declared.
    status      text NOT NULL CHECK (status IN ('pending', 'ready')),
    disk        text NOT NULL CHECK (disk IN ('local', 's3')),
    path        text NOT NULL UNIQUE,
    name        text NOT NULL CHECK (name <> ''),
    mime_type   text NOT NULL,
    size        bigint NOT NULL CHECK (size >= 0),
    sha256      text CHECK (sha256 ~ '^[0-9a-f]{64}$'),
    metadata    jsonb NOT NULL DEFAULT '{}',
    job_id      uuid,
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    ready_at    timestamptz,
    expires_at  timestamptz,
    deleted_at  timestamptz,
    PRIMARY KEY (tenant_id, id),
    FOREIGN KEY (tenant_id, job_id) REFERENCES ai_jobs (tenant_id, id),
    CHECK ((purpose = 'output') = (job_id IS NOT NULL)),
    CHECK ((status = 'ready') = (ready_at IS NOT NULL)),
    CHECK ((status = 'pending') = (expires_at IS NOT NULL))
);
CREATE INDEX files_of_user ON files (user_id, id);
-- What the sweeper looks for: uploads that never came, and what was deleted.
CREATE INDEX files_to_sweep ON files ((coalesce(deleted_at, expires_at)))
    WHERE deleted_at IS NOT NULL OR expires_at IS NOT NULL;
-- How many uploads of a user are waited for.
CREATE INDEX files_awaited ON files (user_id) WHERE status = 'pending';
-- What a job made.
CREATE INDEX files_of_job ON files (job_id) WHERE job_id IS NOT NULL;
-- For the retention of what is old.
CREATE INDEX files_by_age ON files (created_at);

-- What a person sees: an upload, and what an effect made of it. Its status follows its newest job, in the job's own
-- transaction.
CREATE TABLE videos (
    tenant_id           uuid NOT NULL REFERENCES pool_tenants (tenant_id),
    id                  uuid NOT NULL,
    user_id             uuid NOT NULL,
    title               text NOT NULL DEFAULT '',
    status              text NOT NULL DEFAULT 'uploaded' CHECK (status IN ('uploaded', 'pending', 'queued', 'processing',
                            'completed', 'failed', 'canceled', 'expired')),
    original_file_id    uuid NOT NULL,
    processed_file_id   uuid,
    job_id              uuid,
    effect_id           uuid,
    processing_details  jsonb,
    created_at          timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at          timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant_id, id),
    FOREIGN KEY (tenant_id, original_file_id) REFERENCES files (tenant_id, id),
    FOREIGN KEY (tenant_id, processed_file_id) REFERENCES files (tenant_id, id),
    FOREIGN KEY (tenant_id, job_id) REFERENCES ai_jobs (tenant_id, id),
    CHECK ((status = 'uploaded') = (job_id IS NULL)),
    CHECK (status <> 'completed' OR processed_file_id IS NOT NULL)
) WITH (fillfactor = 50);
CREATE INDEX videos_of_user ON videos (user_id, id);
-- Whether a file is still shown by some video.
CREATE INDEX videos_of_original ON videos (original_file_id);
CREATE INDEX videos_of_processed ON videos (processed_file_id) WHERE processed_file_id IS NOT NULL;
-- Not by when it changed, which would be one more index to write with every step of its job.
CREATE INDEX videos_by_age ON videos (created_at);

ALTER TABLE ai_jobs
    ADD COLUMN effect_id       uuid,
    ADD COLUMN video_id        uuid,
    -- Everything of the user's that the job reads; the first is its primary input.
    ADD COLUMN input_file_ids  uuid[] NOT NULL DEFAULT '{}',
    ADD COLUMN output_file_id  uuid;
-- What was ever made of a video goes with it.
CREATE INDEX jobs_of_video ON ai_jobs (video_id) WHERE video_id IS NOT NULL;

-- The latest word of a running job. Never replayed, so it need not survive a crash of the database; and apart from the
-- job, whose row would be rewritten with every heartbeat.
CREATE UNLOGGED TABLE job_progress (
    tenant_id     uuid NOT NULL,
    job_id        uuid NOT NULL,
    user_id       uuid NOT NULL,
    charge_cycle  integer NOT NULL,
    lease_seq     bigint NOT NULL,
    percent       double precision CHECK (percent BETWEEN 0 AND 100),
    message       text,
    elapsed_ms    bigint CHECK (elapsed_ms >= 0),
    updated_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    preview       bytea CHECK (length(preview) <= 65536),
    preview_type  text,
    preview_at    timestamptz,
    PRIMARY KEY (tenant_id, job_id),
    CHECK (num_nulls(preview, preview_type, preview_at) IN (0, 3))
) WITH (fillfactor = 50);
CREATE INDEX progress_of_user ON job_progress (user_id);

-- Jobs whose folder in storage may hold more than was accepted: outputs of leases that were lost, failed or canceled.
CREATE TABLE output_sweeps (
    tenant_id  uuid NOT NULL,
    job_id     uuid NOT NULL,
    since      timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant_id, job_id)
);
CREATE INDEX output_sweeps_by_age ON output_sweeps (since);

-- Volatile on purpose, like active_jobs: called after the wallet lock was waited for.
CREATE FUNCTION files_ready(the_tenant uuid, the_user uuid, the_files uuid[]) RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT count(*) FROM unnest(the_files) AS wanted (id) CROSS JOIN LATERAL (
        SELECT FROM files f WHERE f.tenant_id = the_tenant AND f.id = wanted.id AND f.user_id = the_user
            AND f.status = 'ready' AND f.deleted_at IS NULL LIMIT 1
    ) found
$$;

-- Whether a video is there, is the user's, and no job works on it.
CREATE FUNCTION video_is_free(the_tenant uuid, the_user uuid, the_video uuid) RETURNS boolean LANGUAGE sql VOLATILE AS $$
    SELECT EXISTS (
        SELECT FROM videos v WHERE v.tenant_id = the_tenant AND v.id = the_video AND v.user_id = the_user
            AND v.status NOT IN ('pending', 'queued', 'processing'))
$$;

-- Whether a job that is under way reads one of these files. A user has few such jobs.
CREATE FUNCTION files_in_use(the_tenant uuid, the_user uuid, the_files uuid[]) RETURNS boolean
    LANGUAGE sql VOLATILE AS $$
    SELECT EXISTS (
        SELECT FROM ai_jobs WHERE tenant_id = the_tenant AND user_id = the_user AND completed_at IS NULL
            AND input_file_ids && the_files)
$$;
