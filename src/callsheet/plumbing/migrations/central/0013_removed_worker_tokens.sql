-- The tokens of workers that were removed because they were silent too long. Only the hash, and only to answer one question:
-- may the holder of this token be told to register again? A token is 256 random bits, so nobody but its worker can ask.
CREATE TABLE removed_worker_tokens (
    token_hash  bytea PRIMARY KEY CHECK (length(token_hash) = 32),
    session_id  bigint NOT NULL REFERENCES worker_sessions (id) ON DELETE CASCADE,
    removed_at  timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX removed_worker_tokens_by_age ON removed_worker_tokens (removed_at);
CREATE INDEX removed_worker_tokens_of_session ON removed_worker_tokens (session_id);
