-- needs code: any
--
-- A video keeps its last result until a later job completes: a job that fails or is canceled must not hide what the user
-- has paid for.

-- Media: what became of several jobs, like media_follow. The result of a video changes only with a completed job.
CREATE FUNCTION media_follow_2(changes jsonb) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    WITH change AS MATERIALIZED (
        SELECT * FROM jsonb_to_recordset(changes) AS c (
            tenant_id uuid, user_id uuid, job_id uuid, video_id uuid, status text, file_id uuid, message text,
            outputs jsonb, is_swept boolean)
    ), output AS (
        INSERT INTO files (tenant_id, id, user_id, purpose, status, disk, path, name, mime_type, size, sha256, metadata,
            job_id, ready_at)
        SELECT change.tenant_id, o.file_id, change.user_id, 'output', 'ready', o.disk, o.path, o.name, o.mime_type,
            o.size, o.sha256, o.metadata, change.job_id, clock_timestamp()
        FROM change CROSS JOIN LATERAL jsonb_to_recordset(change.outputs) AS o (
            file_id uuid, disk text, path text, name text, mime_type text, size bigint, sha256 text, metadata jsonb)
    ), video AS (
        -- Only while this is the video's newest job.
        UPDATE videos v SET status = change.status,
            processed_file_id = CASE WHEN change.status = 'completed' THEN change.file_id
                ELSE v.processed_file_id END,
            processing_details = CASE WHEN change.message IS NOT NULL
                THEN jsonb_build_object('error', change.message) END,
            updated_at = clock_timestamp()
        FROM change WHERE v.tenant_id = change.tenant_id AND v.id = change.video_id AND v.job_id = change.job_id
    )
    INSERT INTO output_sweeps (tenant_id, job_id) SELECT tenant_id, job_id FROM change WHERE is_swept
    ON CONFLICT (tenant_id, job_id) DO UPDATE SET since = clock_timestamp();
END $$;

-- Media: a new job works on a video.
CREATE FUNCTION video_take_2(the_tenant uuid, the_video uuid, the_job uuid, the_effect uuid, the_status text)
    RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE videos SET status = the_status, job_id = the_job, effect_id = the_effect, processing_details = NULL,
        updated_at = clock_timestamp()
    WHERE tenant_id = the_tenant AND id = the_video;
END $$;
