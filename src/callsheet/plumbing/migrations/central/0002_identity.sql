-- Who uses the installation, with which credentials and limits, and what operators changed.

CREATE TABLE tenants (
    id                    uuid PRIMARY KEY,
    slug                  text NOT NULL,
    name                  text NOT NULL,
    db_pool               text NOT NULL,
    created_at            timestamptz NOT NULL DEFAULT clock_timestamp(),
    disabled_at           timestamptz,
    weight                double precision NOT NULL DEFAULT 1,
    max_running           integer,
    max_running_per_user  integer,
    CONSTRAINT one_tenant_per_slug UNIQUE (slug),
    CONSTRAINT pool_exists FOREIGN KEY (db_pool) REFERENCES pools (name),
    CONSTRAINT slug_is_valid CHECK (slug ~ '^[a-z0-9][a-z0-9-]{0,62}$'),
    CONSTRAINT name_is_not_empty CHECK (name <> ''),
    CONSTRAINT weight_is_in_range CHECK (weight BETWEEN 0.01 AND 1000),
    CONSTRAINT max_running_is_a_limit CHECK (max_running >= 0),
    CONSTRAINT max_running_per_user_is_a_limit CHECK (max_running_per_user >= 0)
);
COMMENT ON TABLE tenants IS 'A customer or a team. Its own rows are in one pool.';
COMMENT ON COLUMN tenants.db_pool IS 'Name of the pool.';
COMMENT ON COLUMN tenants.weight IS 'Share of the workers, relative to the other tenants.';
COMMENT ON COLUMN tenants.max_running IS 'Most jobs that run at once. NULL: no limit.';
COMMENT ON COLUMN tenants.max_running_per_user IS 'Most jobs of one user that run at once. NULL: no limit.';
CREATE INDEX tenants_by_pool ON tenants (db_pool);
-- The few tenants whose weight or limits are not the default.
CREATE INDEX tenants_with_terms ON tenants (id)
    WHERE weight <> 1 OR max_running IS NOT NULL OR max_running_per_user IS NOT NULL;

-- For dispatch: the weight and the limits of a tenant in the queue.
CREATE FUNCTION tenant_set_weight(
    the_tenant uuid, the_weight double precision, most_running integer, most_running_per_user integer
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE tenants SET weight = the_weight, max_running = most_running, max_running_per_user = most_running_per_user
    WHERE id = the_tenant;
END $$;

CREATE TABLE tenant_quotas (
    tenant_id              uuid PRIMARY KEY,
    tenant_storage_bytes   bigint,
    tenant_storage_files   bigint,
    user_storage_bytes     bigint,
    user_storage_files     bigint,
    payload_bytes          bigint,
    pipelines_per_user     bigint,
    versions_per_pipeline  bigint,
    keys_per_user          bigint,
    user_database_bytes    bigint,
    CONSTRAINT tenant_exists FOREIGN KEY (tenant_id) REFERENCES tenants (id),
    CONSTRAINT tenant_storage_bytes_is_a_limit CHECK (tenant_storage_bytes >= 0),
    CONSTRAINT tenant_storage_files_is_a_limit CHECK (tenant_storage_files >= 0),
    CONSTRAINT user_storage_bytes_is_a_limit CHECK (user_storage_bytes >= 0),
    CONSTRAINT user_storage_files_is_a_limit CHECK (user_storage_files >= 0),
    CONSTRAINT payload_bytes_is_a_limit CHECK (payload_bytes >= 0),
    CONSTRAINT pipelines_per_user_is_a_limit CHECK (pipelines_per_user >= 0),
    CONSTRAINT versions_per_pipeline_is_a_limit CHECK (versions_per_pipeline >= 0),
    CONSTRAINT keys_per_user_is_a_limit CHECK (keys_per_user >= 0),
    CONSTRAINT user_database_bytes_is_a_limit CHECK (user_database_bytes >= 0)
);
COMMENT ON TABLE tenant_quotas IS
    'Limits that an operator set for a tenant. NULL, or no row: the limits of the settings.';
COMMENT ON COLUMN tenant_quotas.tenant_storage_bytes IS 'Bytes of all files of the tenant.';
COMMENT ON COLUMN tenant_quotas.user_storage_bytes IS 'Bytes of all files of one user.';
COMMENT ON COLUMN tenant_quotas.payload_bytes IS 'Bytes of the payload of one job.';
COMMENT ON COLUMN tenant_quotas.user_database_bytes IS
    'Bytes that the jobs, runs and pipelines of one user take in the database.';

CREATE TABLE users (
    id             uuid PRIMARY KEY,
    tenant_id      uuid NOT NULL,
    email          text NOT NULL,
    name           text NOT NULL DEFAULT '',
    password_hash  text NOT NULL,
    role           text NOT NULL DEFAULT 'user',
    created_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    disabled_at    timestamptz,
    deleted_at     timestamptz,
    external_id    text,
    CONSTRAINT one_user_per_email UNIQUE (email),
    CONSTRAINT one_user_per_external_id UNIQUE (tenant_id, external_id),
    CONSTRAINT user_with_tenant UNIQUE (tenant_id, id),
    CONSTRAINT tenant_exists FOREIGN KEY (tenant_id) REFERENCES tenants (id),
    CONSTRAINT email_is_lower_case CHECK (email = lower(email)),
    CONSTRAINT password_is_hashed CHECK (password_hash LIKE '$argon2id$%'),
    CONSTRAINT role_is_known CHECK (role IN ('user', 'tenant_admin', 'operator', 'viewer')),
    CONSTRAINT deleted_users_are_disabled CHECK (deleted_at IS NULL OR disabled_at IS NOT NULL),
    CONSTRAINT external_id_is_printable CHECK (external_id ~ '^[!-~]{1,128}$')
);
COMMENT ON TABLE users IS 'A person or a program that authenticates. Jobs and the ledger name its id.';
COMMENT ON COLUMN users.deleted_at IS
    'When the user was deleted. The row stays without personal data, because jobs and the ledger name its id.';
COMMENT ON COLUMN users.external_id IS
    'What the system of the tenant calls the user. A service key creates the user when it first acts for this id.';
CREATE INDEX users_operators ON users (id) WHERE role = 'operator';

-- The user that an actor names, `admin:ID` or `user:ID`. NULL for all others: a command, a worker, a loop.
CREATE FUNCTION user_of_actor(actor text) RETURNS uuid LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN actor ~ '^(admin|user):[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
        THEN split_part(actor, ':', 2)::uuid END
$$;

CREATE TABLE api_keys (
    id            uuid PRIMARY KEY,
    tenant_id     uuid NOT NULL,
    user_id       uuid,
    name          text NOT NULL,
    prefix        text NOT NULL,
    key_hash      bytea NOT NULL,
    created_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    last_used_at  timestamptz,
    revoked_at    timestamptz,
    scopes        text[] NOT NULL,
    expires_at    timestamptz,
    CONSTRAINT one_api_key_per_hash UNIQUE (key_hash),
    CONSTRAINT tenant_exists FOREIGN KEY (tenant_id) REFERENCES tenants (id),
    CONSTRAINT user_exists FOREIGN KEY (tenant_id, user_id) REFERENCES users (tenant_id, id),
    CONSTRAINT name_is_not_empty CHECK (name <> ''),
    CONSTRAINT key_hash_is_sha256 CHECK (length(key_hash) = 32),
    CONSTRAINT scopes_are_known CHECK (
        cardinality(scopes) > 0
        AND scopes <@ CASE WHEN user_id IS NULL THEN ARRAY['read', 'submit_for_users', 'credit']
            ELSE ARRAY['read', 'submit', 'admin'] END)
);
COMMENT ON TABLE api_keys IS 'A key with which a program acts for a user, or for the users of a tenant.';
COMMENT ON COLUMN api_keys.user_id IS 'The user of the key. NULL: a service key, which belongs to the tenant.';
COMMENT ON COLUMN api_keys.prefix IS 'First characters of the key, by which a person recognizes it.';
COMMENT ON COLUMN api_keys.key_hash IS
    'SHA-256 of the key. A key is 256 random bits: one round is enough, and the index finds the key.';
COMMENT ON COLUMN api_keys.scopes IS 'What the key may do: of what its user may do, or for the users of its tenant.';
CREATE INDEX api_keys_by_user ON api_keys (user_id, created_at DESC, id DESC);
CREATE INDEX service_keys_by_tenant ON api_keys (tenant_id, created_at DESC, id DESC) WHERE user_id IS NULL;

CREATE TABLE browser_sessions (
    id_hash       bytea PRIMARY KEY,
    user_id       uuid NOT NULL,
    created_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at    timestamptz NOT NULL,
    id            uuid NOT NULL DEFAULT gen_random_uuid(),
    last_seen_at  timestamptz,
    address       text,
    device        text,
    CONSTRAINT one_session_per_id UNIQUE (id),
    CONSTRAINT user_exists FOREIGN KEY (user_id) REFERENCES users (id) ON DELETE CASCADE,
    CONSTRAINT id_hash_is_sha256 CHECK (length(id_hash) = 32),
    CONSTRAINT device_is_short CHECK (length(device) <= 100)
);
COMMENT ON TABLE browser_sessions IS 'A login in a browser.';
COMMENT ON COLUMN browser_sessions.id_hash IS 'SHA-256 of the value of the cookie.';
COMMENT ON COLUMN browser_sessions.id IS 'Names the session for its user, who can end it. It opens nothing.';
COMMENT ON COLUMN browser_sessions.address IS 'IP address of the browser.';
COMMENT ON COLUMN browser_sessions.device IS
    'Browser and system, for example `Firefox on Linux`: the part of the User-Agent that a person recognizes.';
CREATE INDEX browser_sessions_by_expiry ON browser_sessions (expires_at);
CREATE INDEX browser_sessions_by_user ON browser_sessions (user_id);

CREATE TABLE login_attempts (
    bucket        bytea NOT NULL,
    window_start  timestamptz NOT NULL,
    attempts      integer NOT NULL,
    ends_at       timestamptz NOT NULL,
    PRIMARY KEY (bucket, window_start),
    CONSTRAINT attempts_are_not_negative CHECK (attempts >= 0)
);
COMMENT ON TABLE login_attempts IS
    'Attempts in one window of time. They are counted before the password is checked, so that parallel guesses cannot '
    'pass the limit.';
COMMENT ON COLUMN login_attempts.bucket IS 'Hash of what is limited, for example an e-mail address or an IP address.';
COMMENT ON COLUMN login_attempts.ends_at IS 'When the row can be deleted. Windows have several lengths.';
CREATE INDEX login_attempts_by_end ON login_attempts (ends_at);

CREATE TABLE kept_responses (
    caller_id   uuid NOT NULL,
    key_hash    bytea NOT NULL,
    claim_id    uuid NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    renewed_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    request     bytea NOT NULL,
    status      smallint,
    response    bytea,
    PRIMARY KEY (caller_id, key_hash),
    CONSTRAINT key_hash_is_sha256 CHECK (length(key_hash) = 32),
    CONSTRAINT request_is_small CHECK (octet_length(request) <= 100000),
    CONSTRAINT response_is_small CHECK (octet_length(response) <= 1500000),
    CONSTRAINT status_is_of_success CHECK (status BETWEEN 200 AND 299),
    CONSTRAINT response_has_a_status CHECK (response IS NULL OR status IS NOT NULL)
);
COMMENT ON TABLE kept_responses IS
    'The response of a request with an idempotency key, for a repeated request with this key. Requests of jobs and of '
    'money keep their keys with what they create instead.';
COMMENT ON COLUMN kept_responses.caller_id IS
    'The user that the request acts for; the tenant, if a service key acts for no user.';
COMMENT ON COLUMN kept_responses.key_hash IS 'SHA-256 of the key. Without the key, nothing here can be decrypted.';
COMMENT ON COLUMN kept_responses.claim_id IS 'The request that carries it out. Another one may take it over.';
COMMENT ON COLUMN kept_responses.renewed_at IS
    'If the request has not ended and this is long ago, its process has died, and a repeated request is carried out.';
COMMENT ON COLUMN kept_responses.request IS 'Encrypted: what the request was, to refuse another one with its key.';
COMMENT ON COLUMN kept_responses.status IS 'NULL: the request has not ended.';
COMMENT ON COLUMN kept_responses.response IS
    'Encrypted, because it may have a secret that is shown once. NULL with a status: it was too large to keep.';
CREATE INDEX kept_responses_of_caller ON kept_responses (caller_id, created_at);
CREATE INDEX kept_responses_by_age ON kept_responses (created_at);

CREATE TABLE invitations (
    id            uuid PRIMARY KEY,
    tenant_id     uuid NOT NULL,
    email         text NOT NULL,
    role          text NOT NULL,
    invited_by    text NOT NULL,
    created_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at    timestamptz NOT NULL,
    mail_sent_at  timestamptz,
    accepted_at   timestamptz,
    revoked_at    timestamptz,
    CONSTRAINT tenant_exists FOREIGN KEY (tenant_id) REFERENCES tenants (id),
    CONSTRAINT email_is_lower_case CHECK (email = lower(email)),
    CONSTRAINT role_is_known CHECK (role IN ('user', 'tenant_admin', 'operator', 'viewer')),
    CONSTRAINT accepted_or_revoked CHECK (num_nonnulls(accepted_at, revoked_at) < 2)
);
COMMENT ON TABLE invitations IS 'An invitation to a tenant. It becomes the user of the same id.';
COMMENT ON COLUMN invitations.invited_by IS 'The actor, for example `user:ID`.';
CREATE INDEX invitations_by_tenant ON invitations (tenant_id, id);
-- A second invitation to the same tenant replaces the first.
CREATE UNIQUE INDEX invitations_open ON invitations (tenant_id, email) WHERE accepted_at IS NULL AND revoked_at IS NULL;

CREATE TABLE account_links (
    token_hash     bytea PRIMARY KEY,
    invitation_id  uuid,
    user_id        uuid,
    expires_at     timestamptz NOT NULL,
    CONSTRAINT invitation_exists FOREIGN KEY (invitation_id) REFERENCES invitations (id) ON DELETE CASCADE,
    CONSTRAINT user_exists FOREIGN KEY (user_id) REFERENCES users (id) ON DELETE CASCADE,
    CONSTRAINT token_hash_is_sha256 CHECK (length(token_hash) = 32),
    CONSTRAINT link_has_one_purpose CHECK (num_nonnulls(invitation_id, user_id) = 1)
);
COMMENT ON TABLE account_links IS
    'A link in a mail: to accept an invitation, or to set a new password. Each mail has its own token, so that no '
    'token is stored to be sent later.';
COMMENT ON COLUMN account_links.token_hash IS 'SHA-256 of the token, which is 256 random bits.';
COMMENT ON COLUMN account_links.invitation_id IS 'The invitation to accept.';
COMMENT ON COLUMN account_links.user_id IS 'The user who sets a new password.';
CREATE INDEX account_links_by_invitation ON account_links (invitation_id) WHERE invitation_id IS NOT NULL;
CREATE INDEX account_links_by_user ON account_links (user_id) WHERE user_id IS NOT NULL;
CREATE INDEX account_links_by_expiry ON account_links (expires_at);

CREATE TABLE mails (
    id             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    invitation_id  uuid,
    reset_email    text,
    created_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    due_at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    attempts       integer NOT NULL DEFAULT 0,
    last_error     text,
    failed_at      timestamptz,
    CONSTRAINT one_mail_per_invitation UNIQUE (invitation_id),
    CONSTRAINT one_mail_per_reset UNIQUE (reset_email),
    CONSTRAINT invitation_exists FOREIGN KEY (invitation_id) REFERENCES invitations (id) ON DELETE CASCADE,
    CONSTRAINT reset_email_is_lower_case CHECK (reset_email = lower(reset_email)),
    CONSTRAINT mail_has_one_purpose CHECK (num_nonnulls(invitation_id, reset_email) = 1)
);
COMMENT ON TABLE mails IS
    'A mail to send. It is written in the transaction of its cause, sent afterwards, and deleted when the mail server '
    'has accepted it.';
COMMENT ON COLUMN mails.reset_email IS
    'E-mail address for a new password, whether a user has it or not, so that both requests take the same time.';
COMMENT ON COLUMN mails.due_at IS 'Time of the next attempt.';
COMMENT ON COLUMN mails.failed_at IS 'When the last attempt failed. NULL: the mail will be sent.';
CREATE INDEX mails_due ON mails (due_at) WHERE failed_at IS NULL;

CREATE TABLE audit_logs (
    id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at            timestamptz NOT NULL DEFAULT clock_timestamp(),
    actor         text NOT NULL,
    action        text NOT NULL,
    subject_type  text NOT NULL,
    subject_id    text NOT NULL,
    tenant_id     uuid,
    details       jsonb NOT NULL DEFAULT '{}',
    CONSTRAINT actor_is_not_empty CHECK (actor <> ''),
    CONSTRAINT action_is_valid CHECK (action ~ '^[a-z_]+\.[a-z_]+$')
);
COMMENT ON TABLE audit_logs IS
    'An action of an operator or an admin, written in the transaction of the action if that is in central; and logins, '
    'which are deleted after a while.';
COMMENT ON COLUMN audit_logs.actor IS 'Who acted, for example `user:ID` or `operator` for a command.';
COMMENT ON COLUMN audit_logs.action IS 'For example `workflow.update`.';
CREATE INDEX audit_logs_of_subject ON audit_logs (subject_type, subject_id, id);
-- For the deletion of old logins.
CREATE INDEX audit_logs_logins ON audit_logs (at) WHERE action LIKE 'user.login%';
