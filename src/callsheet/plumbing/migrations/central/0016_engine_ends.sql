-- Attempts that an engine did not survive: few among the lines of the log, and looked for whenever alerts are.
CREATE INDEX worker_audit_logs_engine_ends ON worker_audit_logs (at)
    WHERE event = 'failed' AND details ->> 'type' IN ('engine_stuck', 'run_lost', 'engine_unreachable');
