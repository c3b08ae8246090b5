-- An upload that was deleted before it was confirmed counts until it is swept: its URL can still be written to, so who created
-- and deleted uploads could keep more than the quota. The sweeper forgets the row when no URL is valid any more.
CREATE FUNCTION storage_counts(the_status text, deleted_at timestamptz) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT deleted_at IS NULL OR the_status = 'pending'
$$;

CREATE OR REPLACE FUNCTION storage_was_added() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM added) THEN
        PERFORM storage_add(array_agg(tenant_id), array_agg(user_id), array_agg(1::bigint), array_agg(size))
            FROM added WHERE storage_counts(status, deleted_at) HAVING count(*) > 0;
    END IF;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION storage_was_changed() RETURNS trigger LANGUAGE plpgsql AS $$
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

CREATE OR REPLACE FUNCTION storage_was_removed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM removed) THEN
        PERFORM storage_add(array_agg(tenant_id), array_agg(user_id), array_agg(-1::bigint), array_agg(-size))
            FROM removed WHERE storage_counts(status, deleted_at) HAVING count(*) > 0;
    END IF;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION storage_recount(the_tenant uuid) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO storage_usage VALUES (the_tenant, '00000000-0000-0000-0000-000000000000', 0, 0)
        ON CONFLICT (tenant_id, user_id) DO UPDATE SET files = storage_usage.files;
    DELETE FROM storage_usage
        WHERE tenant_id = the_tenant AND user_id <> '00000000-0000-0000-0000-000000000000';
    INSERT INTO storage_usage AS u (tenant_id, user_id, files, bytes)
        SELECT the_tenant, coalesce(user_id, '00000000-0000-0000-0000-000000000000'), count(*), coalesce(sum(size), 0)
        FROM files WHERE tenant_id = the_tenant AND storage_counts(status, deleted_at) GROUP BY GROUPING SETS ((user_id), ())
        ON CONFLICT (tenant_id, user_id) DO UPDATE SET files = excluded.files, bytes = excluded.bytes;
END $$;

LOCK TABLE files IN SHARE ROW EXCLUSIVE MODE;
SELECT storage_recount(tenant_id) FROM pool_tenants;
