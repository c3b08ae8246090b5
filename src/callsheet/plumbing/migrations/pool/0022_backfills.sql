-- What is still being written for rows from before a migration, and how far it is. A row goes when its work is done.
CREATE TABLE backfills (
    name       text PRIMARY KEY CHECK (name IN ('job_descriptions', 'file_previews')),
    -- The last row that was looked at, in the order of the primary key.
    tenant_id  uuid NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000',
    id         uuid NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000'
);
INSERT INTO backfills (name) SELECT 'job_descriptions' WHERE EXISTS (SELECT FROM ai_jobs);
INSERT INTO backfills (name) SELECT 'file_previews' WHERE EXISTS (SELECT FROM files);
