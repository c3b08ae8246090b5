-- Batches: jobs of one effect that were submitted by one request.

CREATE TABLE batches (
    tenant_id         uuid NOT NULL,
    id                uuid NOT NULL,
    user_id           uuid NOT NULL,
    effect_id         uuid NOT NULL,
    title             text NOT NULL,
    idempotency_key   text,
    request_hash      bytea,
    content_hash      bytea,
    request_fields    jsonb,
    client_reference  text,
    metadata          jsonb,
    webhook_url       text,
    cost              bigint NOT NULL,
    items             integer NOT NULL,
    active            integer NOT NULL,
    completed         integer NOT NULL DEFAULT 0,
    failed            integer NOT NULL DEFAULT 0,
    canceled          integer NOT NULL DEFAULT 0,
    expired           integer NOT NULL DEFAULT 0,
    created_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    finished_at       timestamptz,
    PRIMARY KEY (tenant_id, id),
    CONSTRAINT one_batch_per_key UNIQUE (idempotency_key, tenant_id, user_id),
    CONSTRAINT wallet_exists FOREIGN KEY (tenant_id, user_id) REFERENCES token_wallets (tenant_id, owner_id),
    CONSTRAINT key_has_its_request CHECK (
        (idempotency_key IS NULL) = (request_hash IS NULL) AND (request_hash IS NULL) = (content_hash IS NULL)
        AND (request_hash IS NULL) = (request_fields IS NULL)),
    CONSTRAINT client_reference_is_a_line CHECK (client_reference ~ '^[^\x01-\x1f\x7f]{1,200}$'),
    CONSTRAINT metadata_is_a_small_object CHECK (
        jsonb_typeof(metadata) = 'object' AND octet_length(metadata::text) <= 8192),
    CONSTRAINT webhook_url_is_short CHECK (length(webhook_url) BETWEEN 1 AND 2000),
    CONSTRAINT cost_is_not_negative CHECK (cost >= 0),
    CONSTRAINT it_has_items CHECK (items BETWEEN 1 AND 1000),
    CONSTRAINT numbers_are_not_negative CHECK (least(active, completed, failed, canceled, expired) >= 0),
    CONSTRAINT each_item_is_counted_once CHECK (active + completed + failed + canceled + expired = items),
    CONSTRAINT finished_means_no_active_item CHECK ((active = 0) = (finished_at IS NOT NULL))
) WITH (fillfactor = 50);
COMMENT ON TABLE batches IS 'Jobs of one effect that were submitted by one request: all were accepted, or none.';
COMMENT ON COLUMN batches.title IS 'Name of the effect when the batch was submitted.';
COMMENT ON COLUMN batches.request_hash IS
    'Hash of the request with the idempotency key: the same key for another request is refused.';
COMMENT ON COLUMN batches.content_hash IS
    'The same with the checksum of each file instead of its id: a client may upload its files again.';
COMMENT ON COLUMN batches.request_fields IS
    'A short hash of each field of that request, to say which fields of another request differ.';
COMMENT ON COLUMN batches.client_reference IS 'What the client calls the batch.';
COMMENT ON COLUMN batches.metadata IS 'Texts of the client, by key.';
COMMENT ON COLUMN batches.webhook_url IS
    'Where events of the batch and its jobs are sent; an endpoint of its user has its start.';
COMMENT ON COLUMN batches.cost IS 'Tokens of the first charge cycle of all items.';
COMMENT ON COLUMN batches.active IS
    'Items whose job is active. The next four columns count the items by the end of their job. Each change of a job '
    'changes them in its transaction.';
COMMENT ON COLUMN batches.finished_at IS 'When the last item ended. NULL: a job is active, or active again after a retry.';
CREATE INDEX batches_of_user ON batches (user_id, id);

-- Jobs of batches changed their status: the batches count them by their new ones. The caller has locked the jobs and
-- the stream counters of their users, so the rows of two batches are never locked in two orders.
CREATE FUNCTION batches_follow(tenants uuid[], wanted uuid[], from_statuses text[], to_statuses text[]) RETURNS void
    LANGUAGE plpgsql AS $$
DECLARE
    change record;
BEGIN
    FOR change IN
        SELECT tenant_id, batch_id, sum(change_of) FILTER (WHERE counter = 'active') AS active,
            sum(change_of) FILTER (WHERE counter = 'completed') AS completed,
            sum(change_of) FILTER (WHERE counter = 'failed') AS failed,
            sum(change_of) FILTER (WHERE counter = 'canceled') AS canceled,
            sum(change_of) FILTER (WHERE counter = 'expired') AS expired
        FROM unnest(tenants, wanted, from_statuses, to_statuses) AS moved (tenant_id, batch_id, was, is_now)
        CROSS JOIN LATERAL (VALUES (was, -1), (is_now, 1)) AS side (status, change_of)
        CROSS JOIN LATERAL (
            SELECT CASE WHEN status IN ('pending', 'queued', 'processing') THEN 'active' ELSE status END AS counter
        ) AS counted
        GROUP BY tenant_id, batch_id
        ORDER BY tenant_id, batch_id
    LOOP
        UPDATE batches SET active = active + coalesce(change.active, 0),
            completed = completed + coalesce(change.completed, 0), failed = failed + coalesce(change.failed, 0),
            canceled = canceled + coalesce(change.canceled, 0), expired = expired + coalesce(change.expired, 0),
            finished_at = CASE WHEN active + coalesce(change.active, 0) = 0 THEN clock_timestamp() END
        WHERE tenant_id = change.tenant_id AND id = change.batch_id;
    END LOOP;
END $$;

-- The seconds until a user may submit the next batch, or NULL for now. VOLATILE: it is called after the lock of the
-- wallet was waited for. Ids contain the time of the control plane, whose clock may differ by a minute.
CREATE FUNCTION batch_wait(the_tenant uuid, the_user uuid, most integer) RETURNS integer LANGUAGE sql VOLATILE AS $$
    SELECT ceil(extract(epoch FROM created_at + interval '1 minute' - clock_timestamp()))::integer FROM batches
    WHERE user_id = the_user AND tenant_id = the_tenant
      AND id > (lpad(to_hex((extract(epoch FROM clock_timestamp()) * 1000)::bigint - 120000), 12, '0')
          || repeat('0', 20))::uuid
      AND created_at > clock_timestamp() - interval '1 minute'
    ORDER BY id DESC OFFSET most - 1 LIMIT 1
$$;

-- The last item of a batch has ended. After a retry that is an event again.
CREATE FUNCTION batch_announce() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM deliveries_announce(NEW.tenant_id, NEW.user_id, 'batch.finished', NEW.id, NEW.effect_id,
        NEW.client_reference, jsonb_build_object(
            'id', NEW.id, 'user_id', NEW.user_id, 'effect_id', NEW.effect_id, 'title', NEW.title,
            'client_reference', NEW.client_reference, 'metadata', NEW.metadata, 'cost', NEW.cost, 'items', NEW.items,
            'counts', jsonb_build_object('active', NEW.active, 'completed', NEW.completed, 'failed', NEW.failed,
                'canceled', NEW.canceled, 'expired', NEW.expired),
            'created_at', time_of_event(NEW.created_at), 'finished_at', time_of_event(NEW.finished_at)),
        NEW.webhook_url);
    RETURN NULL;
END $$;
CREATE TRIGGER batch_has_finished AFTER UPDATE ON batches
    FOR EACH ROW WHEN (OLD.finished_at IS NULL AND NEW.finished_at IS NOT NULL) EXECUTE FUNCTION batch_announce();
