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

-- name: values_of_items
-- In the order of the items. A value may be long: its hash says whether two are the same.
SELECT job.batch_item AS item, sent.key, left(sent.value, 200) AS text, md5(sent.value) AS hash
FROM ai_jobs job
JOIN job_descriptions described ON described.user_id = job.user_id AND described.job_id = job.id
  AND described.tenant_id = job.tenant_id
CROSS JOIN LATERAL jsonb_each_text(described.sent) AS sent (key, value)
WHERE job.batch_id = :batch_id AND job.tenant_id = :tenant_id AND job.user_id = :user_id AND job.deleted_at IS NULL
ORDER BY job.batch_item, sent.key

-- name: jobs_with_results
-- In the order of the items.
SELECT id FROM ai_jobs
WHERE batch_id = :batch_id AND tenant_id = :tenant_id AND user_id = :user_id AND status = 'completed'
  AND deleted_at IS NULL
ORDER BY batch_item
