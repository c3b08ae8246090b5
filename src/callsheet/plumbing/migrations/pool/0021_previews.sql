-- Thumbnails, posters and clips of uploads and outputs: what is to be made, and what there is. Files from before this have none.
CREATE TABLE file_previews (
    tenant_id         uuid NOT NULL,
    file_id           uuid NOT NULL,
    kind              text NOT NULL CHECK (kind IN ('image', 'video')),
    -- none: there will never be one.
    status            text NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'ready', 'none')),
    -- When it is to be made. A control plane that makes it moves this time, so that another one tries if it dies.
    due_at            timestamptz DEFAULT clock_timestamp(),
    attempts          integer NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    -- Of the original, as it is shown.
    width             integer CHECK (width > 0),
    height            integer CHECK (height > 0),
    duration_seconds  double precision CHECK (duration_seconds > 0),
    has_clip          boolean NOT NULL DEFAULT false,
    PRIMARY KEY (tenant_id, file_id),
    FOREIGN KEY (tenant_id, file_id) REFERENCES files (tenant_id, id) ON DELETE CASCADE,
    CHECK ((status = 'pending') = (due_at IS NOT NULL)),
    CHECK ((status = 'ready') = (width IS NOT NULL AND height IS NOT NULL))
) WITH (fillfactor = 50);
CREATE INDEX previews_due ON file_previews (kind, tenant_id, due_at) WHERE due_at IS NOT NULL;

-- Whatever writes a file, in its transaction: no file that can be read is forgotten.
CREATE FUNCTION preview_is_due() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO file_previews (tenant_id, file_id, kind)
        VALUES (NEW.tenant_id, NEW.id, split_part(NEW.mime_type, '/', 1))
        ON CONFLICT (tenant_id, file_id) DO NOTHING;
    RETURN NULL;
END $$;

-- A drawing in XML can be shown and not decoded. A thumbnail needs none of its own.
CREATE FUNCTION has_preview(mime_type text, path text) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT (starts_with(mime_type, 'image/') OR starts_with(mime_type, 'video/')) AND NOT mime_type LIKE '%xml'
        AND NOT path LIKE '%/thumbnails/%'
$$;

CREATE TRIGGER preview_of_new_file AFTER INSERT ON files FOR EACH ROW
    WHEN (NEW.status = 'ready' AND has_preview(NEW.mime_type, NEW.path)) EXECUTE FUNCTION preview_is_due();
CREATE TRIGGER preview_of_confirmed_file AFTER UPDATE OF status ON files FOR EACH ROW
    WHEN (NEW.status = 'ready' AND OLD.status <> 'ready' AND has_preview(NEW.mime_type, NEW.path))
    EXECUTE FUNCTION preview_is_due();
