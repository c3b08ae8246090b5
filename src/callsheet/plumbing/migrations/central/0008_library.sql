-- Public links to results.

CREATE TABLE share_links (
    id              uuid PRIMARY KEY,
    token_hash      bytea NOT NULL,
    tenant_id       uuid NOT NULL,
    user_id         uuid NOT NULL,
    job_id          uuid NOT NULL,
    shows_prompt    boolean NOT NULL,
    shows_input     boolean NOT NULL,
    created_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at      timestamptz NOT NULL,
    revoked_at      timestamptz,
    opened          bigint NOT NULL DEFAULT 0,
    last_opened_at  timestamptz,
    CONSTRAINT one_share_link_per_token UNIQUE (token_hash),
    CONSTRAINT user_exists FOREIGN KEY (tenant_id, user_id) REFERENCES users (tenant_id, id),
    CONSTRAINT token_hash_is_sha256 CHECK (length(token_hash) = 32),
    CONSTRAINT opened_is_not_negative CHECK (opened >= 0),
    CONSTRAINT expires_after_it_was_created CHECK (expires_at > created_at)
);
COMMENT ON TABLE share_links IS
    'A public link to the result of a job. It is in central, so that one query says whether the link is valid: it has '
    'expired or was revoked, or its user or tenant was disabled.';
COMMENT ON COLUMN share_links.token_hash IS
    'SHA-256 of the token. A token is 256 random bits: one round is enough, and the index finds the link.';
COMMENT ON COLUMN share_links.job_id IS 'The job, in the pool of the tenant, which says whether it still exists.';
COMMENT ON COLUMN share_links.opened IS 'How often the link was opened. Written behind the requests.';
CREATE INDEX share_links_of_user ON share_links (user_id, id);
CREATE INDEX share_links_by_end ON share_links ((least(expires_at, revoked_at)));
