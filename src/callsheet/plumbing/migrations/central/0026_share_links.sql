-- Public links to results. In central, so that one query says whether a link is good: it has expired or was revoked, its user or
-- tenant was disabled. Tokens are 256 random bits: one round of SHA-256 is enough, and lets a link be found by its index.
CREATE TABLE share_links (
    id              uuid PRIMARY KEY,
    token_hash      bytea NOT NULL UNIQUE CHECK (length(token_hash) = 32),
    tenant_id       uuid NOT NULL,
    user_id         uuid NOT NULL,
    -- In the tenant's pool, which says whether it is still there.
    job_id          uuid NOT NULL,
    shows_prompt    boolean NOT NULL,
    shows_input     boolean NOT NULL,
    created_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at      timestamptz NOT NULL,
    revoked_at      timestamptz,
    -- Written behind the requests.
    opened          bigint NOT NULL DEFAULT 0 CHECK (opened >= 0),
    last_opened_at  timestamptz,
    FOREIGN KEY (tenant_id, user_id) REFERENCES users (tenant_id, id),
    CHECK (expires_at > created_at)
);
CREATE INDEX share_links_of_user ON share_links (user_id, id);
CREATE INDEX share_links_by_end ON share_links ((least(expires_at, revoked_at)));
