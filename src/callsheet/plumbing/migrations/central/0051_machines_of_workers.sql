-- needs code: any
--
-- What a worker last reported about its machine with a poll: the free space of its disk, and its capabilities, which
-- may have changed since it registered. Apart from the worker, whose row is written each second. Workers that report
-- nothing have no row.
CREATE TABLE worker_machines (
    worker_id        text PRIMARY KEY REFERENCES comfyui_workers (worker_id) ON DELETE CASCADE,
    session_id       bigint NOT NULL,
    disk_free_bytes  bigint CHECK (disk_free_bytes >= 0),
    disk_size_bytes  bigint CHECK (disk_size_bytes >= 0),
    capabilities     jsonb CHECK (jsonb_typeof(capabilities) = 'object'),
    reported_at      timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (fillfactor = 50);
