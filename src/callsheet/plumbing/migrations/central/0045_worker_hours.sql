-- needs code: any
--
-- How busy each worker was, by hour. A minute is added once, by the control plane that samples it.

CREATE TABLE worker_hours (
    worker_id       text NOT NULL,
    at              timestamptz NOT NULL,
    -- The sum of the shares of its slots that were in use, one share per sampled minute.
    busy_minutes    double precision NOT NULL CHECK (busy_minutes >= 0),
    minutes         integer NOT NULL CHECK (minutes > 0),
    PRIMARY KEY (worker_id, at)
) WITH (fillfactor = 70);
CREATE INDEX worker_hours_at ON worker_hours USING brin (at) WITH (pages_per_range = 16);
