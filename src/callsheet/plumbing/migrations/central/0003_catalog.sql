-- What can run, and what is sold: the graph lives in storage, everything about it here.
ALTER TABLE workflows
    ADD COLUMN description            text NOT NULL DEFAULT '',
    ADD COLUMN comfyui_workflow_path  text,
    ADD COLUMN properties             jsonb NOT NULL DEFAULT '[]' CHECK (jsonb_typeof(properties) = 'array'),
    ADD COLUMN output_node_id         text,
    ADD COLUMN output_extension       text NOT NULL DEFAULT 'mp4' CHECK (output_extension ~ '^[a-z0-9]{1,10}$'),
    ADD COLUMN output_mime_type       text NOT NULL DEFAULT 'video/mp4',
    ADD COLUMN updated_at             timestamptz NOT NULL DEFAULT clock_timestamp();

-- A product on top of a workflow. Without a workflow it cannot be.
CREATE TABLE effects (
    id                            uuid PRIMARY KEY,
    slug                          text NOT NULL UNIQUE CHECK (slug ~ '^[a-z0-9][a-z0-9-]{0,62}$'),
    name                          text NOT NULL CHECK (name <> ''),
    description                   text NOT NULL DEFAULT '',
    workflow_id                   bigint NOT NULL REFERENCES workflows (id),
    overrides                     jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(overrides) = 'object'),
    credits_cost                  bigint NOT NULL DEFAULT 0 CHECK (credits_cost >= 0),
    is_published                  boolean NOT NULL DEFAULT false,
    provider                      text NOT NULL DEFAULT 'self_hosted' CHECK (provider ~ '^[a-z][a-z0-9_-]{0,62}$'),
    stage                         text NOT NULL DEFAULT 'production' CHECK (stage ~ '^[a-z0-9][a-z0-9-]{0,62}$'),
    last_processing_time_seconds  double precision,
    -- Set before its first job is written: from then on jobs name it, and it cannot be deleted.
    has_jobs                      boolean NOT NULL DEFAULT false,
    created_at                    timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at                    timestamptz NOT NULL DEFAULT clock_timestamp()
    -- Its last processing time is written with every completion.
) WITH (fillfactor = 50);
CREATE INDEX effects_of_workflow ON effects (workflow_id);

-- Images and videos that belong to the catalog (an overlay, a mask), not to a tenant.
CREATE TABLE catalog_assets (
    id          uuid PRIMARY KEY,
    status      text NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'ready')),
    path        text NOT NULL UNIQUE,
    name        text NOT NULL CHECK (name <> ''),
    mime_type   text NOT NULL,
    size        bigint NOT NULL CHECK (size >= 0),
    sha256      text CHECK (sha256 ~ '^[0-9a-f]{64}$'),
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    CHECK (status = 'pending' OR sha256 IS NOT NULL)
);

-- How long runs of a workflow take: a moving average, for estimates.
CREATE TABLE workflow_timings (
    workflow_id      bigint PRIMARY KEY REFERENCES workflows (id),
    average_seconds  double precision NOT NULL CHECK (average_seconds >= 0),
    samples          bigint NOT NULL CHECK (samples > 0),
    updated_at       timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (fillfactor = 50);

-- What admins did: who, what, to what. One line per action, written in the action's own transaction where it is central's.
CREATE TABLE audit_logs (
    id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at            timestamptz NOT NULL DEFAULT clock_timestamp(),
    actor         text NOT NULL CHECK (actor <> ''),
    action        text NOT NULL CHECK (action ~ '^[a-z_]+\.[a-z_]+$'),
    subject_type  text NOT NULL,
    subject_id    text NOT NULL,
    tenant_id     uuid,
    details       jsonb NOT NULL DEFAULT '{}'
);
CREATE INDEX audit_logs_of_subject ON audit_logs (subject_type, subject_id, id);
