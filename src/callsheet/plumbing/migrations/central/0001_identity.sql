-- Where tenants live. A pool is a database on central's own server, or anywhere else by a sealed DSN.
CREATE TABLE pools (
    name        text PRIMARY KEY CHECK (name ~ '^[a-z][a-z0-9_]{0,62}$'),
    database    text,
    sealed_dsn  bytea,
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    CHECK (num_nonnulls(database, sealed_dsn) = 1)
);

CREATE TABLE tenants (
    id          uuid PRIMARY KEY,
    slug        text NOT NULL UNIQUE CHECK (slug ~ '^[a-z0-9][a-z0-9-]{0,62}$'),
    name        text NOT NULL CHECK (name <> ''),
    db_pool     text NOT NULL REFERENCES pools (name),
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX tenants_by_pool ON tenants (db_pool);

CREATE TABLE users (
    id             uuid PRIMARY KEY,
    tenant_id      uuid NOT NULL REFERENCES tenants (id),
    email          text NOT NULL CHECK (email = lower(email)),
    name           text NOT NULL DEFAULT '',
    password_hash  text NOT NULL CHECK (password_hash LIKE '$argon2id$%'),
    role           text NOT NULL DEFAULT 'user' CHECK (role IN ('user', 'admin')),
    created_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    disabled_at    timestamptz,
    UNIQUE (email),
    UNIQUE (tenant_id, id)
);

-- Keys are 256 random bits: one round of SHA-256 is enough, and lets a key be found by its index.
CREATE TABLE api_keys (
    id            uuid PRIMARY KEY,
    tenant_id     uuid NOT NULL,
    user_id       uuid NOT NULL,
    name          text NOT NULL CHECK (name <> ''),
    prefix        text NOT NULL,
    key_hash      bytea NOT NULL UNIQUE CHECK (length(key_hash) = 32),
    created_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    last_used_at  timestamptz,
    revoked_at    timestamptz,
    FOREIGN KEY (tenant_id, user_id) REFERENCES users (tenant_id, id)
);
CREATE INDEX api_keys_by_user ON api_keys (user_id, created_at DESC, id DESC);

CREATE TABLE browser_sessions (
    id_hash     bytea PRIMARY KEY CHECK (length(id_hash) = 32),
    user_id     uuid NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at  timestamptz NOT NULL
);
CREATE INDEX browser_sessions_by_expiry ON browser_sessions (expires_at);
CREATE INDEX browser_sessions_by_user ON browser_sessions (user_id);

-- Attempts are counted before the password is looked at, so that parallel guesses cannot pass the limit.
CREATE TABLE login_attempts (
    bucket        bytea NOT NULL,
    window_start  timestamptz NOT NULL,
    attempts      integer NOT NULL CHECK (attempts >= 0),
    PRIMARY KEY (bucket, window_start)
);
CREATE INDEX login_attempts_by_window ON login_attempts (window_start);
