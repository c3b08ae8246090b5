-- Audio files get previews, too: their waveform in two sizes, and their duration.
-- needs code: 0001
--
-- The constraints of `file_previews` are replaced by wider ones: all earlier code works with them. The previous release makes
-- no previews of audio files, and shows them as pending.
ALTER TABLE file_previews DROP CONSTRAINT file_previews_kind_check;
ALTER TABLE file_previews ADD CONSTRAINT file_previews_kind_check CHECK (kind IN ('image', 'video', 'audio')) NOT VALID;
-- Sound has no width and height.
ALTER TABLE file_previews DROP CONSTRAINT file_previews_check1;
ALTER TABLE file_previews ADD CONSTRAINT file_previews_size_check
    CHECK ((status = 'ready' AND kind <> 'audio') = (width IS NOT NULL AND height IS NOT NULL)) NOT VALID;

-- A drawing in XML can be shown and not decoded. A thumbnail needs none of its own.
CREATE FUNCTION has_preview_2(mime_type text, path text) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT split_part(mime_type, '/', 1) IN ('image', 'video', 'audio') AND NOT mime_type LIKE '%xml'
        AND NOT path LIKE '%/thumbnails/%'
$$;

CREATE FUNCTION previews_are_due_2() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO file_previews (tenant_id, file_id, kind)
        SELECT tenant_id, id, split_part(mime_type, '/', 1) FROM added
        WHERE status = 'ready' AND has_preview_2(mime_type, path)
        ON CONFLICT (tenant_id, file_id) DO NOTHING;
    RETURN NULL;
END $$;

CREATE TRIGGER previews_of_new_files_2 AFTER INSERT ON files REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION previews_are_due_2();
DROP TRIGGER previews_of_new_files ON files;
CREATE TRIGGER preview_of_confirmed_file_2 AFTER UPDATE OF status ON files FOR EACH ROW
    WHEN (NEW.status = 'ready' AND OLD.status <> 'ready' AND has_preview_2(NEW.mime_type, NEW.path))
    EXECUTE FUNCTION preview_is_due();
DROP TRIGGER preview_of_confirmed_file ON files;
