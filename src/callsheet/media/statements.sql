-- database: pool
-- owns: database_usage, file_previews, files, output_sweeps, storage_usage, upload_parts, upload_sweeps, videos

-- name: files_by_ids
-- The files in the given order with their previews, without deleted files.
SELECT f.tenant_id, f.id, f.user_id, f.purpose, f.status, f.disk, f.path, f.name, f.mime_type, f.size, f.sha256,
    f.metadata, f.job_id, f.created_at, f.expires_at, p.kind AS preview_kind, p.status AS preview_status, p.width,
    p.height, p.duration_seconds, p.has_clip
FROM unnest(:file_ids::uuid[]) WITH ORDINALITY AS wanted (id, number) CROSS JOIN LATERAL (
    SELECT tenant_id, id, user_id, purpose, status, disk, path, name, mime_type, size, sha256, metadata, job_id,
        created_at, expires_at
    FROM files
    WHERE tenant_id = :tenant_id AND id = wanted.id AND deleted_at IS NULL LIMIT 1
) f LEFT JOIN LATERAL (
    SELECT kind, status, width, height, duration_seconds, has_clip FROM file_previews
    WHERE tenant_id = :tenant_id AND file_id = wanted.id LIMIT 1
) p ON true
ORDER BY wanted.number

-- name: create_upload
-- Run after lock_wallet, so that no other request of the user counts at this moment. Returns no row if the user has
-- reached the limit of pending uploads. A new file has no previews.
WITH created_file AS (
    INSERT INTO files (tenant_id, id, user_id, purpose, status, disk, path, name, mime_type, size, sha256, expires_at,
        part_bytes, resume_key)
    SELECT :tenant_id, :file_id, :user_id, 'upload', 'pending', :disk, :path, :name, :mime_type, :size, :sha256,
        clock_timestamp() + make_interval(secs => :keep_seconds::integer), :part_bytes, :resume_key
    WHERE (
        SELECT count(*) FROM (
            SELECT FROM files
            WHERE tenant_id = :tenant_id AND user_id = :user_id AND status = 'pending' AND deleted_at IS NULL
            LIMIT :max_rows
        ) awaited
    ) < :max_rows
    RETURNING tenant_id, id, user_id, purpose, status, disk, path, name, mime_type, size, sha256, metadata, job_id,
        created_at, expires_at
), upload_sweep AS (
    INSERT INTO upload_sweeps (tenant_id, file_id, user_id, disk, since)
    SELECT tenant_id, id, user_id, disk, expires_at FROM created_file
)
SELECT tenant_id, id, user_id, purpose, status, disk, path, name, mime_type, size, sha256, metadata, job_id, created_at,
    expires_at, NULL::text AS preview_kind, NULL::text AS preview_status, NULL::integer AS width,
    NULL::integer AS height, NULL::float8 AS duration_seconds, NULL::boolean AS has_clip
FROM created_file

-- name: resume_upload
-- Run after lock_wallet. Returns the file of the upload, which is kept for as long as a new one.
UPDATE files SET expires_at = clock_timestamp() + make_interval(secs => :keep_seconds::integer)
WHERE tenant_id = :tenant_id AND user_id = :user_id AND resume_key = :resume_key AND disk = :disk
  AND status = 'pending' AND deleted_at IS NULL
RETURNING id

-- name: find_parts
SELECT f.part_bytes, f.parts_id, ARRAY(
    SELECT number FROM upload_parts WHERE tenant_id = f.tenant_id AND file_id = f.id ORDER BY number
) AS numbers, ARRAY(
    SELECT sha256 FROM upload_parts WHERE tenant_id = f.tenant_id AND file_id = f.id ORDER BY number
) AS checksums
FROM files f
WHERE f.tenant_id = :tenant_id AND f.id = :file_id AND f.part_bytes IS NOT NULL

-- name: start_parts
-- The first of several requests decides. Returns no row if the upload has ended.
UPDATE files SET parts_id = coalesce(parts_id, :parts_id)
WHERE tenant_id = :tenant_id AND id = :file_id AND status = 'pending' AND deleted_at IS NULL
RETURNING parts_id

-- name: forget_start
UPDATE files SET parts_id = NULL
WHERE tenant_id = :tenant_id AND id = :file_id AND parts_id = :parts_id AND status = 'pending'

-- name: declare_parts
-- In the order of the numbers, so that two requests do not wait for each other in a circle.
INSERT INTO upload_parts (tenant_id, file_id, number, sha256)
SELECT :tenant_id, :file_id, part.number, part.sha256
FROM unnest(:numbers::integer[], :checksums::text[]) AS part (number, sha256) ORDER BY part.number
ON CONFLICT (tenant_id, file_id, number) DO NOTHING

-- name: parts_declared_otherwise
SELECT part.number FROM unnest(:numbers::integer[], :checksums::text[]) AS part (number, sha256)
JOIN upload_parts declared
    ON declared.tenant_id = :tenant_id AND declared.file_id = :file_id AND declared.number = part.number
WHERE declared.sha256 <> part.sha256
ORDER BY part.number

-- name: give_up_upload
-- The joined bytes are not what was declared. Returns no row if another request confirmed or deleted the upload.
UPDATE files SET deleted_at = clock_timestamp()
WHERE tenant_id = :tenant_id AND id = :file_id AND status = 'pending' AND deleted_at IS NULL
RETURNING tenant_id, id, path, disk

-- name: storage_of
-- In the given order. A user who never had a file has no row in storage_usage. Few uploads are reserved: those in S3
-- that were confirmed a short time ago. No signed URL is valid for more than seven days, so nothing is reserved for
-- longer, also in a backend that is no longer in use and is not swept.
SELECT coalesce(own.bytes, 0) AS bytes, coalesce(own.files, 0) AS files, reserved.bytes AS reserved_bytes,
    reserved.files AS reserved_files, coalesce(whole.bytes, 0) AS tenant_bytes,
    coalesce(whole.files, 0) AS tenant_files, whole_reserved.bytes AS tenant_reserved_bytes,
    whole_reserved.files AS tenant_reserved_files, in_database.bytes AS database_bytes
FROM unnest(:tenant_ids::uuid[], :user_ids::uuid[]) WITH ORDINALITY AS wanted (tenant_id, user_id, number)
LEFT JOIN LATERAL (
    SELECT bytes, files FROM storage_usage WHERE tenant_id = wanted.tenant_id AND user_id = wanted.user_id LIMIT 1
) own ON true
LEFT JOIN LATERAL (
    SELECT bytes, files FROM storage_usage WHERE tenant_id = wanted.tenant_id AND user_id = :whole_tenant LIMIT 1
) whole ON true
CROSS JOIN LATERAL (
    SELECT coalesce(sum(reserved_bytes), 0)::bigint AS bytes, count(*) AS files FROM upload_sweeps
    WHERE tenant_id = wanted.tenant_id AND user_id = wanted.user_id AND reserved_bytes > 0
      AND since > clock_timestamp() - interval '8 days'
) reserved
CROSS JOIN LATERAL (
    SELECT coalesce(sum(reserved_bytes), 0)::bigint AS bytes, count(*) AS files FROM upload_sweeps
    WHERE tenant_id = wanted.tenant_id AND reserved_bytes > 0 AND since > clock_timestamp() - interval '8 days'
) whole_reserved
CROSS JOIN LATERAL (
    -- The database keeps no sum of the whole tenant.
    SELECT coalesce(sum(bytes), 0)::bigint AS bytes FROM database_usage
    WHERE tenant_id = wanted.tenant_id AND (user_id = wanted.user_id OR wanted.user_id = :whole_tenant)
) in_database
ORDER BY wanted.number

-- name: recount_storage
SELECT storage_recount(:tenant_id), database_recount(:tenant_id)

-- name: database_bytes
SELECT bytes FROM database_usage WHERE tenant_id = :tenant_id AND user_id = :user_id

-- name: awaits_upload
SELECT EXISTS (
    SELECT FROM files
    WHERE tenant_id = :tenant_id AND id = :file_id AND path = :path AND status = 'pending' AND deleted_at IS NULL
)

-- name: confirm_upload
-- Returns no row if the sweeper has marked the file as expired: it does so before it deletes the object. S3 cannot
-- refuse more bytes at the URL of the upload, so they are reserved until the URL has expired and the folder is swept.
-- It refuses parts of an upload that was joined.
WITH confirmed_file AS (
    UPDATE files SET status = 'ready', ready_at = clock_timestamp(), expires_at = NULL, path = :path, sha256 = :sha256
    WHERE tenant_id = :tenant_id AND id = :file_id AND status = 'pending' AND deleted_at IS NULL
    RETURNING tenant_id, id, user_id, disk, size, part_bytes
), forgotten_parts AS (
    DELETE FROM upload_parts p USING confirmed_file c WHERE p.tenant_id = c.tenant_id AND p.file_id = c.id
), upload_sweep AS (
    INSERT INTO upload_sweeps (tenant_id, file_id, user_id, disk, since, reserved_bytes)
    SELECT tenant_id, id, user_id, disk, clock_timestamp(),
        CASE WHEN disk = 's3' AND part_bytes IS NULL THEN size ELSE 0 END
    FROM confirmed_file
    ON CONFLICT (tenant_id, file_id) DO UPDATE SET since = excluded.since, reserved_bytes = excluded.reserved_bytes
)
SELECT id FROM confirmed_file

-- name: lock_wallet
-- The lock of a user, which belongs to the wallet. A submission takes it before it reads files, so a deletion takes it
-- too.
SELECT wallet_lock(:tenant_id, :user_id)

-- name: files_in_use
SELECT files_in_use(:tenant_id, :user_id, :file_ids::uuid[])

-- name: shown_files
-- The given files that a video shows.
SELECT original_file_id AS id FROM videos WHERE tenant_id = :tenant_id AND original_file_id = ANY (:file_ids::uuid[])
UNION
SELECT processed_file_id FROM videos WHERE tenant_id = :tenant_id AND processed_file_id = ANY (:file_ids)

-- name: mark_deleted
UPDATE files SET deleted_at = clock_timestamp()
WHERE tenant_id = :tenant_id AND id = ANY (:file_ids::uuid[]) AND deleted_at IS NULL
RETURNING tenant_id, id, path, disk

-- name: create_video
-- Run after lock_wallet, so that no request deletes the file at this moment.
INSERT INTO videos (tenant_id, id, user_id, title, original_file_id)
SELECT f.tenant_id, :video_id, f.user_id, coalesce(:title, f.name), f.id FROM files f
WHERE f.tenant_id = :tenant_id AND f.id = :file_id AND f.user_id = :user_id AND f.status = 'ready'
  AND f.deleted_at IS NULL
RETURNING id

-- name: find_video
SELECT status, original_file_id, processed_file_id, updated_at FROM videos
WHERE tenant_id = :tenant_id AND id = :video_id AND user_id = :user_id

-- name: outputs_of_video
-- The outputs of all jobs of the video. Jobs belong to another room and are in the same database.
SELECT f.id FROM ai_jobs j JOIN files f ON f.tenant_id = j.tenant_id AND f.job_id = j.id
WHERE j.tenant_id = :tenant_id AND j.video_id = :video_id AND f.deleted_at IS NULL

-- name: outputs_of_job
SELECT id FROM files WHERE tenant_id = :tenant_id AND job_id = :job_id AND deleted_at IS NULL

-- name: delete_video
DELETE FROM videos WHERE tenant_id = :tenant_id AND id = :video_id

-- name: get_video
-- Progress counts only for the current run: the same job, charge cycle and lease.
SELECT v.tenant_id, v.id, v.title, v.status, v.original_file_id, v.processed_file_id, v.job_id, v.effect_id,
    v.processing_details, v.created_at, v.updated_at, p.percent, p.message, p.elapsed_ms, p.updated_at AS progress_at,
    p.preview_at,
    made.job_id AS result_job_id, made.outputs
FROM videos v
LEFT JOIN ai_jobs j ON j.tenant_id = v.tenant_id AND j.id = v.job_id
LEFT JOIN LATERAL (
    -- The job that made the result. The newest job of the video may be a later one, which failed or has not ended.
    SELECT maker.id AS job_id, maker.result -> 'outputs' AS outputs
    FROM files result JOIN ai_jobs maker ON maker.tenant_id = result.tenant_id AND maker.id = result.job_id
    WHERE result.tenant_id = v.tenant_id AND result.id = v.processed_file_id LIMIT 1
) made ON true
LEFT JOIN job_progress p
    ON p.tenant_id = v.tenant_id AND p.job_id = v.job_id AND p.charge_cycle = j.charge_cycle
    AND p.lease_seq = j.lease_seq
    AND j.status = 'processing'
WHERE v.tenant_id = :tenant_id AND v.id = :video_id AND v.user_id = :user_id

-- name: list_videos
-- Outputs are read by `outputs_of_jobs`. Rows are read by the user's index: see list_jobs in library/statements.sql.
SELECT v.tenant_id, v.id, v.title, v.status, v.original_file_id, v.processed_file_id, v.job_id, v.effect_id,
    v.processing_details, v.created_at, v.updated_at, p.percent, p.message, p.elapsed_ms, p.updated_at AS progress_at,
    p.preview_at, (
        SELECT job_id FROM files WHERE tenant_id = v.tenant_id AND id = v.processed_file_id LIMIT 1
    ) AS result_job_id, NULL::jsonb AS outputs
FROM (
    SELECT tenant_id, id, title, status, original_file_id, processed_file_id, job_id, effect_id, processing_details,
        created_at, updated_at
    FROM videos
    WHERE user_id = :user_id AND id < coalesce(:before, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid)
      AND (:status::text IS NULL OR status = :status)
    ORDER BY id DESC LIMIT :limit
) v
LEFT JOIN ai_jobs j ON j.tenant_id = v.tenant_id AND j.id = v.job_id
LEFT JOIN job_progress p
    ON p.tenant_id = v.tenant_id AND p.job_id = v.job_id AND p.charge_cycle = j.charge_cycle
    AND p.lease_seq = j.lease_seq
    AND j.status = 'processing'
WHERE v.tenant_id = :tenant_id
ORDER BY v.id DESC

-- name: outputs_of_jobs
-- The outputs of the jobs, in the order of the ids, until the page has :max_bytes. The first job is always included.
-- The jobs are read one after the other, like outcomes_of_jobs in jobs/statements.sql. The size of an output is that of
-- its entry in the page, mostly the signed URL. The size of the file does not count.
WITH RECURSIVE outputs_so_far AS (
    SELECT 0 AS place, NULL::jsonb AS outputs, 0 AS bytes
    UNION ALL
    SELECT outputs_so_far.place + 1, job.outputs,
        outputs_so_far.bytes + coalesce(jsonb_array_length(job.outputs), 0) * :output_bytes::integer
    FROM outputs_so_far LEFT JOIN LATERAL (
        SELECT CASE WHEN jsonb_typeof(result -> 'outputs') = 'array' THEN result -> 'outputs' END AS outputs
        FROM ai_jobs
        WHERE tenant_id = :tenant_id AND id = (:job_ids::uuid[])[outputs_so_far.place + 1] LIMIT 1
    ) job ON true
    WHERE outputs_so_far.place < cardinality(:job_ids) AND outputs_so_far.bytes < :max_bytes::integer
)
SELECT outputs FROM outputs_so_far WHERE place > 0 ORDER BY place

-- name: preview_of_video
SELECT p.preview, p.preview_type FROM videos v
JOIN ai_jobs j ON j.tenant_id = v.tenant_id AND j.id = v.job_id AND j.status = 'processing'
JOIN job_progress p
    ON p.tenant_id = v.tenant_id AND p.job_id = v.job_id AND p.charge_cycle = j.charge_cycle
    AND p.lease_seq = j.lease_seq
WHERE v.tenant_id = :tenant_id AND v.id = :video_id AND v.user_id = :user_id AND p.preview IS NOT NULL

-- name: mark_expired
-- Marks an upload before its object is deleted: a later confirmation of the upload finds no row.
WITH expired_uploads AS MATERIALIZED (
    SELECT tenant_id, id FROM files
    WHERE (deleted_at IS NOT NULL OR expires_at IS NOT NULL)
      AND coalesce(deleted_at, expires_at) <= (SELECT coalesce(:now, clock_timestamp()))
      AND deleted_at IS NULL AND disk = :disk
    ORDER BY coalesce(deleted_at, expires_at) LIMIT :limit
    FOR UPDATE SKIP LOCKED
)
UPDATE files f SET deleted_at = clock_timestamp()
FROM expired_uploads e
WHERE f.tenant_id = e.tenant_id AND f.id = e.id

-- name: find_deleted
SELECT tenant_id, id, path FROM files
WHERE (deleted_at IS NOT NULL OR expires_at IS NOT NULL)
  AND coalesce(deleted_at, expires_at) <= (
      SELECT coalesce(:now, clock_timestamp()) - make_interval(secs => :grace_seconds::integer))
  AND deleted_at IS NOT NULL AND disk = :disk
ORDER BY coalesce(deleted_at, expires_at) LIMIT :limit

-- name: forget_files
DELETE FROM files f USING unnest(:tenant_ids::uuid[], :file_ids::uuid[]) AS swept (tenant_id, id)
WHERE f.tenant_id = swept.tenant_id AND f.id = swept.id AND f.deleted_at IS NOT NULL

-- name: find_output_sweeps
-- Folders of outputs that are due. too_early: the job is active, or it ended so recently that a worker which had a
-- lease may still upload, because upload URLs are valid as long as the lease. Jobs belong to another room and are in
-- the same database.
SELECT s.tenant_id, s.job_id AS owner_id, s.since, clock_timestamp() AS checked_at,
    j.id IS NOT NULL AND coalesce(j.completed_at + make_interval(secs => j.lease_seconds) > due.before, true)
        AS too_early
FROM (
    SELECT coalesce(:now, clock_timestamp()) - make_interval(secs => :grace_seconds::integer) AS before
) due
CROSS JOIN LATERAL (
    SELECT tenant_id, job_id, since FROM output_sweeps WHERE since <= due.before ORDER BY since LIMIT :limit
) s
LEFT JOIN ai_jobs j ON j.tenant_id = s.tenant_id AND j.id = s.job_id
ORDER BY s.since

-- name: postpone_output_sweep
UPDATE output_sweeps SET since = clock_timestamp()
WHERE tenant_id = :tenant_id AND job_id = :owner_id AND since = :since

-- name: forget_output_sweep
-- The files were deleted, so the request to delete them ends. It stays if it was repeated since this sweep read it.
DELETE FROM output_sweeps WHERE tenant_id = :tenant_id AND job_id = :owner_id AND since = :since

-- name: find_upload_sweeps
-- Folders of uploads that are due. too_early: the upload may still be confirmed.
SELECT s.tenant_id, s.file_id AS owner_id, s.since, clock_timestamp() AS checked_at, f.id IS NOT NULL AS too_early
FROM (
    SELECT tenant_id, file_id, since FROM upload_sweeps
    WHERE disk = :disk
      AND since <= (SELECT coalesce(:now, clock_timestamp()) - make_interval(secs => :grace_seconds::integer))
    ORDER BY since LIMIT :limit
) s
LEFT JOIN files f ON f.tenant_id = s.tenant_id AND f.id = s.file_id AND f.status = 'pending' AND f.deleted_at IS NULL
ORDER BY s.since

-- name: postpone_upload_sweep
UPDATE upload_sweeps SET since = clock_timestamp()
WHERE tenant_id = :tenant_id AND file_id = :owner_id AND since = :since

-- name: forget_upload_sweep
-- The row stays if the upload was confirmed meanwhile.
DELETE FROM upload_sweeps WHERE tenant_id = :tenant_id AND file_id = :owner_id AND since = :since

-- name: known_paths
SELECT path FROM files WHERE path = ANY (:paths::text[]) AND deleted_at IS NULL

-- name: find_old_videos
SELECT tenant_id, id, user_id FROM videos
WHERE created_at <= (SELECT coalesce(:now, clock_timestamp()) - make_interval(days => :days::integer))
  AND updated_at <= (SELECT coalesce(:now, clock_timestamp()) - make_interval(days => :days::integer))
  AND status NOT IN ('pending', 'queued', 'processing')
ORDER BY created_at LIMIT :limit

-- name: find_old_files
-- Old files that no video shows and that were not made from an existing video. Files that a job reads are left out, so
-- that they do not fill the batch. The deletion checks again with files_in_use, under the user's lock.
SELECT f.tenant_id, f.id, f.user_id FROM files f
WHERE f.created_at <= (SELECT coalesce(:now, clock_timestamp()) - make_interval(days => :days::integer))
  AND f.status = 'ready' AND f.deleted_at IS NULL
  AND NOT EXISTS (SELECT FROM videos v WHERE v.tenant_id = f.tenant_id AND v.original_file_id = f.id)
  AND NOT EXISTS (SELECT FROM videos v WHERE v.tenant_id = f.tenant_id AND v.processed_file_id = f.id)
  AND NOT EXISTS (
      SELECT FROM ai_jobs j JOIN videos v ON v.tenant_id = j.tenant_id AND v.id = j.video_id
      WHERE j.tenant_id = f.tenant_id AND j.id = f.job_id)
  AND NOT EXISTS (
      SELECT FROM ai_jobs j
      WHERE j.tenant_id = f.tenant_id AND j.user_id = f.user_id AND j.completed_at IS NULL
        AND f.id = ANY (j.input_file_ids))
ORDER BY f.created_at LIMIT :limit
