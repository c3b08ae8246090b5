-- database: pool
-- owns: budgets, budget_periods

-- part: budget_with_period
-- A budget and its current period. LIMIT makes PostgreSQL look up one period per budget: without it, it reads the
-- periods of all days of the tenant (measured: 5,700 instead of 1,000 blocks for 200 budgets with 25 days).
SELECT b.id, b.name, b.user_id, b.key_id, b.provider, b.period, b.time_zone, b.token_limit,
    coalesce(p.taken, 0) AS taken, day_begins(day.first_day, b.time_zone) AS starts_at,
    budget_resets(b.period, b.time_zone, day.first_day) AS resets_at, p.warned_at, p.reached_at, b.created_at
FROM budgets b
CROSS JOIN LATERAL (SELECT budget_day(b.period, b.time_zone, clock_timestamp()) AS first_day) day
LEFT JOIN LATERAL (
    SELECT taken, warned_at, reached_at FROM budget_periods
    WHERE tenant_id = b.tenant_id AND budget_id = b.id AND first_day = day.first_day
    LIMIT 1
) p ON true

-- name: lock_budgets
SELECT budgets_lock(:tenant_id)

-- name: count_budgets
SELECT count(*) FROM budgets WHERE tenant_id = :tenant_id

-- name: has_time_zone
-- Rules like `EST5EDT,M3.2.0` have no name here, and are not accepted.
SELECT EXISTS (SELECT FROM pg_timezone_names WHERE name = :time_zone)

-- name: create_budget
-- No row if the name is taken.
INSERT INTO budgets (tenant_id, id, name, user_id, key_id, provider, period, time_zone, token_limit)
VALUES (:tenant_id, :id, :name, :user_id, :key_id, :provider, :period, :time_zone, :token_limit)
ON CONFLICT (tenant_id, name) DO NOTHING
RETURNING id

-- name: find_new_budget
-- A budget of the last day that is as it was wanted. Lines of the audit log are kept for longer.
SELECT id FROM budgets
WHERE tenant_id = :tenant_id AND name = :name AND user_id IS NOT DISTINCT FROM :user_id
  AND key_id IS NOT DISTINCT FROM :key_id AND provider IS NOT DISTINCT FROM :provider AND period = :period
  AND time_zone = :time_zone AND token_limit = :token_limit
  AND created_at > clock_timestamp() - interval '1 day'

-- name: list_budgets
{budget_with_period}
WHERE b.tenant_id = :tenant_id AND b.id < coalesce(:before, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid)
ORDER BY b.id DESC LIMIT :limit

-- name: list_budgets_of_user
-- Those of a key may be of a key of another user: the caller finds out in central.
{budget_with_period}
WHERE b.tenant_id = :tenant_id AND (b.user_id IS NULL OR b.user_id = :user_id)
ORDER BY b.id DESC LIMIT :limit

-- name: get_budget
{budget_with_period}
WHERE b.tenant_id = :tenant_id AND b.id = :id

-- name: name_is_taken
SELECT EXISTS (SELECT FROM budgets WHERE tenant_id = :tenant_id AND name = :name AND id <> :id)

-- name: change_budget
-- NULL leaves a value as it is. The caller holds the lock of the budgets.
WITH changed_budget AS (
    UPDATE budgets SET name = coalesce(:name, name), token_limit = coalesce(:token_limit, token_limit)
    WHERE tenant_id = :tenant_id AND id = :id
    RETURNING tenant_id, id, token_limit
), changed_period AS (
    UPDATE budget_periods p SET most = greatest(p.taken, b.token_limit), warned_at = NULL, reached_at = NULL
    FROM changed_budget b
    WHERE p.tenant_id = b.tenant_id AND p.budget_id = b.id AND :token_limit::bigint IS NOT NULL
)
SELECT id FROM changed_budget

-- name: delete_budget
-- Its periods are deleted with it.
DELETE FROM budgets WHERE tenant_id = :tenant_id AND id = :id RETURNING name

-- name: list_periods
-- The periods of a budget in which tokens were taken, newest first.
SELECT first_day, day_begins(first_day, b.time_zone) AS starts_at,
    budget_resets(b.period, b.time_zone, first_day) AS resets_at, p.taken, p.warned_at, p.reached_at
FROM budgets b JOIN budget_periods p ON p.tenant_id = b.tenant_id AND p.budget_id = b.id
WHERE b.tenant_id = :tenant_id AND b.id = :id
ORDER BY first_day DESC LIMIT :limit

-- name: spending
-- The tokens of jobs by the time of their submission: what was reserved and not given back. A job of a tenant is found
-- by its id, which begins with its time.
SELECT to_char(date_trunc(:period, timezone(:time_zone, job.created_at)), 'YYYY-MM-DD') AS first_day,
    CASE :by WHEN 'key' THEN job.key_id::text WHEN 'effect' THEN job.effect_id::text WHEN 'provider' THEN job.provider
        WHEN 'user' THEN job.user_id::text END AS subject,
    count(DISTINCT job.id) AS jobs, (-sum(line.amount))::bigint AS tokens
FROM ai_jobs job JOIN token_transactions line ON line.tenant_id = job.tenant_id AND line.job_id = job.id
WHERE job.tenant_id = :tenant_id AND job.id >= :from_id AND job.id < :to_id
GROUP BY first_day, subject
ORDER BY first_day, tokens DESC, subject LIMIT :limit
