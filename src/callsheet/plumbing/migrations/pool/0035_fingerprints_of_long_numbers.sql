-- Numbers of eight and more digits no longer change the fingerprint of an error: all fingerprints are computed again.
-- needs code: 0001
--
-- The constraint of `backfills` is replaced by a wider one: all earlier code works with it. The previous release ignores the
-- new name. A row of the earlier name, if its work was not finished, has no effect any more.
ALTER TABLE backfills DROP CONSTRAINT backfills_name_check;
ALTER TABLE backfills ADD CONSTRAINT backfills_name_check
    CHECK (name IN ('job_descriptions', 'file_previews', 'error_fingerprints', 'error_fingerprints_2')) NOT VALID;
INSERT INTO backfills (name) SELECT 'error_fingerprints_2' WHERE EXISTS (SELECT FROM ai_jobs);
