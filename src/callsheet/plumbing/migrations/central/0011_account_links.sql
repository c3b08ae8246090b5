-- An invitation becomes the user of the same id.
CREATE TABLE invitations (
    id            uuid PRIMARY KEY,
    tenant_id     uuid NOT NULL REFERENCES tenants (id),
    email         text NOT NULL CHECK (email = lower(email)),
    role          text NOT NULL CHECK (role IN ('user', 'tenant_admin', 'operator', 'viewer')),
    invited_by    text NOT NULL,
    created_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at    timestamptz NOT NULL,
    mail_sent_at  timestamptz,
    accepted_at   timestamptz,
    revoked_at    timestamptz,
    CHECK (num_nonnulls(accepted_at, revoked_at) < 2)
);
CREATE INDEX invitations_by_tenant ON invitations (tenant_id, id);
-- A second invitation to the same tenant takes the place of the first.
CREATE UNIQUE INDEX invitations_open ON invitations (tenant_id, email) WHERE accepted_at IS NULL AND revoked_at IS NULL;

-- Links to accept an invitation or to set a new password. Tokens are 256 random bits and stored as their hash. Each mail
-- that is sent has a token of its own, so no token is ever stored to be sent later.
CREATE TABLE account_links (
    token_hash     bytea PRIMARY KEY CHECK (length(token_hash) = 32),
    invitation_id  uuid REFERENCES invitations (id) ON DELETE CASCADE,
    user_id        uuid REFERENCES users (id) ON DELETE CASCADE,
    expires_at     timestamptz NOT NULL,
    CHECK (num_nonnulls(invitation_id, user_id) = 1)
);
CREATE INDEX account_links_by_invitation ON account_links (invitation_id) WHERE invitation_id IS NOT NULL;
CREATE INDEX account_links_by_user ON account_links (user_id) WHERE user_id IS NOT NULL;
CREATE INDEX account_links_by_expiry ON account_links (expires_at);

-- Mails to be sent: written with what they are about, sent afterwards, deleted when the server has taken them. For a new
-- password only the address is written, whether a user has it or not, so that asking takes the same time.
CREATE TABLE mails (
    id             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    invitation_id  uuid UNIQUE REFERENCES invitations (id) ON DELETE CASCADE,
    reset_email    text UNIQUE CHECK (reset_email = lower(reset_email)),
    created_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    due_at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    attempts       integer NOT NULL DEFAULT 0,
    last_error     text,
    failed_at      timestamptz,
    CHECK (num_nonnulls(invitation_id, reset_email) = 1)
);
CREATE INDEX mails_due ON mails (due_at) WHERE failed_at IS NULL;
