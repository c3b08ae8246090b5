-- database: central
-- owns: kept_responses

-- part: of_key
caller_id = :caller_id AND key_hash = :key_hash

-- name: claim_key
-- No row: an earlier request has the key. Its row stays locked until the transaction ends, as after FOR UPDATE.
INSERT INTO kept_responses AS kept (caller_id, key_hash, claim_id, request)
VALUES (:caller_id, :key_hash, :claim_id, :request)
ON CONFLICT (caller_id, key_hash) DO UPDATE
SET claim_id = excluded.claim_id, created_at = clock_timestamp(), renewed_at = clock_timestamp(),
    request = excluded.request, status = NULL, response = NULL
WHERE kept.created_at <= clock_timestamp() - make_interval(secs => :kept_seconds)
  OR (kept.status IS NULL AND kept.renewed_at <= clock_timestamp() - make_interval(secs => :abandoned_seconds))
RETURNING claim_id

-- name: find_kept
SELECT request, status, response FROM kept_responses WHERE {of_key}

-- name: renew_claim
UPDATE kept_responses SET renewed_at = clock_timestamp()
WHERE {of_key} AND claim_id = :claim_id AND status IS NULL

-- name: release_claim
DELETE FROM kept_responses
WHERE {of_key} AND claim_id = :claim_id AND status IS NULL

-- name: keep_response
UPDATE kept_responses SET status = :status, response = :response
WHERE {of_key} AND claim_id = :claim_id AND status IS NULL

-- name: drop_surplus
-- The oldest ones of a caller that has too many, or too many bytes. The newest one always stays.
DELETE FROM kept_responses k USING (
    SELECT key_hash, row_number() OVER newest AS place, sum(coalesce(octet_length(response), 0)) OVER newest AS bytes
    FROM kept_responses
    WHERE caller_id = :caller_id
    WINDOW newest AS (ORDER BY created_at DESC, key_hash)
) listed
WHERE k.caller_id = :caller_id AND k.key_hash = listed.key_hash AND listed.place > 1
  AND (listed.place > :max_keys OR listed.bytes > :max_bytes)

-- name: sweep_kept_responses
DELETE FROM kept_responses
WHERE (caller_id, key_hash) IN (
    SELECT caller_id, key_hash FROM kept_responses
    WHERE created_at <= :before ORDER BY created_at LIMIT :limit
)

-- name: delete_kept_responses_of_user
DELETE FROM kept_responses WHERE caller_id = :caller_id
