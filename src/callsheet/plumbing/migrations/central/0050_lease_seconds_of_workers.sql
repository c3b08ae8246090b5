-- needs code: any
--
-- Jobs that start and end between two samples of a worker count, too: a sample keeps the sum of the seconds of all leases
-- of the session, and the next sample adds the difference. NULL in hours from before.

ALTER TABLE worker_hours
    ADD COLUMN sampled_at timestamptz,
    ADD COLUMN session_id bigint,
    ADD COLUMN lease_seconds double precision;
