-- needs code: any
--
-- How much of its time each engine of a worker was idle in the last hour, as the worker last reported it. Apart from the
-- worker, whose row is written each second. Workers that report nothing have no row.
CREATE TABLE worker_engine_use (
    worker_id    text PRIMARY KEY REFERENCES comfyui_workers (worker_id) ON DELETE CASCADE,
    session_id   bigint NOT NULL,
    engines      jsonb NOT NULL CHECK (jsonb_typeof(engines) = 'array'),
    reported_at  timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (fillfactor = 50);
