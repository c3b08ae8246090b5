-- Files, videos and previews, and what users take of the storage and of the database.

CREATE TABLE files (
    tenant_id   uuid NOT NULL,
    id          uuid NOT NULL,
    user_id     uuid NOT NULL,
    purpose     text NOT NULL,
    status      text NOT NULL,
    disk        text NOT NULL,
    path        text NOT NULL,
    name        text NOT NULL,
    mime_type   text NOT NULL,
    size        bigint NOT NULL,
    sha256      text,
    metadata    jsonb NOT NULL DEFAULT '{}',
    job_id      uuid,
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    ready_at    timestamptz,
    expires_at  timestamptz,
    deleted_at  timestamptz,
    part_bytes  bigint,
    resume_key  text,
    parts_id    text,
    PRIMARY KEY (tenant_id, id),
    CONSTRAINT one_file_per_path UNIQUE (path),
    CONSTRAINT tenant_is_in_this_pool FOREIGN KEY (tenant_id) REFERENCES pool_tenants (tenant_id),
    CONSTRAINT job_exists FOREIGN KEY (tenant_id, job_id) REFERENCES ai_jobs (tenant_id, id),
    CONSTRAINT purpose_is_known CHECK (purpose IN ('upload', 'output')),
    CONSTRAINT status_is_known CHECK (status IN ('pending', 'ready')),
    CONSTRAINT disk_is_known CHECK (disk IN ('local', 's3')),
    CONSTRAINT name_is_not_empty CHECK (name <> ''),
    CONSTRAINT size_is_not_negative CHECK (size >= 0),
    CONSTRAINT sha256_is_hexadecimal CHECK (sha256 ~ '^[0-9a-f]{64}$'),
    CONSTRAINT output_means_a_job CHECK ((purpose = 'output') = (job_id IS NOT NULL)),
    CONSTRAINT ready_means_a_time CHECK ((status = 'ready') = (ready_at IS NOT NULL)),
    CONSTRAINT pending_means_an_expiry CHECK ((status = 'pending') = (expires_at IS NOT NULL)),
    CONSTRAINT parts_have_bytes CHECK (part_bytes > 0),
    CONSTRAINT parts_mean_a_resume_key CHECK ((part_bytes IS NULL) = (resume_key IS NULL)),
    CONSTRAINT parts_id_means_parts CHECK (parts_id IS NULL OR part_bytes IS NOT NULL)
);
COMMENT ON TABLE files IS 'An object in storage that belongs to a user: an upload, or an output of a job.';
COMMENT ON COLUMN files.status IS
    'pending: a URL to upload to was given out. ready: the object is there and is what was declared.';
COMMENT ON COLUMN files.disk IS 'The storage backend.';
COMMENT ON COLUMN files.path IS 'Key of the object in storage.';
COMMENT ON COLUMN files.job_id IS 'The job that made it.';
COMMENT ON COLUMN files.expires_at IS 'Until when the upload can be confirmed.';
COMMENT ON COLUMN files.deleted_at IS 'From then on no user sees it. The sweeper removes the object and the row.';
COMMENT ON COLUMN files.part_bytes IS 'Size of each part but the last. NULL: the file is not uploaded in parts.';
COMMENT ON COLUMN files.resume_key IS
    'Digest of the key with which the client finds the upload again, and of what it declared.';
COMMENT ON COLUMN files.parts_id IS 'The id of the upload at the storage. NULL until the first URL of a part is signed.';
CREATE INDEX files_of_user ON files (user_id, id);
-- Two requests for the same upload get the same file.
CREATE UNIQUE INDEX one_upload_per_resume_key ON files (tenant_id, user_id, disk, resume_key)
    WHERE resume_key IS NOT NULL AND status = 'pending' AND deleted_at IS NULL;
-- For the sweeper: uploads that never came, and what was deleted.
CREATE INDEX files_to_sweep ON files ((coalesce(deleted_at, expires_at)))
    WHERE deleted_at IS NOT NULL OR expires_at IS NOT NULL;
-- How many uploads of a user are waited for.
CREATE INDEX files_awaited ON files (user_id) WHERE status = 'pending';
-- What a job made.
CREATE INDEX files_of_job ON files (job_id) WHERE job_id IS NOT NULL;
-- For the retention of what is old.
CREATE INDEX files_by_age ON files (created_at);

-- VOLATILE on purpose, like active_jobs_as: it is called after the lock of the wallet was waited for.
CREATE FUNCTION files_ready(the_tenant uuid, the_user uuid, the_files uuid[]) RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT count(*) FROM unnest(the_files) AS wanted (id) CROSS JOIN LATERAL (
        SELECT FROM files f WHERE f.tenant_id = the_tenant AND f.id = wanted.id AND f.user_id = the_user
            AND f.status = 'ready' AND f.deleted_at IS NULL LIMIT 1
    ) found
$$;

-- Whether a job that is under way reads one of these files. A user has few such jobs.
CREATE FUNCTION files_in_use(the_tenant uuid, the_user uuid, the_files uuid[]) RETURNS boolean
    LANGUAGE sql VOLATILE AS $$
    SELECT EXISTS (
        SELECT FROM ai_jobs WHERE tenant_id = the_tenant AND user_id = the_user AND completed_at IS NULL
            AND input_file_ids && the_files)
$$;

CREATE TABLE upload_parts (
    tenant_id  uuid NOT NULL,
    file_id    uuid NOT NULL,
    number     integer NOT NULL,
    sha256     text NOT NULL,
    PRIMARY KEY (tenant_id, file_id, number),
    CONSTRAINT file_exists FOREIGN KEY (tenant_id, file_id) REFERENCES files (tenant_id, id) ON DELETE CASCADE,
    CONSTRAINT number_is_known CHECK (number BETWEEN 1 AND 1000),
    CONSTRAINT sha256_is_hexadecimal CHECK (sha256 ~ '^[0-9a-f]{64}$')
);
COMMENT ON TABLE upload_parts IS
    'The checksums of the parts of a pending upload. A row is written before the URL of the part is signed and never '
    'changed, so no other bytes can arrive as this part.';

CREATE TABLE file_previews (
    tenant_id         uuid NOT NULL,
    file_id           uuid NOT NULL,
    kind              text NOT NULL,
    status            text NOT NULL DEFAULT 'pending',
    due_at            timestamptz DEFAULT clock_timestamp(),
    attempts          integer NOT NULL DEFAULT 0,
    width             integer,
    height            integer,
    duration_seconds  double precision,
    has_clip          boolean NOT NULL DEFAULT false,
    PRIMARY KEY (tenant_id, file_id),
    CONSTRAINT file_exists FOREIGN KEY (tenant_id, file_id) REFERENCES files (tenant_id, id) ON DELETE CASCADE,
    CONSTRAINT kind_is_known CHECK (kind IN ('image', 'video', 'audio')),
    CONSTRAINT status_is_known CHECK (status IN ('pending', 'ready', 'none')),
    CONSTRAINT attempts_are_not_negative CHECK (attempts >= 0),
    CONSTRAINT width_is_positive CHECK (width > 0),
    CONSTRAINT height_is_positive CHECK (height > 0),
    CONSTRAINT duration_is_positive CHECK (duration_seconds > 0),
    CONSTRAINT pending_means_a_due_time CHECK ((status = 'pending') = (due_at IS NOT NULL)),
    -- Sound has no width and height.
    CONSTRAINT ready_means_a_size CHECK (
        (status = 'ready' AND kind <> 'audio') = (width IS NOT NULL AND height IS NOT NULL))
) WITH (fillfactor = 50);
COMMENT ON TABLE file_previews IS
    'Thumbnails, posters, clips and waveforms of a file: what is to be made, and what there is.';
COMMENT ON COLUMN file_previews.status IS 'none: the file cannot have a preview.';
COMMENT ON COLUMN file_previews.due_at IS
    'When it is to be made. A control plane that makes it moves this time, so that another one tries if it ends.';
COMMENT ON COLUMN file_previews.width IS 'Width of the original, as it is shown.';
CREATE INDEX previews_due ON file_previews (kind, tenant_id, due_at) WHERE due_at IS NOT NULL;

-- A drawing in XML can be shown and not decoded. A thumbnail needs no preview.
CREATE FUNCTION has_preview(mime_type text, path text) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT split_part(mime_type, '/', 1) IN ('image', 'video', 'audio') AND NOT mime_type LIKE '%xml'
        AND NOT path LIKE '%/thumbnails/%'
$$;

-- Previews are due in the transaction that makes a file ready, whatever writes it: no file that can be read is missed.
CREATE FUNCTION previews_are_due() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO file_previews (tenant_id, file_id, kind)
        SELECT tenant_id, id, split_part(mime_type, '/', 1) FROM added
        WHERE status = 'ready' AND has_preview(mime_type, path)
        ON CONFLICT (tenant_id, file_id) DO NOTHING;
    RETURN NULL;
END $$;
CREATE TRIGGER previews_of_new_files AFTER INSERT ON files REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION previews_are_due();

CREATE FUNCTION preview_is_due() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO file_previews (tenant_id, file_id, kind)
        VALUES (NEW.tenant_id, NEW.id, split_part(NEW.mime_type, '/', 1))
        ON CONFLICT (tenant_id, file_id) DO NOTHING;
    RETURN NULL;
END $$;
CREATE TRIGGER preview_of_confirmed_file AFTER UPDATE OF status ON files FOR EACH ROW
    WHEN (NEW.status = 'ready' AND OLD.status <> 'ready' AND has_preview(NEW.mime_type, NEW.path))
    EXECUTE FUNCTION preview_is_due();

CREATE TABLE videos (
    tenant_id           uuid NOT NULL,
    id                  uuid NOT NULL,
    user_id             uuid NOT NULL,
    title               text NOT NULL DEFAULT '',
    status              text NOT NULL DEFAULT 'uploaded',
    original_file_id    uuid NOT NULL,
    processed_file_id   uuid,
    job_id              uuid,
    effect_id           uuid,
    processing_details  jsonb,
    created_at          timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at          timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant_id, id),
    CONSTRAINT tenant_is_in_this_pool FOREIGN KEY (tenant_id) REFERENCES pool_tenants (tenant_id),
    CONSTRAINT original_exists FOREIGN KEY (tenant_id, original_file_id) REFERENCES files (tenant_id, id),
    CONSTRAINT processed_exists FOREIGN KEY (tenant_id, processed_file_id) REFERENCES files (tenant_id, id),
    CONSTRAINT job_exists FOREIGN KEY (tenant_id, job_id) REFERENCES ai_jobs (tenant_id, id),
    CONSTRAINT status_is_known CHECK (status IN (
        'uploaded', 'pending', 'queued', 'processing', 'completed', 'failed', 'canceled', 'expired')),
    CONSTRAINT uploaded_means_no_job CHECK ((status = 'uploaded') = (job_id IS NULL)),
    CONSTRAINT completed_needs_a_result CHECK (status <> 'completed' OR processed_file_id IS NOT NULL)
) WITH (fillfactor = 50);
COMMENT ON TABLE videos IS
    'What a person sees: an upload, and what an effect made of it. Its status follows its newest job, in the '
    'transaction of the job.';
COMMENT ON COLUMN videos.processed_file_id IS
    'The last result. It stays until a later job completes: a job that fails or is canceled must not hide what the user '
    'has paid for.';
COMMENT ON COLUMN videos.job_id IS 'The newest job.';
CREATE INDEX videos_of_user ON videos (user_id, id);
-- Whether a video still shows a file.
CREATE INDEX videos_of_original ON videos (original_file_id);
CREATE INDEX videos_of_processed ON videos (processed_file_id) WHERE processed_file_id IS NOT NULL;
-- Not by when it changed, which would be one more index to write with every step of its job.
CREATE INDEX videos_by_age ON videos (created_at);

-- Whether a video is there, is the user's, and no job works on it.
CREATE FUNCTION video_is_free(the_tenant uuid, the_user uuid, the_video uuid) RETURNS boolean LANGUAGE sql VOLATILE AS $$
    SELECT EXISTS (
        SELECT FROM videos v WHERE v.tenant_id = the_tenant AND v.id = the_video AND v.user_id = the_user
            AND v.status NOT IN ('pending', 'queued', 'processing'))
$$;

-- For jobs: a new job works on a video.
CREATE FUNCTION video_take(the_tenant uuid, the_video uuid, the_job uuid, the_effect uuid, the_status text)
    RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE videos SET status = the_status, job_id = the_job, effect_id = the_effect, processing_details = NULL,
        updated_at = clock_timestamp()
    WHERE tenant_id = the_tenant AND id = the_video;
END $$;

CREATE TABLE output_sweeps (
    tenant_id  uuid NOT NULL,
    job_id     uuid NOT NULL,
    since      timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant_id, job_id)
);
COMMENT ON TABLE output_sweeps IS
    'A job whose folder in storage may hold more than was accepted: outputs of leases that were lost, failed or '
    'canceled.';
CREATE INDEX output_sweeps_by_age ON output_sweeps (since);

-- For jobs: the new status of several jobs. `changes`: an array with tenant_id, user_id, job_id, video_id, status,
-- file_id (the result), message (of an error), outputs (an array of new files) and is_swept (objects of the job may be
-- left in storage). One statement, so that storage is counted once, after everything else. The result of a video changes
-- only with a completed job.
CREATE FUNCTION media_follow(changes jsonb) RETURNS void LANGUAGE plpgsql AS $$
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

-- For pipelines: accepted outputs of a job were copied to other keys. `moved`: an array with file_id and path. The
-- objects that they were copied from are swept.
CREATE FUNCTION files_move(the_tenant uuid, the_job uuid, moved jsonb) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE files f SET path = m.path FROM jsonb_to_recordset(moved) AS m (file_id uuid, path text)
    WHERE f.tenant_id = the_tenant AND f.id = m.file_id AND f.deleted_at IS NULL;
    INSERT INTO output_sweeps (tenant_id, job_id) VALUES (the_tenant, the_job)
    ON CONFLICT (tenant_id, job_id) DO UPDATE SET since = clock_timestamp();
END $$;

CREATE TABLE upload_sweeps (
    tenant_id       uuid NOT NULL,
    file_id         uuid NOT NULL,
    disk            text NOT NULL,
    since           timestamptz NOT NULL,
    user_id         uuid NOT NULL,
    reserved_bytes  bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant_id, file_id)
);
COMMENT ON TABLE upload_sweeps IS
    'An upload whose folder in storage may hold more than was accepted: what was written with the signed URL after the '
    'confirmation, and copies of confirmations that crashed. It is written with the upload, so that no crash comes '
    'before it.';
COMMENT ON COLUMN upload_sweeps.disk IS 'The storage backend. Objects of another one cannot be reached.';
COMMENT ON COLUMN upload_sweeps.reserved_bytes IS
    'Bytes that a client can still write with the URL, and that no file counts. They count for new uploads until the URL '
    'has expired and the folder is swept. 0 in local storage, which refuses such a request.';
CREATE INDEX upload_sweeps_by_age ON upload_sweeps (disk, since);
-- The reserved bytes of a user and of a tenant are summed for every new upload.
CREATE INDEX reserved_uploads ON upload_sweeps (tenant_id, user_id) INCLUDE (reserved_bytes)
    WHERE reserved_bytes > 0;

CREATE TABLE storage_usage (
    tenant_id  uuid NOT NULL,
    user_id    uuid NOT NULL,
    files      bigint NOT NULL,
    bytes      bigint NOT NULL,
    PRIMARY KEY (tenant_id, user_id),
    CONSTRAINT tenant_is_in_this_pool FOREIGN KEY (tenant_id) REFERENCES pool_tenants (tenant_id),
    CONSTRAINT files_are_not_negative CHECK (files >= 0),
    CONSTRAINT bytes_are_not_negative CHECK (bytes >= 0)
) WITH (fillfactor = 50);
COMMENT ON TABLE storage_usage IS
    'What the files of a user, or of a tenant, take. Triggers count it in the transaction that writes the files. That '
    'locks the rows, so a transaction that reads them after it wrote a file sees what no other can change before the '
    'commit: a quota holds under races without a lock of its own.';
COMMENT ON COLUMN storage_usage.user_id IS 'All zeros: the whole tenant.';

-- Adds these changes to the sums. Rows are locked in the order of their keys, the tenant's first: two transactions that
-- write files of several users at once wait for each other and never in a circle.
CREATE FUNCTION storage_add(tenants uuid[], users uuid[], counts bigint[], sizes bigint[]) RETURNS void
    LANGUAGE plpgsql AS $$
DECLARE
    change record;
BEGIN
    FOR change IN
        SELECT tenant_id, user_id, sum(count)::bigint AS files, sum(size)::bigint AS bytes FROM (
            SELECT * FROM unnest(tenants, users, counts, sizes) AS own (tenant_id, user_id, count, size)
            UNION ALL
            SELECT tenant_id, '00000000-0000-0000-0000-000000000000', count, size
            FROM unnest(tenants, counts, sizes) AS whole (tenant_id, count, size)
        ) changes
        GROUP BY tenant_id, user_id HAVING sum(count) <> 0 OR sum(size) <> 0 ORDER BY tenant_id, user_id
    LOOP
        -- Never below 0: a wrong count, because files were written without triggers, must not keep files from being
        -- deleted. storage_recount corrects it.
        UPDATE storage_usage u
            SET files = greatest(0, u.files + change.files), bytes = greatest(0, u.bytes + change.bytes)
            WHERE u.tenant_id = change.tenant_id AND u.user_id = change.user_id;
        IF NOT FOUND THEN
            INSERT INTO storage_usage AS u (tenant_id, user_id, files, bytes)
                VALUES (change.tenant_id, change.user_id, greatest(0, change.files), greatest(0, change.bytes))
                ON CONFLICT (tenant_id, user_id)
                DO UPDATE SET files = u.files + excluded.files, bytes = u.bytes + excluded.bytes;
        END IF;
    END LOOP;
END $$;

-- A file counts from its first row, when its upload is waited for, until it is marked as deleted. An upload that was
-- deleted before it was confirmed counts until it is swept: its URL can still be written to, so a user who creates and
-- deletes uploads could keep more than the quota. The sweeper removes the row when no URL is valid any more.
CREATE FUNCTION storage_counts(the_status text, deleted_at timestamptz) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT deleted_at IS NULL OR the_status = 'pending'
$$;

CREATE FUNCTION storage_was_added() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM added) THEN
        PERFORM storage_add(array_agg(tenant_id), array_agg(user_id), array_agg(1::bigint), array_agg(size))
            FROM added WHERE storage_counts(status, deleted_at) HAVING count(*) > 0;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER storage_added AFTER INSERT ON files REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION storage_was_added();

CREATE FUNCTION storage_was_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM added) THEN
        PERFORM storage_add(array_agg(tenant_id), array_agg(user_id), array_agg(sign), array_agg(sign * size)) FROM (
            SELECT tenant_id, user_id, 1::bigint AS sign, size FROM added WHERE storage_counts(status, deleted_at)
            UNION ALL
            SELECT tenant_id, user_id, -1::bigint, size FROM removed WHERE storage_counts(status, deleted_at)
        ) changes HAVING count(*) > 0;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER storage_changed AFTER UPDATE ON files REFERENCING OLD TABLE AS removed NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION storage_was_changed();

CREATE FUNCTION storage_was_removed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM removed) THEN
        PERFORM storage_add(array_agg(tenant_id), array_agg(user_id), array_agg(-1::bigint), array_agg(-size))
            FROM removed WHERE storage_counts(status, deleted_at) HAVING count(*) > 0;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER storage_removed AFTER DELETE ON files REFERENCING OLD TABLE AS removed
    FOR EACH STATEMENT EXECUTE FUNCTION storage_was_removed();

-- Counts a tenant's files again. The tenant's row is locked first: a transaction that writes files meanwhile waits with
-- its change, and adds it afterwards.
CREATE FUNCTION storage_recount(the_tenant uuid) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO storage_usage (tenant_id, user_id, files, bytes)
        VALUES (the_tenant, '00000000-0000-0000-0000-000000000000', 0, 0)
        ON CONFLICT (tenant_id, user_id) DO UPDATE SET files = storage_usage.files;
    DELETE FROM storage_usage
        WHERE tenant_id = the_tenant AND user_id <> '00000000-0000-0000-0000-000000000000';
    INSERT INTO storage_usage AS u (tenant_id, user_id, files, bytes)
        SELECT the_tenant, coalesce(user_id, '00000000-0000-0000-0000-000000000000'), count(*), coalesce(sum(size), 0)
        FROM files WHERE tenant_id = the_tenant AND storage_counts(status, deleted_at) GROUP BY GROUPING SETS ((user_id), ())
        ON CONFLICT (tenant_id, user_id) DO UPDATE SET files = excluded.files, bytes = excluded.bytes;
END $$;

CREATE TABLE database_usage (
    tenant_id  uuid NOT NULL,
    user_id    uuid NOT NULL,
    bytes      bigint NOT NULL,
    PRIMARY KEY (tenant_id, user_id),
    CONSTRAINT tenant_is_in_this_pool FOREIGN KEY (tenant_id) REFERENCES pool_tenants (tenant_id),
    CONSTRAINT bytes_are_not_negative CHECK (bytes >= 0)
) WITH (fillfactor = 50);
COMMENT ON TABLE database_usage IS
    'Bytes that the jobs, runs and pipelines of a user take in the database, counted by triggers like the bytes of '
    'files. A user who never had a job has no row. There is no row for the whole tenant: each submit would lock it.';

-- Follows the column `counted_bytes` of these tables. The row of the user is locked last, and it is the only one: two
-- transactions cannot wait for each other in a circle. A wrong count never keeps rows from being removed;
-- database_recount corrects it.
CREATE FUNCTION database_usage_follow() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    the_tenant uuid := CASE TG_OP WHEN 'DELETE' THEN OLD.tenant_id ELSE NEW.tenant_id END;
    the_user uuid := CASE TG_OP WHEN 'DELETE' THEN OLD.user_id ELSE NEW.user_id END;
    change bigint := CASE TG_OP WHEN 'INSERT' THEN NEW.counted_bytes WHEN 'DELETE' THEN -OLD.counted_bytes
        ELSE NEW.counted_bytes - OLD.counted_bytes END;
BEGIN
    UPDATE database_usage SET bytes = greatest(0, bytes + change) WHERE tenant_id = the_tenant AND user_id = the_user;
    IF NOT FOUND THEN
        INSERT INTO database_usage AS used (tenant_id, user_id, bytes)
        VALUES (the_tenant, the_user, greatest(0, change))
        ON CONFLICT (tenant_id, user_id) DO UPDATE SET bytes = greatest(0, used.bytes + change);
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER bytes_added AFTER INSERT ON ai_jobs
    FOR EACH ROW WHEN (NEW.counted_bytes > 0) EXECUTE FUNCTION database_usage_follow();
CREATE TRIGGER bytes_changed AFTER UPDATE OF counted_bytes ON ai_jobs
    FOR EACH ROW WHEN (OLD.counted_bytes <> NEW.counted_bytes) EXECUTE FUNCTION database_usage_follow();

-- Counts again what the users of a tenant have. Their rows are locked first, so changes that come meanwhile are added
-- later.
CREATE FUNCTION database_recount(the_tenant uuid) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM database_usage WHERE tenant_id = the_tenant ORDER BY user_id FOR UPDATE;
    UPDATE database_usage used SET bytes = (
        SELECT coalesce(sum(counted_bytes), 0) FROM (
            SELECT counted_bytes FROM ai_jobs WHERE tenant_id = the_tenant AND user_id = used.user_id
            UNION ALL
            SELECT counted_bytes FROM pipelines WHERE tenant_id = the_tenant AND user_id = used.user_id
            UNION ALL
            SELECT counted_bytes FROM pipeline_runs WHERE tenant_id = the_tenant AND user_id = used.user_id
        ) counted)
    WHERE tenant_id = the_tenant;
END $$;

-- Whether a user may start something that makes more files or rows. What was accepted is never refused for its size, so
-- this asks for what is there already. VOLATILE, like active_jobs_as: it is called after the lock of the wallet was
-- waited for. A limit of NULL is no limit.
CREATE FUNCTION storage_has_room(
    the_tenant uuid, the_user uuid, user_bytes bigint, user_files bigint, tenant_bytes bigint, tenant_files bigint,
    database_bytes bigint
) RETURNS boolean LANGUAGE sql VOLATILE AS $$
    SELECT NOT EXISTS (
        SELECT FROM storage_usage WHERE tenant_id = the_tenant AND user_id = the_user
            AND (bytes >= user_bytes OR files >= user_files)
    ) AND NOT EXISTS (
        SELECT FROM storage_usage WHERE tenant_id = the_tenant AND user_id = '00000000-0000-0000-0000-000000000000'
            AND (bytes >= tenant_bytes OR files >= tenant_files)
    ) AND NOT EXISTS (
        SELECT FROM database_usage WHERE tenant_id = the_tenant AND user_id = the_user AND bytes >= database_bytes
    )
$$;
