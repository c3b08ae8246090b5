-- needs code: any
--
-- What each workflow was after each change. Graphs are in storage, under paths that are never written twice.
CREATE TABLE workflow_versions (
    workflow_id            bigint NOT NULL REFERENCES workflows (id) ON DELETE CASCADE,
    version                integer NOT NULL CHECK (version > 0),
    -- NULL: the workflow was changed by a release that kept no versions.
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
    PRIMARY KEY (workflow_id, version)
);

-- A deleted asset is in no list. Its file stays as long as a job that was submitted before may need it.
ALTER TABLE catalog_assets ADD COLUMN deleted_at timestamptz;
