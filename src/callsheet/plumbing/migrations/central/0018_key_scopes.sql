-- What a key may do of what its user may, and until when. Keys from before have no scopes and are not limited.
ALTER TABLE api_keys ADD COLUMN scopes text[]
    CHECK (cardinality(scopes) > 0 AND scopes <@ ARRAY['read', 'submit', 'admin']);
ALTER TABLE api_keys ADD COLUMN expires_at timestamptz;
