-- Versions of a pipeline share the payloads and values of steps that they have in common. A change of one step wrote all of
-- them again: 30 changes of a pipeline with 50 steps took 34 MB.
-- needs code: any

-- The payload and the values of steps, once for each pipeline, by the SHA-256 of their JSON.
CREATE TABLE step_documents (
    tenant_id    uuid NOT NULL,
    pipeline_id  uuid NOT NULL,
    digest       bytea NOT NULL CHECK (octet_length(digest) = 32),
    payload      jsonb,
    "values"     jsonb NOT NULL CHECK (jsonb_typeof("values") = 'object'),
    PRIMARY KEY (pipeline_id, digest, tenant_id),
    FOREIGN KEY (tenant_id, pipeline_id) REFERENCES pipelines (tenant_id, id) ON DELETE CASCADE
);

-- Null: the row itself has the payload and the values.
ALTER TABLE pipeline_steps ADD COLUMN document bytea;
ALTER TABLE pipeline_steps ADD CONSTRAINT step_has_its_document
    FOREIGN KEY (pipeline_id, document, tenant_id) REFERENCES step_documents (pipeline_id, digest, tenant_id)
    ON DELETE CASCADE NOT VALID;

-- Steps with their payloads and values, for every reader.
CREATE VIEW declared_steps AS
SELECT s.tenant_id, s.id, s.pipeline_id, s.version, s.position, s.name, s.slug, s.workflow, s.effect_id,
    CASE WHEN s.document IS NULL THEN s.payload ELSE d.payload END AS payload,
    CASE WHEN s.document IS NULL THEN s."values" ELSE d."values" END AS "values",
    s.needs_run_prompt, s.needs_parent_image_path, s.needs_run_variables, s.max_children, s.top_k, s.requires_approval
FROM pipeline_steps s
LEFT JOIN step_documents d
    ON d.pipeline_id = s.pipeline_id AND d.digest = s.document AND d.tenant_id = s.tenant_id;
