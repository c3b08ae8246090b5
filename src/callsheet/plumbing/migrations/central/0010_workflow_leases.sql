-- How long a lease of the workflow's jobs lasts without a heartbeat, and how often a job is tried; null means the setting.
ALTER TABLE workflows
    ADD COLUMN lease_seconds integer CHECK (lease_seconds > 0),
    ADD COLUMN max_attempts integer CHECK (max_attempts > 0);
