-- database: pool
-- owns: token_transactions, token_wallets

-- name: credit
-- The same payment twice is one credit: the transaction is unique per payment of the provider.
WITH locked_wallet AS MATERIALIZED (
    SELECT wallet_lock(:tenant_id, :owner_id) AS balance
)
SELECT wallet_move(:tenant_id, :owner_id, 'PAYMENT_CREDIT', :amount, NULL, NULL, :provider_transaction_id,
    from_tenant => :owner_id = :tenant_id) AS balance
FROM locked_wallet

-- name: debit
-- Takes tokens back, if the balance has them.
WITH locked_wallet AS MATERIALIZED (
    SELECT wallet_lock(:tenant_id, :owner_id) AS balance
)
SELECT balance AS balance_before, CASE WHEN balance >= :amount THEN wallet_move(
    :tenant_id, :owner_id, 'PAYMENT_DEBIT', -:amount::bigint, NULL, NULL, :provider_transaction_id, :note,
    from_tenant => :owner_id = :tenant_id) END AS balance
FROM locked_wallet

-- name: find_payment
-- The row is locked for the standbys: see jobs/machine, find_by_idempotency_key.
SELECT user_id AS owner_id, amount FROM token_transactions
WHERE tenant_id = :tenant_id AND provider_transaction_id = :provider_transaction_id AND type = :type
FOR KEY SHARE

-- name: balance
SELECT coalesce((SELECT balance FROM token_wallets WHERE tenant_id = :tenant_id AND owner_id = :owner_id), 0)

-- name: get_wallet
-- A wallet, and whether the tenant pays for its users now. There is a row even if the wallet was never used.
SELECT coalesce(w.balance, 0) AS balance, wallet_held(:tenant_id, :owner_id) AS held,
    t.pays_for_users AS paid_by_tenant
FROM pool_tenants t LEFT JOIN token_wallets w ON w.tenant_id = t.tenant_id AND w.owner_id = :owner_id
WHERE t.tenant_id = :tenant_id

-- name: get_payer
-- The wallet that pays for the next job of a user, and what the user's own active jobs hold.
SELECT balance, user_held(:tenant_id, :user_id) AS held, paid_by_tenant FROM payer_balance(:tenant_id, :user_id)

-- name: pays_for_users
SELECT pays_for_users FROM pool_tenants WHERE tenant_id = :tenant_id

-- name: list_holds
-- Reads jobs, which belong to another room and are in the same database.
SELECT job.id AS job_id, job.cost AS amount, described.title, described.input_name, job.status,
    job.submitted_at AS since
FROM (
    SELECT tenant_id, user_id, id, cost, status, submitted_at FROM ai_jobs
    WHERE tenant_id = :tenant_id AND user_id = :user_id AND completed_at IS NULL AND cost > 0
      AND id < coalesce(:before, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid)
    ORDER BY id DESC LIMIT :limit
) job
LEFT JOIN job_descriptions described
    ON described.tenant_id = job.tenant_id AND described.user_id = job.user_id AND described.job_id = job.id
ORDER BY job.id DESC

-- part: line_and_job
-- job_status is NULL for a charge cycle that the job was retried after: the job's status is that of a later cycle.
line.id, line.user_id, line.of_tenant, line.type, line.amount, line.kept, line.job_id, line.charge_cycle,
line.provider_transaction_id, line.created_at, line.note, job.cost,
CASE WHEN job.charge_cycle = line.charge_cycle THEN job.status END AS job_status, described.title, described.input_name

-- part: line_columns
tenant_id, user_id, of_tenant, id, type, amount, kept, job_id, charge_cycle, provider_transaction_id, created_at, note

-- part: with_job
LEFT JOIN ai_jobs job ON job.tenant_id = line.tenant_id AND job.id = line.job_id
LEFT JOIN job_descriptions described
    ON described.tenant_id = line.tenant_id AND described.user_id = line.user_id AND described.job_id = line.job_id

-- name: list_transactions
-- What happened with tokens of a user: payments of the user, and jobs, from either wallet.
SELECT {line_and_job}
FROM (
    SELECT {line_columns} FROM token_transactions
    WHERE tenant_id = :tenant_id AND user_id = :user_id AND id < coalesce(:before, 9223372036854775807)
    ORDER BY id DESC LIMIT :limit
) line {with_job}
ORDER BY line.id DESC

-- name: list_transactions_of_tenant
-- What happened with the wallet of the tenant: its payments, and the jobs of all users. By -id, which only the index of
-- these lines has: by id, PostgreSQL takes the primary key for a tenant with many lines, and reads the lines of other
-- tenants that are newer (measured: 2,259 instead of 209 blocks with 100,000 of them).
SELECT {line_and_job}
FROM (
    SELECT {line_columns} FROM token_transactions
    WHERE tenant_id = :tenant_id AND of_tenant AND -id > -coalesce(:before, 9223372036854775807)
    ORDER BY -id LIMIT :limit
) line {with_job}
ORDER BY line.id DESC

-- name: ledger_totals
-- What the whole pool has. Reads tables from one end to the other. Tokens that jobs took are spent or still held.
SELECT w.wallets, t.transactions, w.balance, j.held, t.credited, t.taken - j.held AS spent
FROM (SELECT count(*) AS wallets, coalesce(sum(balance), 0) AS balance FROM token_wallets) w
CROSS JOIN (
    SELECT count(*) AS transactions,
        coalesce(sum(amount) FILTER (WHERE type IN ('PAYMENT_CREDIT', 'PAYMENT_DEBIT')), 0) AS credited,
        -coalesce(sum(amount) FILTER (WHERE job_id IS NOT NULL), 0) AS taken
    FROM token_transactions
) t
CROSS JOIN (SELECT coalesce(sum(cost), 0) AS held FROM ai_jobs WHERE completed_at IS NULL) j

-- name: transactions_of_job
SELECT {line_and_job}
FROM token_transactions line {with_job}
WHERE line.tenant_id = :tenant_id AND line.job_id = :job_id
ORDER BY line.charge_cycle DESC, line.id DESC LIMIT :limit

-- name: audit_balances
-- A balance is the sum of its transactions and never negative. There are no transactions without a wallet.
SELECT tenant_id, owner_id, w.balance, coalesce(sum(t.amount), 0) AS total
FROM token_wallets w
FULL JOIN (
    SELECT tenant_id, CASE WHEN of_tenant THEN tenant_id ELSE user_id END AS owner_id, amount FROM token_transactions
) t USING (tenant_id, owner_id)
GROUP BY tenant_id, owner_id, w.balance
HAVING w.balance IS DISTINCT FROM coalesce(sum(t.amount), 0) OR w.balance < 0

-- name: audit_settlements
-- Each charge cycle of a job has one reserve, of the job's cost and user. It has one settlement if the cycle has
-- ended, and none before. A refund gives back the reserved tokens, without those that a canceled job had spent. All
-- lines of a cycle are of one wallet (`wallets`), those of the last cycle of the one that the job names
-- (`is_misplaced`).
WITH charge_cycles AS (
    SELECT j.tenant_id, j.id AS job_id, j.user_id, j.cost, c.number AS charge_cycle,
        CASE WHEN c.number < j.charge_cycle THEN 'retried' ELSE j.status END AS status,
        CASE WHEN c.number = j.charge_cycle THEN j.paid_by_tenant END AS paid_by_tenant
    FROM ai_jobs j CROSS JOIN LATERAL generate_series(1, j.charge_cycle) AS c (number)
), cycles_with_totals AS (
    SELECT cycle.tenant_id, cycle.job_id, cycle.user_id, cycle.cost, cycle.charge_cycle, cycle.status,
        count(*) FILTER (WHERE t.type = 'JOB_RESERVE') AS reserves,
        count(*) FILTER (WHERE t.type = 'JOB_CONSUME') AS consumes,
        count(*) FILTER (WHERE t.type = 'JOB_REFUND') AS refunds,
        count(*) FILTER (WHERE t.user_id <> cycle.user_id) AS strangers,
        count(DISTINCT t.of_tenant) AS wallets,
        coalesce(bool_or(t.of_tenant <> cycle.paid_by_tenant), false) AS is_misplaced,
        coalesce(sum(t.amount) FILTER (WHERE t.type = 'JOB_RESERVE'), 0) AS reserved,
        coalesce(sum(t.amount) FILTER (WHERE t.type = 'JOB_REFUND'), 0) AS refunded,
        coalesce(sum(t.kept), 0) AS kept
    FROM charge_cycles cycle LEFT JOIN token_transactions t
        ON t.tenant_id = cycle.tenant_id AND t.job_id = cycle.job_id AND t.charge_cycle = cycle.charge_cycle
    GROUP BY cycle.tenant_id, cycle.job_id, cycle.user_id, cycle.cost, cycle.charge_cycle, cycle.status
)
SELECT tenant_id, user_id, job_id, charge_cycle, status, cost, reserves, consumes, refunds, strangers, wallets,
    is_misplaced, reserved, refunded, kept
FROM cycles_with_totals
WHERE reserves <> 1 OR reserved + cost <> 0 OR strangers > 0 OR wallets > 1 OR is_misplaced
   OR consumes <> CASE WHEN status = 'completed' THEN 1 ELSE 0 END
   OR refunds <> CASE WHEN status IN ('retried', 'failed', 'canceled', 'expired') THEN 1 ELSE 0 END
   OR (refunds = 1 AND reserved + refunded + kept <> 0)
   OR (kept <> 0 AND (status <> 'canceled' OR refunds <> 1))

-- name: audit_room
-- The tokens that active jobs hold fit into the wallet if all are refunded: wallet_credit refuses a credit that would
-- break this. The sum is a numeric, so that it shows also what a bigint cannot hold.
SELECT tenant_id, owner_id, w.balance, held.tokens AS held FROM token_wallets w JOIN (
    SELECT tenant_id, CASE WHEN paid_by_tenant THEN tenant_id ELSE user_id END AS owner_id, sum(cost) AS tokens
    FROM ai_jobs
    WHERE completed_at IS NULL
    GROUP BY 1, 2
) held USING (tenant_id, owner_id)
WHERE w.balance + held.tokens > 9223372036854775807

-- name: audit_strays
-- Transactions of charge cycles that the job never had.
SELECT t.tenant_id, t.user_id, t.job_id, t.charge_cycle, t.type, t.id FROM token_transactions t
LEFT JOIN ai_jobs j ON j.tenant_id = t.tenant_id AND j.id = t.job_id
WHERE t.job_id IS NOT NULL AND (j.id IS NULL OR t.charge_cycle > j.charge_cycle)

-- name: audit_budgets
-- What a budget says was taken in a period is the sum of the reserves that count there, without what was given back,
-- and never more than its limit. Reads budgets, which belong to another room and are in the same database.
SELECT p.tenant_id, b.user_id, p.budget_id, p.first_day, p.taken, p.most, coalesce(counted.tokens, 0) AS tokens
FROM budget_periods p JOIN budgets b ON b.tenant_id = p.tenant_id AND b.id = p.budget_id
LEFT JOIN (
    SELECT period_id, sum(-reserve.amount - coalesce(refund.amount, 0)) AS tokens
    FROM token_transactions reserve CROSS JOIN LATERAL unnest(reserve.budget_periods) AS counts_in (period_id)
    LEFT JOIN token_transactions refund
        ON refund.tenant_id = reserve.tenant_id AND refund.job_id = reserve.job_id
        AND refund.charge_cycle = reserve.charge_cycle AND refund.type = 'JOB_REFUND'
    WHERE reserve.budget_periods IS NOT NULL
    GROUP BY period_id
) counted ON counted.period_id = p.id
WHERE p.taken <> coalesce(counted.tokens, 0) OR p.taken > p.most
