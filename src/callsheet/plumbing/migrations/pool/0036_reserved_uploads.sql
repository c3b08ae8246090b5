-- needs code: any
--
-- The bytes that a client can still write with the URL of an upload that was confirmed, and that no file counts. They count
-- for new uploads until the URL has expired and the folder is swept. 0 in local storage, which refuses such a request. The
-- user is NULL in rows of control planes that do not know the column; these rows reserve nothing.
ALTER TABLE upload_sweeps ADD COLUMN user_id uuid, ADD COLUMN reserved_bytes bigint NOT NULL DEFAULT 0;
