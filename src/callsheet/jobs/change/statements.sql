-- database: pool
-- owns: retry_keys

-- name: lock_job
SELECT user_id, status, run_id, deleted_at FROM ai_jobs WHERE tenant_id = :tenant_id AND id = :job_id FOR NO KEY UPDATE

-- name: delete_job
-- The row stays for the ledger and the history; the user's input and the result are removed. A video that shows the
-- job's outputs still needs the list of them in the result.
WITH job AS (
    UPDATE ai_jobs SET deleted_at = clock_timestamp(), event_seq = event_seq + 1, payload = '{}', counted_bytes = 0,
        error = NULL, error_fingerprint = NULL, result = CASE WHEN video_id IS NOT NULL THEN result END
    WHERE tenant_id = :tenant_id AND id = :job_id AND deleted_at IS NULL
    RETURNING tenant_id, id, user_id, status, event_seq
), description AS (
    DELETE FROM job_descriptions d USING job
    WHERE d.user_id = job.user_id AND d.job_id = job.id AND d.tenant_id = job.tenant_id
), trace AS (
    DELETE FROM job_traces t USING job WHERE t.tenant_id = job.tenant_id AND t.job_id = job.id
)
INSERT INTO job_events (tenant_id, job_id, seq, user_id, user_seq, event, from_status, to_status, actor, request_id)
SELECT tenant_id, id, event_seq, user_id, next_user_seq(tenant_id, user_id, 1), 'job.deleted', status, status, :actor,
    :request_id
FROM job
RETURNING job_id

-- name: lock_payer
-- The locks that tokens are taken under: see 0012_budgets.sql.
SELECT balance, paid_by_tenant, has_budgets FROM payer_lock(:tenant_id, :user_id)

-- name: lock_wallet
-- The lock of the user.
SELECT wallet_lock(:tenant_id, :user_id)

-- name: retried_by_key
-- The caller holds the lock of the wallet, so an earlier request with this key has committed. That lock is a write,
-- whose commit waits for synchronous standbys: see jobs/machine, find_by_idempotency_key.
SELECT retried_id FROM retry_keys
WHERE idempotency_key = :idempotency_key AND tenant_id = :tenant_id AND user_id = :user_id

-- name: keep_retry_key
INSERT INTO retry_keys (tenant_id, user_id, idempotency_key, retried_id)
VALUES (:tenant_id, :user_id, :idempotency_key, :retried_id)

-- name: budget_refusal
SELECT budget_refusal(tenant_id, user_id, key_id, provider, :cost::bigint) FROM ai_jobs
WHERE tenant_id = :tenant_id AND id = :job_id

-- name: inputs_are_ready
SELECT files_ready(:tenant_id, :user_id, :file_ids::uuid[]) = cardinality(:file_ids::uuid[])

-- name: items_without_files
-- The numbers of the jobs in their batch that read a file that was deleted.
SELECT batch_item FROM ai_jobs
WHERE tenant_id = :tenant_id AND id = ANY (:job_ids::uuid[])
  AND files_ready(:tenant_id, :user_id, input_file_ids) < cardinality(input_file_ids)
ORDER BY batch_item

-- name: count_active
SELECT active_jobs_as(:tenant_id, :user_id, :counted_as)
