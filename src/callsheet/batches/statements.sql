-- database: pool
-- owns: batches

-- part: batch_columns
-- The fields of a BatchRow.
id, effect_id, title, client_reference, metadata, webhook_url, idempotency_key, cost, items, active, completed,
failed, canceled, expired, created_at, finished_at, request_hash, content_hash, request_fields

-- name: insert_batch
INSERT INTO batches (tenant_id, id, user_id, effect_id, title, idempotency_key, request_hash, content_hash,
    request_fields, client_reference, metadata, webhook_url, cost, items, active)
VALUES (:tenant_id, :id, :user_id, :effect_id, :title, :idempotency_key, :request_hash, :content_hash, :request_fields,
    :client_reference, :metadata, :webhook_url, :cost, :items, :items)

-- name: seconds_to_wait
SELECT batch_wait(:tenant_id, :user_id, :most)

-- name: find_by_key
-- The lock makes this a write, whose commit waits for synchronous standbys: the first request may have stopped waiting
-- for them. Equality is written as a comparison of rows, which only the index of the keys supports.
SELECT {batch_columns} FROM batches
WHERE (idempotency_key, tenant_id, user_id) >= (:idempotency_key, :tenant_id, :user_id)
  AND (idempotency_key, tenant_id, user_id) <= (:idempotency_key, :tenant_id, :user_id)
FOR KEY SHARE

-- name: get_batch
SELECT {batch_columns} FROM batches
WHERE tenant_id = :tenant_id AND id = :id AND user_id = :user_id

-- name: list_batches
SELECT {batch_columns} FROM batches
WHERE user_id = :user_id AND tenant_id = :tenant_id
  AND id < coalesce(:before, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid)
  AND (:is_finished::boolean IS NULL OR :is_finished = (finished_at IS NOT NULL))
  AND (:effect_ids::uuid[] IS NULL OR effect_id = ANY (:effect_ids))
  AND (:client_reference::text IS NULL OR client_reference = :client_reference)
  AND (:metadata::jsonb IS NULL OR metadata @> :metadata)
ORDER BY id DESC LIMIT :limit

-- name: jobs_with_results
-- In the order of the items.
SELECT id FROM ai_jobs
WHERE batch_id = :batch_id AND tenant_id = :tenant_id AND user_id = :user_id AND status = 'completed'
  AND deleted_at IS NULL
ORDER BY batch_item
