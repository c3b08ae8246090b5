-- database: central
-- owns: ledger_audits, ledger_audit_pools

-- name: request_audit
-- Returns no row if an audit is running.
INSERT INTO ledger_audits (requested_by) VALUES (:requested_by) ON CONFLICT DO NOTHING RETURNING id

-- name: add_pools
INSERT INTO ledger_audit_pools (audit_id, pool) SELECT :audit_id, name FROM pools

-- name: running_audit
SELECT id FROM ledger_audits WHERE finished_at IS NULL

-- name: delete_old_audits
DELETE FROM ledger_audits
WHERE id < (SELECT id FROM ledger_audits ORDER BY id DESC OFFSET :kept LIMIT 1) AND finished_at IS NOT NULL

-- name: list_audits
SELECT a.id, a.requested_by, u.email AS requested_by_email, a.requested_at, a.finished_at
FROM ledger_audits a
LEFT JOIN users u ON u.id = user_of_actor(a.requested_by)
WHERE a.id < coalesce(:before, 9223372036854775807)
ORDER BY a.id DESC LIMIT :limit

-- name: pools_of_audits
SELECT audit_id, pool, started_at, finished_at, error, wallets, transactions, balance, held, credited, spent, findings,
    CASE WHEN :with_findings THEN first_findings END AS first_findings
FROM ledger_audit_pools
WHERE audit_id = ANY (:audit_ids::bigint[])
ORDER BY audit_id, pool

-- name: claim_pool
UPDATE ledger_audit_pools p
SET claim = :claim, claimed_until = clock_timestamp() + make_interval(secs => :seconds), started_at = clock_timestamp()
FROM (
    SELECT each.audit_id, each.pool FROM ledger_audit_pools each
    JOIN ledger_audits a ON a.id = each.audit_id AND a.finished_at IS NULL
    WHERE each.finished_at IS NULL AND (each.claimed_until IS NULL OR each.claimed_until < clock_timestamp())
    ORDER BY each.audit_id, each.pool LIMIT 1 FOR UPDATE OF each SKIP LOCKED
) next
WHERE p.audit_id = next.audit_id AND p.pool = next.pool
RETURNING p.audit_id, p.pool

-- name: renew_claim
UPDATE ledger_audit_pools SET claimed_until = clock_timestamp() + make_interval(secs => :seconds)
WHERE audit_id = :audit_id AND pool = :pool AND claim = :claim

-- name: finish_pool
-- Changes nothing if another process has taken over the pool.
UPDATE ledger_audit_pools
SET finished_at = clock_timestamp(), claim = NULL, claimed_until = NULL, error = :error, wallets = :wallets,
    transactions = :transactions, balance = :balance, held = :held, credited = :credited, spent = :spent,
    findings = :findings, first_findings = :first_findings::jsonb
WHERE audit_id = :audit_id AND pool = :pool AND claim = :claim

-- name: lock_audit
-- Of two pools that finish at once, the second one sees the first.
SELECT id FROM ledger_audits WHERE id = :audit_id FOR UPDATE

-- name: finish_audit
-- Only if all pools are finished. `lock_audit` comes first in the same transaction: otherwise two processes that finish
-- the last two pools could each see the other pool as open.
UPDATE ledger_audits SET finished_at = clock_timestamp()
WHERE id = :audit_id AND finished_at IS NULL
  AND NOT EXISTS (SELECT FROM ledger_audit_pools p WHERE p.audit_id = :audit_id AND p.finished_at IS NULL)
