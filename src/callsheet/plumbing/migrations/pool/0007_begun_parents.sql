-- Candidates that something was begun to be made of: where only the best of a step go on, they are counted first.
CREATE INDEX begun_parents ON candidates (run_id, position, number) INCLUDE (tenant_id)
    WHERE status = 'active' AND slots > 0;
