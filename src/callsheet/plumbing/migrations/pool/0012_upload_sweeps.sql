-- Uploads whose folder in storage may hold more than was accepted: what the signed URL was used for after the upload was
-- confirmed, and copies of confirmations that crashed. Written with the upload, so that no crash comes before it.
CREATE TABLE upload_sweeps (
    tenant_id  uuid NOT NULL,
    file_id    uuid NOT NULL,
    -- The storage backend it was uploaded to; another one's objects cannot be reached.
    disk       text NOT NULL,
    since      timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, file_id)
);
CREATE INDEX upload_sweeps_by_age ON upload_sweeps (disk, since);

INSERT INTO upload_sweeps (tenant_id, file_id, disk, since)
SELECT tenant_id, id, disk, expires_at FROM files WHERE status = 'pending';
