-- What must be written together with a job, each by a function of the room that owns the tables. All are called by statements
-- of jobs and pipelines, which write no other room's tables themselves.
-- needs code: any

-- Media: what became of several jobs. `changes`: an array with tenant_id, user_id, job_id, video_id, status, file_id (the result),
-- message (of an error), outputs (an array of new files) and is_swept (objects of the job may be left in storage). One
-- statement, so that storage is counted once, after everything else.
CREATE FUNCTION media_follow(changes jsonb) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    WITH change AS MATERIALIZED (
        SELECT * FROM jsonb_to_recordset(changes) AS c (
            tenant_id uuid, user_id uuid, job_id uuid, video_id uuid, status text, file_id uuid, message text, outputs jsonb,
            is_swept boolean)
    ), output AS (
        INSERT INTO files (tenant_id, id, user_id, purpose, status, disk, path, name, mime_type, size, sha256, metadata,
            job_id, ready_at)
        SELECT change.tenant_id, o.file_id, change.user_id, 'output', 'ready', o.disk, o.path, o.name, o.mime_type, o.size,
            o.sha256, o.metadata, change.job_id, clock_timestamp()
        FROM change CROSS JOIN LATERAL jsonb_to_recordset(change.outputs) AS o (
            file_id uuid, disk text, path text, name text, mime_type text, size bigint, sha256 text, metadata jsonb)
    ), video AS (
        -- Only while this is the video's newest job.
        UPDATE videos v SET status = change.status, processed_file_id = change.file_id,
            processing_details = CASE WHEN change.message IS NOT NULL
                THEN jsonb_build_object('error', change.message) END,
            updated_at = clock_timestamp()
        FROM change WHERE v.tenant_id = change.tenant_id AND v.id = change.video_id AND v.job_id = change.job_id
    )
    INSERT INTO output_sweeps (tenant_id, job_id) SELECT tenant_id, job_id FROM change WHERE is_swept
    ON CONFLICT (tenant_id, job_id) DO UPDATE SET since = clock_timestamp();
END $$;

-- Media: a new job works on a video.
CREATE FUNCTION video_take(the_tenant uuid, the_video uuid, the_job uuid, the_effect uuid, the_status text) RETURNS void
    LANGUAGE plpgsql AS $$
BEGIN
    UPDATE videos SET status = the_status, job_id = the_job, effect_id = the_effect, processed_file_id = NULL,
        processing_details = NULL, updated_at = clock_timestamp()
    WHERE tenant_id = the_tenant AND id = the_video;
END $$;

-- Media: accepted outputs of a job were copied to other keys. `moved`: an array with file_id and path. The objects they were
-- copied from are swept.
CREATE FUNCTION files_move(the_tenant uuid, the_job uuid, moved jsonb) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE files f SET path = m.path FROM jsonb_to_recordset(moved) AS m (file_id uuid, path text)
    WHERE f.tenant_id = the_tenant AND f.id = m.file_id AND f.deleted_at IS NULL;
    INSERT INTO output_sweeps (tenant_id, job_id) VALUES (the_tenant, the_job)
    ON CONFLICT (tenant_id, job_id) DO UPDATE SET since = clock_timestamp();
END $$;

-- Tasks: the product that a scrape found.
CREATE FUNCTION product_keep(the_tenant uuid, the_user uuid, the_job uuid, product jsonb) RETURNS void
    LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO products (tenant_id, id, user_id, url, title, description, price, currency, images, text)
    SELECT the_tenant, the_job, the_user, p.url, p.title, p.description, p.price, p.currency, p.images, p.text
    FROM jsonb_to_record(product) AS p (
        url text, title text, description text, price text, currency text, images jsonb, text text);
END $$;

-- Pipelines: why a job may not take its place in the tree of a run, or NULL. Locks the run and the parent.
CREATE FUNCTION slot_refusal(the_tenant uuid, the_user uuid, the_cost bigint, slot jsonb) RETURNS text
    LANGUAGE plpgsql AS $$
BEGIN
    RETURN slot_refused(the_tenant, the_user, (slot ->> 'run_id')::uuid, (slot ->> 'parent_id')::uuid,
        (slot ->> 'draw')::integer, the_cost, (slot ->> 'per_run')::integer, (slot ->> 'in_total')::integer);
END $$;

-- Pipelines: a job takes its place, after slot_refusal found no reason against it.
CREATE FUNCTION slot_take(the_tenant uuid, the_job uuid, the_cost bigint, slot jsonb) RETURNS void
    LANGUAGE plpgsql AS $$
DECLARE
    the_run uuid := slot ->> 'run_id';
    the_parent uuid := slot ->> 'parent_id';
BEGIN
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
