-- People see their sessions and end them one by one. The id names a session; it opens nothing.
ALTER TABLE browser_sessions
    ADD COLUMN id            uuid NOT NULL DEFAULT gen_random_uuid() UNIQUE,
    ADD COLUMN last_seen_at  timestamptz,
    ADD COLUMN address       text,
    -- Browser and system, for example Firefox on Linux: what a person recognises of the User-Agent.
    ADD COLUMN device        text CHECK (length(device) <= 100);
