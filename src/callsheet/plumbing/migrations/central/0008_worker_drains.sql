-- A worker whose id is here gets no new jobs. The row belongs to the id, not to a registration: it outlives the worker's own
-- row and stays until an admin undoes the drain. `comfyui_workers.is_draining` is no longer read; a later version removes it.
CREATE TABLE worker_drains (
    worker_id   text PRIMARY KEY CHECK (worker_id <> '' AND length(worker_id) <= 200),
    since       timestamptz NOT NULL DEFAULT clock_timestamp(),
    drained_by  text NOT NULL CHECK (drained_by <> ''),
    reason      text CHECK (reason <> '')
);
INSERT INTO worker_drains (worker_id, drained_by) SELECT worker_id, 'operator' FROM comfyui_workers WHERE is_draining;

-- Which of these workers are drained, for the statements that lease. Leases share the lock and a drain takes it alone, both
-- until they commit: after a drain is committed no lease can follow. VOLATILE, because the rows must be read after the lock
-- was waited for: each statement of a volatile function has a snapshot of its own, while the statement that calls it keeps
-- the one it started with.
CREATE FUNCTION drained_workers(asking text[]) RETURNS text[] VOLATILE LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(hashtextextended('callsheet drains', 0));
    RETURN ARRAY (SELECT worker_id FROM worker_drains WHERE worker_id = ANY (asking));
END
$$;
