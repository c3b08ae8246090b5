-- needs code: any
--
-- Counted jobs and sampled states by minute, ten minutes and hour, for charts. Each row is computed anew from what it
-- counts until its time is over, so a crash or a second control plane counts nothing twice.

-- In which part of a histogram a duration falls: the parts grow by a quarter, from 0.05 seconds to 18 hours.
CREATE FUNCTION histogram_bucket(seconds double precision) RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN least(63, greatest(0, floor(ln(greatest(seconds, 0.05) / 0.05) / ln(1.25))))::integer;

-- The 64 counts of a histogram.
CREATE FUNCTION histogram(seconds double precision[]) RETURNS integer[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN ARRAY (
    SELECT coalesce(counted.number, 0)::integer
    FROM generate_series(0, 63) AS bucket
    LEFT JOIN (
        SELECT histogram_bucket(each) AS bucket, count(*) AS number FROM unnest(seconds) AS each
        WHERE each IS NOT NULL GROUP BY 1
    ) counted USING (bucket)
    ORDER BY bucket);

CREATE TABLE finished_jobs_by_time (
    step_seconds    integer NOT NULL CHECK (step_seconds IN (60, 600, 3600)),
    at              timestamptz NOT NULL,
    -- 0: all workflows together.
    workflow_id     bigint NOT NULL CHECK (workflow_id >= 0),
    completed       integer NOT NULL CHECK (completed >= 0),
    failed          integer NOT NULL CHECK (failed >= 0),
    canceled        integer NOT NULL CHECK (canceled >= 0),
    expired         integer NOT NULL CHECK (expired >= 0),
    -- Of jobs that were leased: the time in the queue. Of completed jobs: the time of the last run.
    waits           integer[] NOT NULL CHECK (cardinality(waits) = 64),
    runs            integer[] NOT NULL CHECK (cardinality(runs) = 64),
    PRIMARY KEY (step_seconds, workflow_id, at)
) WITH (fillfactor = 70);

CREATE TABLE queue_samples (
    step_seconds    integer NOT NULL CHECK (step_seconds IN (60, 600, 3600)),
    at              timestamptz NOT NULL,
    workflow_id     bigint NOT NULL CHECK (workflow_id >= 0),
    -- The mean of the samples in this time.
    queued          double precision NOT NULL CHECK (queued >= 0),
    running         double precision NOT NULL CHECK (running >= 0),
    PRIMARY KEY (step_seconds, workflow_id, at)
) WITH (fillfactor = 70);

CREATE TABLE fleet_samples (
    step_seconds    integer NOT NULL CHECK (step_seconds IN (60, 600, 3600)),
    at              timestamptz NOT NULL,
    busy_workers    double precision NOT NULL,
    idle_workers    double precision NOT NULL,
    draining_workers double precision NOT NULL,
    -- Jobs that the live workers can run at once, and how many they run.
    slots           double precision NOT NULL,
    busy_slots      double precision NOT NULL,
    -- NULL if a pool was not available.
    tokens_held     double precision,
    PRIMARY KEY (step_seconds, at)
) WITH (fillfactor = 70);

-- Until when finished jobs are counted. One row.
CREATE TABLE statistics_progress (
    only_row        boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    counted_until   timestamptz NOT NULL
);
