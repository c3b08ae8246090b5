-- Code of any version works: the trigger that goes is not named by any.
-- needs code: 0001
--
-- What every completed job needs is written for all jobs of a statement at once. One by one, each job pays for the start and
-- the end of a statement.

-- Wallet: the tokens of several jobs are consumed, which were reserved before. No balance changes.
CREATE FUNCTION wallet_consume(tenants uuid[], users uuid[], jobs uuid[], cycles integer[]) RETURNS void
    LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO token_transactions (tenant_id, user_id, type, amount, job_id, charge_cycle)
        SELECT tenant_id, user_id, 'JOB_CONSUME', 0, job_id, charge_cycle
        FROM unnest(tenants, users, jobs, cycles) AS consumed (tenant_id, user_id, job_id, charge_cycle);
END $$;

-- Media: the previews of new files.
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
DROP TRIGGER preview_of_new_file ON files;
