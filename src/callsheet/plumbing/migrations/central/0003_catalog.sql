-- What can run, and what is sold. Graphs are in storage; everything else about them is here.

CREATE TABLE workflows (
    id                     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    slug                   text NOT NULL,
    name                   text NOT NULL,
    is_active              boolean NOT NULL DEFAULT true,
    run_limit_seconds      integer NOT NULL DEFAULT 3600,
    created_at             timestamptz NOT NULL DEFAULT clock_timestamp(),
    description            text NOT NULL DEFAULT '',
    comfyui_workflow_path  text,
    properties             jsonb NOT NULL DEFAULT '[]',
    output_node_id         text,
    output_extension       text NOT NULL DEFAULT 'mp4',
    output_mime_type       text NOT NULL DEFAULT 'video/mp4',
    updated_at             timestamptz NOT NULL DEFAULT clock_timestamp(),
    lease_seconds          integer,
    max_attempts           integer,
    keep_metadata          boolean NOT NULL DEFAULT false,
    refund_on_cancel       text NOT NULL DEFAULT 'all',
    requirements           jsonb NOT NULL DEFAULT '{}',
    required               jsonb,
    models                 text[] NOT NULL DEFAULT '{}',
    CONSTRAINT one_workflow_per_slug UNIQUE (slug),
    CONSTRAINT slug_is_valid CHECK (slug ~ '^[a-z0-9][a-z0-9:_.-]{0,127}$'),
    CONSTRAINT name_is_not_empty CHECK (name <> ''),
    CONSTRAINT run_limit_seconds_is_positive CHECK (run_limit_seconds > 0),
    CONSTRAINT lease_seconds_is_positive CHECK (lease_seconds > 0),
    CONSTRAINT max_attempts_is_positive CHECK (max_attempts > 0),
    CONSTRAINT properties_is_a_list CHECK (jsonb_typeof(properties) = 'array'),
    CONSTRAINT output_extension_is_valid CHECK (output_extension ~ '^[a-z0-9]{1,10}$'),
    CONSTRAINT refund_on_cancel_is_known CHECK (refund_on_cancel IN ('all', 'unspent')),
    CONSTRAINT requirements_is_an_object CHECK (jsonb_typeof(requirements) = 'object'),
    CONSTRAINT required_is_an_object CHECK (jsonb_typeof(required) = 'object')
);
COMMENT ON TABLE workflows IS
    'Something that can run: a graph of an engine, or the work of an actor. Jobs are routed to workers by it.';
COMMENT ON COLUMN workflows.slug IS 'Name in URLs and requests. The workflows of actors start with `actor:`.';
COMMENT ON COLUMN workflows.run_limit_seconds IS 'How long a run may take.';
COMMENT ON COLUMN workflows.comfyui_workflow_path IS 'Path of the graph in storage. It is never written twice.';
COMMENT ON COLUMN workflows.properties IS 'What a job can choose: places in the graph, with their types and limits.';
COMMENT ON COLUMN workflows.output_node_id IS 'Node of the graph that makes the result. NULL: the only output node.';
COMMENT ON COLUMN workflows.lease_seconds IS
    'How long a lease of a job lasts without a heartbeat. NULL: as in the settings.';
COMMENT ON COLUMN workflows.max_attempts IS 'How often a job is tried. NULL: as in the settings.';
COMMENT ON COLUMN workflows.keep_metadata IS
    'Whether results keep the metadata that the engine wrote into them, the whole graph among it.';
COMMENT ON COLUMN workflows.refund_on_cancel IS
    'What a user gets back for canceling a job that runs: all of its tokens, or the share that was not spent.';
COMMENT ON COLUMN workflows.requirements IS 'What the workflow requires of an engine, as an operator set it.';
COMMENT ON COLUMN workflows.required IS
    'All that the workflow requires of an engine: the requirements, and what the graph names. NULL: no engine runs it.';
COMMENT ON COLUMN workflows.models IS
    'Model files that the graph loads, required or not: workers that have them loaded are preferred.';

-- The workflows of actors. They are written in one order, so that control planes that start together do not wait for
-- each other in a circle. A workflow that exists stays as it is: an operator may have deactivated it.
CREATE FUNCTION workflows_keep(slugs text[], names text[], descriptions text[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO workflows (slug, name, description)
    SELECT w.slug, w.name, w.description FROM unnest(slugs, names, descriptions) AS w (slug, name, description)
    ORDER BY w.slug
    ON CONFLICT (slug) DO NOTHING;
END $$;

CREATE TABLE workflow_versions (
    workflow_id            bigint NOT NULL,
    version                integer NOT NULL,
    actor                  text,
    created_at             timestamptz NOT NULL,
    name                   text NOT NULL,
    description            text NOT NULL,
    comfyui_workflow_path  text,
    properties             jsonb NOT NULL,
    output_node_id         text,
    output_extension       text NOT NULL,
    output_mime_type       text NOT NULL,
    keep_metadata          boolean NOT NULL,
    run_limit_seconds      integer NOT NULL,
    lease_seconds          integer,
    max_attempts           integer,
    refund_on_cancel       text NOT NULL,
    requirements           jsonb NOT NULL,
    PRIMARY KEY (workflow_id, version),
    CONSTRAINT workflow_exists FOREIGN KEY (workflow_id) REFERENCES workflows (id) ON DELETE CASCADE,
    CONSTRAINT version_is_positive CHECK (version > 0)
);
COMMENT ON TABLE workflow_versions IS
    'What a workflow was after one change. The columns are those of `workflows`.';
COMMENT ON COLUMN workflow_versions.actor IS 'Who made the change.';

CREATE TABLE effects (
    id                            uuid PRIMARY KEY,
    slug                          text NOT NULL,
    name                          text NOT NULL,
    description                   text NOT NULL DEFAULT '',
    workflow_id                   bigint NOT NULL,
    overrides                     jsonb NOT NULL DEFAULT '{}',
    credits_cost                  bigint NOT NULL DEFAULT 0,
    is_published                  boolean NOT NULL DEFAULT false,
    provider                      text NOT NULL DEFAULT 'self_hosted',
    stage                         text NOT NULL DEFAULT 'production',
    last_processing_time_seconds  double precision,
    has_jobs                      boolean NOT NULL DEFAULT false,
    created_at                    timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at                    timestamptz NOT NULL DEFAULT clock_timestamp(),
    version                       integer NOT NULL DEFAULT 1,
    category                      text NOT NULL DEFAULT '',
    preview                       jsonb,
    price_formula                 text NOT NULL DEFAULT '',
    CONSTRAINT one_effect_per_slug UNIQUE (slug),
    CONSTRAINT workflow_exists FOREIGN KEY (workflow_id) REFERENCES workflows (id),
    CONSTRAINT slug_is_valid CHECK (slug ~ '^[a-z0-9][a-z0-9-]{0,62}$'),
    CONSTRAINT name_is_not_empty CHECK (name <> ''),
    CONSTRAINT overrides_is_an_object CHECK (jsonb_typeof(overrides) = 'object'),
    CONSTRAINT credits_cost_is_not_negative CHECK (credits_cost >= 0),
    CONSTRAINT provider_is_valid CHECK (provider ~ '^[a-z][a-z0-9_-]{0,62}$'),
    CONSTRAINT stage_is_valid CHECK (stage ~ '^[a-z0-9][a-z0-9-]{0,62}$'),
    CONSTRAINT version_is_positive CHECK (version > 0),
    CONSTRAINT category_is_short CHECK (length(category) <= 200),
    CONSTRAINT preview_is_an_object CHECK (jsonb_typeof(preview) = 'object'),
    CONSTRAINT price_formula_is_short CHECK (length(price_formula) <= 1000)
    -- The last processing time is written with every completion.
) WITH (fillfactor = 50);
COMMENT ON TABLE effects IS 'A product on top of a workflow: a price, fixed values, and what a gallery shows.';
COMMENT ON COLUMN effects.overrides IS 'Values of the properties of the workflow that the effect fixes, by key.';
COMMENT ON COLUMN effects.credits_cost IS 'Tokens that a job costs. With a formula, the lowest price of a job.';
COMMENT ON COLUMN effects.price_formula IS
    'Calculates the price of a job from its properties when it is submitted. Empty: credits_cost is the price.';
COMMENT ON COLUMN effects.provider IS 'Provider that executes the jobs.';
COMMENT ON COLUMN effects.stage IS 'Stage of the workers that execute the jobs.';
COMMENT ON COLUMN effects.last_processing_time_seconds IS 'How long the last run took.';
COMMENT ON COLUMN effects.has_jobs IS
    'Set before the first job is written. From then on jobs name the effect, and it cannot be deleted.';
COMMENT ON COLUMN effects.version IS
    'Raised by every change of an operator, so that a change of an outdated version is refused.';
COMMENT ON COLUMN effects.preview IS
    'Where the preview is in storage, and what is there: `{"folder", "before", "after"}`.';
CREATE INDEX effects_of_workflow ON effects (workflow_id);

-- For jobs: how long the last run of an effect took.
CREATE FUNCTION effect_took(the_effect uuid, seconds double precision) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE effects SET last_processing_time_seconds = seconds WHERE id = the_effect;
END $$;

CREATE TABLE catalog_assets (
    id          uuid PRIMARY KEY,
    status      text NOT NULL DEFAULT 'pending',
    path        text NOT NULL,
    name        text NOT NULL,
    mime_type   text NOT NULL,
    size        bigint NOT NULL,
    sha256      text,
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    deleted_at  timestamptz,
    CONSTRAINT one_asset_per_path UNIQUE (path),
    CONSTRAINT status_is_known CHECK (status IN ('pending', 'ready')),
    CONSTRAINT name_is_not_empty CHECK (name <> ''),
    CONSTRAINT size_is_not_negative CHECK (size >= 0),
    CONSTRAINT sha256_is_hexadecimal CHECK (sha256 ~ '^[0-9a-f]{64}$'),
    CONSTRAINT ready_assets_have_a_checksum CHECK (status = 'pending' OR sha256 IS NOT NULL)
);
COMMENT ON TABLE catalog_assets IS
    'An image or a video that belongs to the catalog, for example an overlay or a mask, and not to a tenant.';
COMMENT ON COLUMN catalog_assets.status IS 'pending: a URL to upload to was given out. ready: the object is there.';
COMMENT ON COLUMN catalog_assets.deleted_at IS
    'A deleted asset is in no list. Its object stays as long as a job that was submitted before may need it.';

CREATE TABLE worker_environments (
    digest        bytea PRIMARY KEY,
    inventory     jsonb NOT NULL,
    last_used_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    node_forms    bytea,
    CONSTRAINT digest_is_sha256 CHECK (length(digest) = 32),
    CONSTRAINT inventory_is_an_object CHECK (jsonb_typeof(inventory) = 'object')
);
COMMENT ON TABLE worker_environments IS
    'What the engine of a worker has: node classes, models, versions. All workers of one image share a row.';
COMMENT ON COLUMN worker_environments.digest IS 'SHA-256 of the inventory.';
COMMENT ON COLUMN worker_environments.node_forms IS
    'What the engine declares about the inputs of its node classes, for the import of workflows: JSON that is '
    'compressed with zlib. NULL: the workers do not report it.';

CREATE TABLE environment_lacks (
    digest       bytea NOT NULL,
    workflow_id  bigint NOT NULL,
    lacks        jsonb NOT NULL,
    PRIMARY KEY (digest, workflow_id),
    CONSTRAINT environment_exists FOREIGN KEY (digest) REFERENCES worker_environments (digest) ON DELETE CASCADE,
    CONSTRAINT workflow_exists FOREIGN KEY (workflow_id) REFERENCES workflows (id) ON DELETE CASCADE,
    CONSTRAINT lacks_is_a_list CHECK (jsonb_typeof(lacks) = 'array')
);
COMMENT ON TABLE environment_lacks IS
    'A workflow that an environment cannot run. A workflow without a row can run there.';
COMMENT ON COLUMN environment_lacks.lacks IS 'The first things that are missing.';
CREATE INDEX environment_lacks_of_workflow ON environment_lacks (workflow_id);
