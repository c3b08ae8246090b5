-- Budgets: how many tokens the jobs of a tenant may take in a day, a week or a month.
--
-- Order of locks, in every transaction that takes tokens or gives them back: the users (the rows of their wallets), then
-- for each tenant its own wallet if it pays, and its budgets (budgets_lock), then jobs, then stream counters; each in the
-- order of tenant and user. Budgets have one lock per tenant, so that a transaction with jobs of several users cannot meet
-- another one in the middle. The wallet of a tenant comes after its users: a transaction that is slow with one user must
-- not hold up all others.

CREATE TABLE budgets (
    tenant_id    uuid NOT NULL,
    id           uuid NOT NULL,
    name         text NOT NULL,
    user_id      uuid,
    key_id       uuid,
    provider     text,
    period       text NOT NULL,
    time_zone    text NOT NULL,
    token_limit  bigint NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant_id, id),
    CONSTRAINT one_budget_per_name UNIQUE (tenant_id, name),
    CONSTRAINT tenant_is_in_this_pool FOREIGN KEY (tenant_id) REFERENCES pool_tenants (tenant_id),
    CONSTRAINT name_is_not_empty CHECK (name <> ''),
    CONSTRAINT provider_is_not_empty CHECK (provider <> ''),
    CONSTRAINT period_is_known CHECK (period IN ('day', 'week', 'month')),
    CONSTRAINT token_limit_fits_a_wallet CHECK (token_limit BETWEEN 0 AND 9007199254740992)
);
COMMENT ON TABLE budgets IS 'A limit of the tokens that jobs of a tenant take in each period.';
COMMENT ON COLUMN budgets.user_id IS 'Only jobs of this user, in central. NULL: of every user.';
COMMENT ON COLUMN budgets.key_id IS 'Only jobs that this API key submitted, in central. NULL: all jobs.';
COMMENT ON COLUMN budgets.provider IS 'Only jobs that this provider executes. NULL: all jobs.';
COMMENT ON COLUMN budgets.time_zone IS 'Name of the time zone in which the period begins at midnight.';

CREATE TABLE budget_periods (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant_id    uuid NOT NULL,
    budget_id    uuid NOT NULL,
    first_day    date NOT NULL,
    taken        bigint NOT NULL DEFAULT 0,
    most         bigint NOT NULL,
    warned_at    timestamptz,
    reached_at   timestamptz,
    CONSTRAINT one_row_per_period UNIQUE (tenant_id, budget_id, first_day),
    CONSTRAINT budget_exists FOREIGN KEY (tenant_id, budget_id) REFERENCES budgets (tenant_id, id) ON DELETE CASCADE,
    CONSTRAINT taken_is_not_negative CHECK (taken >= 0),
    CONSTRAINT budget_is_never_exceeded CHECK (taken <= most)
) WITH (fillfactor = 50);
COMMENT ON TABLE budget_periods IS 'What was taken of a budget in a period. A line of the ledger names the rows that it counts in.';
COMMENT ON COLUMN budget_periods.first_day IS 'The first day of the period, in the time zone of the budget.';
COMMENT ON COLUMN budget_periods.taken IS 'Tokens that jobs hold or have spent. A refund of a later period counts here, too.';
COMMENT ON COLUMN budget_periods.most IS
    'The limit. If the limit was lowered below what was taken before, what was taken before.';
COMMENT ON COLUMN budget_periods.warned_at IS 'When 80 % of the limit were taken for the first time.';
COMMENT ON COLUMN budget_periods.reached_at IS 'When the whole limit was taken, or the first job was refused.';

-- The tenant knows whether it has budgets. The caller holds their lock, which is the row that is changed.
CREATE FUNCTION budget_is_known() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        UPDATE pool_tenants SET has_budgets = true WHERE tenant_id = NEW.tenant_id AND NOT has_budgets;
    ELSE
        UPDATE pool_tenants SET has_budgets = EXISTS (SELECT FROM budgets WHERE tenant_id = OLD.tenant_id)
            WHERE tenant_id = OLD.tenant_id;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER budget_is_new AFTER INSERT ON budgets FOR EACH ROW EXECUTE FUNCTION budget_is_known();
CREATE TRIGGER budget_is_gone AFTER DELETE ON budgets FOR EACH ROW EXECUTE FUNCTION budget_is_known();

-- The moment at which a day begins. Where the clock is put back over midnight, midnight comes twice, and PostgreSQL takes
-- the second; where it is put forward over midnight, the day begins at 1:00.
CREATE FUNCTION day_begins(the_day date, the_zone text) RETURNS timestamptz LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN ((midnight - interval '1 hour') AT TIME ZONE the_zone)::date = the_day
        THEN midnight - interval '1 hour' ELSE midnight END
    FROM (SELECT the_day::timestamp AT TIME ZONE the_zone AS midnight) m
$$;

-- The first day of the period that a moment is in.
CREATE FUNCTION budget_day(the_period text, the_zone text, the_time timestamptz) RETURNS date LANGUAGE sql STABLE AS $$
    SELECT date_trunc(the_period, the_time AT TIME ZONE the_zone)::date
$$;

-- When the period ends that begins with a day.
CREATE FUNCTION budget_resets(the_period text, the_zone text, the_day date) RETURNS timestamptz LANGUAGE sql STABLE AS $$
    SELECT day_begins((the_day + ('1 ' || the_period)::interval)::date, the_zone)
$$;

-- The lock of all budgets of a tenant. It is taken after the locks of wallets.
CREATE FUNCTION budgets_lock(the_tenant uuid) RETURNS boolean LANGUAGE sql VOLATILE AS $$
    SELECT true FROM pool_tenants WHERE tenant_id = the_tenant FOR NO KEY UPDATE
$$;

-- The budgets that count a job, with what their current periods have taken. VOLATILE: called after budgets_lock, it sees
-- what was committed meanwhile.
CREATE FUNCTION budgets_of(the_tenant uuid, the_user uuid, the_key uuid, the_provider text)
    RETURNS TABLE (id uuid, name text, token_limit bigint, period text, time_zone text, first_day date, taken bigint)
    LANGUAGE sql VOLATILE AS $$
    SELECT b.id, b.name, b.token_limit, b.period, b.time_zone, day.first_day, coalesce(p.taken, 0)
    FROM budgets b
    CROSS JOIN LATERAL (SELECT budget_day(b.period, b.time_zone, now.now) AS first_day
        FROM (SELECT clock_timestamp() AS now) now) day
    LEFT JOIN budget_periods p ON p.tenant_id = b.tenant_id AND p.budget_id = b.id AND p.first_day = day.first_day
    WHERE b.tenant_id = the_tenant AND coalesce(b.user_id = the_user, b.user_id IS NULL)
      AND coalesce(b.key_id = the_key, b.key_id IS NULL) AND coalesce(b.provider = the_provider, b.provider IS NULL)
$$;

-- The budget that has no room for a job: the one that resets last. NULL: all have room.
CREATE FUNCTION budget_refusal(the_tenant uuid, the_user uuid, the_key uuid, the_provider text, the_cost bigint)
    RETURNS jsonb LANGUAGE sql VOLATILE AS $$
    SELECT jsonb_build_object('budget_id', id, 'budget', name, 'limit', token_limit, 'taken', taken,
        'resets_at', resets_at, 'wait_seconds', ceil(extract(epoch FROM resets_at - clock_timestamp())))
    FROM (
        SELECT id, name, token_limit, taken, budget_resets(period, time_zone, first_day) AS resets_at
        FROM budgets_of(the_tenant, the_user, the_key, the_provider)
        WHERE the_cost > 0 AND taken + the_cost > token_limit
    ) full_budget
    ORDER BY resets_at DESC, id LIMIT 1
$$;

-- Takes the tokens of a job from all budgets that count it, and returns the rows in which they count. A caller that has
-- found room before may still get budget_is_never_exceeded: two jobs of one statement do not see each other.
CREATE FUNCTION budgets_take(the_tenant uuid, the_user uuid, the_key uuid, the_provider text, the_cost bigint)
    RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE
    counting record;
    period_id bigint;
    now timestamptz := clock_timestamp();
    taken_from bigint[];
BEGIN
    IF the_cost = 0 THEN
        RETURN NULL;
    END IF;
    FOR counting IN SELECT id, token_limit, first_day FROM budgets_of(the_tenant, the_user, the_key, the_provider) LOOP
        INSERT INTO budget_periods AS p (tenant_id, budget_id, first_day, taken, most, warned_at, reached_at)
            VALUES (the_tenant, counting.id, counting.first_day, the_cost, counting.token_limit,
                CASE WHEN the_cost >= 0.8 * counting.token_limit THEN now END,
                CASE WHEN the_cost = counting.token_limit THEN now END)
            ON CONFLICT (tenant_id, budget_id, first_day) DO UPDATE SET taken = p.taken + the_cost,
                warned_at = coalesce(p.warned_at, CASE WHEN p.taken + the_cost >= 0.8 * counting.token_limit THEN now END),
                reached_at = coalesce(p.reached_at, CASE WHEN p.taken + the_cost = counting.token_limit THEN now END)
            WHERE p.taken + the_cost <= counting.token_limit
            RETURNING p.id INTO period_id;
        IF period_id IS NULL THEN
            RAISE EXCEPTION 'the budget % has no room for % tokens', counting.id, the_cost
                USING ERRCODE = 'check_violation', CONSTRAINT = 'budget_is_never_exceeded';
        END IF;
        taken_from := array_append(taken_from, period_id);
    END LOOP;
    RETURN taken_from;
END $$;

-- A budget has refused a job. True if that is the first time in this period.
CREATE FUNCTION budget_refused(the_tenant uuid, the_budget uuid) RETURNS boolean LANGUAGE sql VOLATILE AS $$
    INSERT INTO budget_periods AS p (tenant_id, budget_id, first_day, most, reached_at)
    SELECT tenant_id, id, budget_day(period, time_zone, clock_timestamp()), token_limit, clock_timestamp()
    FROM budgets WHERE tenant_id = the_tenant AND id = the_budget
    ON CONFLICT (tenant_id, budget_id, first_day) DO UPDATE SET reached_at = excluded.reached_at
    WHERE p.reached_at IS NULL
    RETURNING true
$$;

-- Gives tokens back to the periods from which they were taken. A budget that was deleted has no rows any more.
CREATE FUNCTION budgets_give_back(the_periods bigint[], the_tokens bigint) RETURNS void LANGUAGE sql VOLATILE AS $$
    UPDATE budget_periods SET taken = taken - the_tokens WHERE id = ANY (the_periods)
$$;

-- For webhooks: 80 % of a budget were taken, or all of it, for the first time in this period. They are taken under the
-- lock of the budgets, so events of a budget are in order.
CREATE FUNCTION budget_announce() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM deliveries_announce(b.tenant_id, b.user_id, 'budget.reached', b.id, NULL, NULL, jsonb_build_object(
        'id', b.id, 'name', b.name, 'user_id', b.user_id, 'provider', b.provider, 'period', b.period,
        'first_day', NEW.first_day,
        'resets_at', time_of_event(budget_resets(b.period, b.time_zone, NEW.first_day)),
        'token_limit', b.token_limit, 'taken', NEW.taken,
        'is_reached', NEW.reached_at IS NOT NULL AND (TG_OP = 'INSERT' OR OLD.reached_at IS NULL)))
    FROM budgets b WHERE b.tenant_id = NEW.tenant_id AND b.id = NEW.budget_id;
    RETURN NULL;
END $$;
CREATE TRIGGER budget_is_taken_at_once AFTER INSERT ON budget_periods
    FOR EACH ROW WHEN (NEW.warned_at IS NOT NULL OR NEW.reached_at IS NOT NULL) EXECUTE FUNCTION budget_announce();
CREATE TRIGGER budget_is_taken AFTER UPDATE ON budget_periods
    FOR EACH ROW WHEN (OLD.warned_at IS NULL AND NEW.warned_at IS NOT NULL
        OR OLD.reached_at IS NULL AND NEW.reached_at IS NOT NULL)
    EXECUTE FUNCTION budget_announce();
