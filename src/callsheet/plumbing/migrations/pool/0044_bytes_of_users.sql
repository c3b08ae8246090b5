-- The bytes that a user's jobs, runs and pipelines take in the database, counted like the bytes of files.
-- needs code: any

-- A user who never had a job has no row. There is no row for the whole tenant: each submit would lock it.
CREATE TABLE database_usage (
    tenant_id  uuid NOT NULL REFERENCES pool_tenants (tenant_id),
    user_id    uuid NOT NULL,
    bytes      bigint NOT NULL CHECK (bytes >= 0),
    PRIMARY KEY (tenant_id, user_id)
) WITH (fillfactor = 50);

-- Bytes of JSON that count for the user: what is written with the row, until it is removed.
ALTER TABLE ai_jobs ADD COLUMN counted_bytes bigint NOT NULL DEFAULT 0;
ALTER TABLE pipelines ADD COLUMN counted_bytes bigint NOT NULL DEFAULT 0;
ALTER TABLE pipeline_runs ADD COLUMN counted_bytes bigint NOT NULL DEFAULT 0;

-- Follows these columns. The row of the user is locked last, and it is the only one: two transactions cannot wait for each
-- other in a circle. A wrong count never keeps rows from being removed; database_recount corrects it.
CREATE FUNCTION database_usage_follow() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    the_tenant uuid := CASE TG_OP WHEN 'DELETE' THEN OLD.tenant_id ELSE NEW.tenant_id END;
    the_user uuid := CASE TG_OP WHEN 'DELETE' THEN OLD.user_id ELSE NEW.user_id END;
    change bigint := CASE TG_OP WHEN 'INSERT' THEN NEW.counted_bytes WHEN 'DELETE' THEN -OLD.counted_bytes
        ELSE NEW.counted_bytes - OLD.counted_bytes END;
BEGIN
    UPDATE database_usage SET bytes = greatest(0, bytes + change) WHERE tenant_id = the_tenant AND user_id = the_user;
    IF NOT FOUND THEN
        INSERT INTO database_usage AS used VALUES (the_tenant, the_user, greatest(0, change))
        ON CONFLICT (tenant_id, user_id) DO UPDATE SET bytes = greatest(0, used.bytes + change);
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER bytes_added AFTER INSERT ON ai_jobs
    FOR EACH ROW WHEN (NEW.counted_bytes > 0) EXECUTE FUNCTION database_usage_follow();
CREATE TRIGGER bytes_changed AFTER UPDATE OF counted_bytes ON ai_jobs
    FOR EACH ROW WHEN (OLD.counted_bytes <> NEW.counted_bytes) EXECUTE FUNCTION database_usage_follow();
CREATE TRIGGER bytes_added AFTER INSERT ON pipelines
    FOR EACH ROW WHEN (NEW.counted_bytes > 0) EXECUTE FUNCTION database_usage_follow();
CREATE TRIGGER bytes_changed AFTER UPDATE OF counted_bytes ON pipelines
    FOR EACH ROW WHEN (OLD.counted_bytes <> NEW.counted_bytes) EXECUTE FUNCTION database_usage_follow();
CREATE TRIGGER bytes_removed AFTER DELETE ON pipelines
    FOR EACH ROW WHEN (OLD.counted_bytes > 0) EXECUTE FUNCTION database_usage_follow();
CREATE TRIGGER bytes_added AFTER INSERT ON pipeline_runs
    FOR EACH ROW WHEN (NEW.counted_bytes > 0) EXECUTE FUNCTION database_usage_follow();
CREATE TRIGGER bytes_removed AFTER DELETE ON pipeline_runs
    FOR EACH ROW WHEN (OLD.counted_bytes > 0) EXECUTE FUNCTION database_usage_follow();

-- Counts again what the users of a tenant have. Their rows are locked first, so changes that come meanwhile are added later.
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

-- Whether a user may start something that makes more files or rows, see storage_has_room.
CREATE FUNCTION storage_has_room_2(
    the_tenant uuid, the_user uuid, user_bytes bigint, user_files bigint, tenant_bytes bigint, tenant_files bigint,
    database_bytes bigint
) RETURNS boolean LANGUAGE sql VOLATILE AS $$
    SELECT storage_has_room(the_tenant, the_user, user_bytes, user_files, tenant_bytes, tenant_files) AND NOT EXISTS (
        SELECT FROM database_usage WHERE tenant_id = the_tenant AND user_id = the_user AND bytes >= database_bytes)
$$;

-- The seconds until a user may submit the next job, or NULL for now. Jobs that runs start by themselves do not count.
-- VOLATILE: it is called after the wallet is locked, and sees what was committed meanwhile. Ids contain the time of the
-- control plane, whose clock may differ by a minute.
CREATE FUNCTION submit_wait(the_tenant uuid, the_user uuid, most integer) RETURNS integer LANGUAGE sql VOLATILE AS $$
    SELECT ceil(extract(epoch FROM created_at + interval '1 minute' - clock_timestamp()))::integer FROM ai_jobs
    WHERE user_id = the_user AND tenant_id = the_tenant AND run_id IS NULL
      AND id > (lpad(to_hex((extract(epoch FROM clock_timestamp()) * 1000)::bigint - 120000), 12, '0')
          || repeat('0', 20))::uuid
      AND created_at > clock_timestamp() - interval '1 minute'
    ORDER BY id DESC OFFSET most - 1 LIMIT 1
$$;
