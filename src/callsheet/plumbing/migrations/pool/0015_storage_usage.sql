-- What the files of each user, and of each tenant, take together. Counted by triggers, in the transaction that writes the
-- files, so whatever writes them, the sums are right. The rows are locked by that, so who reads them after writing a file
-- sees what nobody else can change before the commit: a quota holds under races without a lock of its own.
CREATE TABLE storage_usage (
    tenant_id  uuid NOT NULL REFERENCES pool_tenants (tenant_id),
    -- All zeros: of the whole tenant.
    user_id    uuid NOT NULL,
    files      bigint NOT NULL CHECK (files >= 0),
    bytes      bigint NOT NULL CHECK (bytes >= 0),
    PRIMARY KEY (tenant_id, user_id)
) WITH (fillfactor = 50);

-- The sums with these changes. Rows are locked in key order, the tenant's first: two that write files of several users at
-- once wait for each other and never in a circle.
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
        -- Never below 0: a count that is wrong, because somebody wrote files without triggers, must not keep files from
        -- being deleted. storage_recount mends it.
        UPDATE storage_usage u
            SET files = greatest(0, u.files + change.files), bytes = greatest(0, u.bytes + change.bytes)
            WHERE u.tenant_id = change.tenant_id AND u.user_id = change.user_id;
        IF NOT FOUND THEN
            INSERT INTO storage_usage AS u
                VALUES (change.tenant_id, change.user_id, greatest(0, change.files), greatest(0, change.bytes))
                ON CONFLICT (tenant_id, user_id)
                DO UPDATE SET files = u.files + excluded.files, bytes = u.bytes + excluded.bytes;
        END IF;
    END LOOP;
END $$;

-- A file counts from its first row, when its upload is waited for, until it is marked as deleted.
CREATE FUNCTION storage_was_added() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM added) THEN
        PERFORM storage_add(array_agg(tenant_id), array_agg(user_id), array_agg(1::bigint), array_agg(size))
            FROM added WHERE deleted_at IS NULL HAVING count(*) > 0;
    END IF;
    RETURN NULL;
END $$;

CREATE FUNCTION storage_was_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM added) THEN
        PERFORM storage_add(array_agg(tenant_id), array_agg(user_id), array_agg(sign), array_agg(sign * size)) FROM (
            SELECT tenant_id, user_id, 1::bigint AS sign, size FROM added WHERE deleted_at IS NULL
            UNION ALL
            SELECT tenant_id, user_id, -1::bigint, size FROM removed WHERE deleted_at IS NULL
        ) changes HAVING count(*) > 0;
    END IF;
    RETURN NULL;
END $$;

CREATE FUNCTION storage_was_removed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM removed) THEN
        PERFORM storage_add(array_agg(tenant_id), array_agg(user_id), array_agg(-1::bigint), array_agg(-size))
            FROM removed WHERE deleted_at IS NULL HAVING count(*) > 0;
    END IF;
    RETURN NULL;
END $$;

-- These lock the table against writing until the sums below are there too.
CREATE TRIGGER storage_added AFTER INSERT ON files REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION storage_was_added();
CREATE TRIGGER storage_changed AFTER UPDATE ON files REFERENCING OLD TABLE AS removed NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION storage_was_changed();
CREATE TRIGGER storage_removed AFTER DELETE ON files REFERENCING OLD TABLE AS removed
    FOR EACH STATEMENT EXECUTE FUNCTION storage_was_removed();

INSERT INTO storage_usage (tenant_id, user_id, files, bytes)
SELECT tenant_id, coalesce(user_id, '00000000-0000-0000-0000-000000000000'), count(*), sum(size)
FROM files WHERE deleted_at IS NULL GROUP BY GROUPING SETS ((tenant_id, user_id), (tenant_id));

-- Counts a tenant's files anew. The tenant's row is locked first: who writes files meanwhile waits with its change, and adds
-- it afterwards.
CREATE FUNCTION storage_recount(the_tenant uuid) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO storage_usage VALUES (the_tenant, '00000000-0000-0000-0000-000000000000', 0, 0)
        ON CONFLICT (tenant_id, user_id) DO UPDATE SET files = storage_usage.files;
    DELETE FROM storage_usage
        WHERE tenant_id = the_tenant AND user_id <> '00000000-0000-0000-0000-000000000000';
    INSERT INTO storage_usage AS u (tenant_id, user_id, files, bytes)
        SELECT the_tenant, coalesce(user_id, '00000000-0000-0000-0000-000000000000'), count(*), coalesce(sum(size), 0)
        FROM files WHERE tenant_id = the_tenant AND deleted_at IS NULL GROUP BY GROUPING SETS ((user_id), ())
        ON CONFLICT (tenant_id, user_id) DO UPDATE SET files = excluded.files, bytes = excluded.bytes;
END $$;

-- Whether a user may begin something that makes more files. What was accepted is never refused for its size, so this asks
-- what is there already. Volatile, like active_jobs_as: called after the wallet lock was waited for. No limit: null.
CREATE FUNCTION storage_has_room(
    the_tenant uuid, the_user uuid, user_bytes bigint, user_files bigint, tenant_bytes bigint, tenant_files bigint
) RETURNS boolean LANGUAGE sql VOLATILE AS $$
    SELECT NOT EXISTS (
        SELECT FROM storage_usage WHERE tenant_id = the_tenant AND user_id = the_user
            AND (bytes >= user_bytes OR files >= user_files)
    ) AND NOT EXISTS (
        SELECT FROM storage_usage WHERE tenant_id = the_tenant AND user_id = '00000000-0000-0000-0000-000000000000'
            AND (bytes >= tenant_bytes OR files >= tenant_files)
    )
$$;
