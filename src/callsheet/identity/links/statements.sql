-- database: central
-- owns: account_links, invitations, mails

-- name: revoke_open_invitation
UPDATE invitations SET revoked_at = clock_timestamp()
WHERE tenant_id = :tenant_id AND email = :email AND accepted_at IS NULL AND revoked_at IS NULL

-- name: create_invitation
INSERT INTO invitations (id, tenant_id, email, role, invited_by, expires_at)
VALUES (:id, :tenant_id, :email, :role, :invited_by, clock_timestamp() + make_interval(hours => :hours))
ON CONFLICT (tenant_id, email) WHERE accepted_at IS NULL AND revoked_at IS NULL DO NOTHING
RETURNING id, (SELECT t.slug FROM tenants t WHERE t.id = invitations.tenant_id) AS tenant, email, role, invited_by,
    created_at, expires_at, mail_sent_at, accepted_at, revoked_at

-- name: list_invitations
SELECT i.id, t.slug AS tenant, i.email, i.role, i.invited_by, i.created_at, i.expires_at, i.mail_sent_at, i.accepted_at,
    i.revoked_at, m.last_error AS mail_error
FROM invitations i JOIN tenants t ON t.id = i.tenant_id LEFT JOIN mails m ON m.invitation_id = i.id
WHERE (:only::uuid IS NULL OR i.tenant_id = :only) AND (:before::uuid IS NULL OR i.id < :before)
ORDER BY i.id DESC LIMIT :limit

-- name: lock_invitation
SELECT i.id, i.tenant_id, i.email, i.role, i.invited_by, i.created_at, i.expires_at, i.mail_sent_at, i.accepted_at,
    i.revoked_at, t.slug AS tenant
FROM invitations i JOIN tenants t ON t.id = i.tenant_id
WHERE i.id = :id
FOR NO KEY UPDATE OF i

-- name: revoke_invitation
UPDATE invitations SET revoked_at = clock_timestamp() WHERE id = :id RETURNING revoked_at

-- name: accept_invitation
UPDATE invitations SET accepted_at = clock_timestamp() WHERE id = :id

-- name: delete_links_of_invitation
DELETE FROM account_links WHERE invitation_id = :invitation_id

-- name: delete_mail_of_invitation
DELETE FROM mails WHERE invitation_id = :invitation_id

-- name: add_invitation_link
INSERT INTO account_links (token_hash, invitation_id, expires_at)
SELECT :token_hash, id, expires_at FROM invitations WHERE id = :invitation_id

-- name: add_reset_link
INSERT INTO account_links (token_hash, user_id, expires_at)
VALUES (:token_hash, :user_id, clock_timestamp() + make_interval(mins => :minutes))
RETURNING expires_at

-- name: find_invitation_by_link
SELECT i.id, i.tenant_id, t.slug AS tenant, t.name AS tenant_name, i.email, i.role, i.expires_at
FROM account_links l JOIN invitations i ON i.id = l.invitation_id JOIN tenants t ON t.id = i.tenant_id
WHERE l.token_hash = :token_hash AND l.expires_at > clock_timestamp() AND t.disabled_at IS NULL
  AND i.accepted_at IS NULL AND i.revoked_at IS NULL

-- name: find_user_by_link
SELECT u.id, u.tenant_id, u.email
FROM account_links l JOIN users u ON u.id = l.user_id JOIN tenants t ON t.id = u.tenant_id
WHERE l.token_hash = :token_hash AND l.expires_at > clock_timestamp() AND u.disabled_at IS NULL
  AND t.disabled_at IS NULL

-- name: lock_user_of_link
-- Locked before the links, in the same order as a change of the user.
SELECT 1 FROM users WHERE id = :id FOR NO KEY UPDATE

-- name: mail_invitation
INSERT INTO mails (invitation_id) VALUES (:invitation_id)

-- name: mail_reset
INSERT INTO mails (reset_email) VALUES (:email)
ON CONFLICT (reset_email) DO UPDATE SET due_at = clock_timestamp(), created_at = clock_timestamp(), attempts = 0,
    failed_at = NULL

-- name: claim_mail
-- Sets the time of the next attempt before the mail is sent: no other process sends it meanwhile, and after a crash the
-- mail is sent again.
UPDATE mails SET attempts = attempts + 1,
    due_at = clock_timestamp() + make_interval(secs => least(3600, 60 * power(2, attempts)))
WHERE id = (
    SELECT id FROM mails WHERE failed_at IS NULL AND due_at <= :now ORDER BY due_at LIMIT 1 FOR UPDATE SKIP LOCKED
)
RETURNING id, invitation_id, reset_email, attempts, created_at

-- name: invitation_to_mail
SELECT i.id, i.email, i.role, i.expires_at, t.name AS tenant_name
FROM invitations i JOIN tenants t ON t.id = i.tenant_id
WHERE i.id = :id AND i.accepted_at IS NULL AND i.revoked_at IS NULL AND i.expires_at > clock_timestamp()

-- name: user_to_mail
SELECT u.id, u.email FROM users u JOIN tenants t ON t.id = u.tenant_id
WHERE u.email = :email AND u.disabled_at IS NULL AND t.disabled_at IS NULL

-- name: invitation_was_mailed
UPDATE invitations SET mail_sent_at = clock_timestamp() WHERE id = :id

-- name: delete_mail
DELETE FROM mails WHERE id = :id

-- name: mail_was_not_sent
UPDATE mails SET last_error = :error, failed_at = CASE WHEN :give_up THEN clock_timestamp() END WHERE id = :id

-- name: list_mails
SELECT m.id, CASE WHEN m.invitation_id IS NULL THEN 'password_reset' ELSE 'invitation' END AS kind,
    coalesce(m.reset_email, i.email) AS email, m.created_at, m.attempts, m.last_error, m.due_at, m.failed_at
FROM mails m LEFT JOIN invitations i ON i.id = m.invitation_id
WHERE :before::bigint IS NULL OR m.id < :before
ORDER BY m.id DESC LIMIT :limit

-- name: send_mail_again
-- Resets the attempts, so that the mail is tried as often as a new one.
UPDATE mails m SET due_at = clock_timestamp(), attempts = 0, failed_at = NULL
FROM mails mail LEFT JOIN invitations i ON i.id = mail.invitation_id
WHERE m.id = :id AND mail.id = m.id
RETURNING m.id, CASE WHEN m.invitation_id IS NULL THEN 'password_reset' ELSE 'invitation' END AS kind,
    coalesce(m.reset_email, i.email) AS email, m.created_at, m.attempts, m.last_error, m.due_at, m.failed_at

-- name: count_unsent_mails
-- Counts among the newest :max_rows mails, which are read by the primary key.
SELECT count(*) FILTER (
        WHERE failed_at IS NULL AND created_at < clock_timestamp() - make_interval(secs => :late_seconds)) AS late,
    count(*) FILTER (WHERE failed_at > clock_timestamp() - make_interval(secs => :failed_seconds)) AS given_up
FROM (SELECT created_at, failed_at FROM mails ORDER BY id DESC LIMIT :max_rows) m

-- name: sweep_links
DELETE FROM account_links WHERE expires_at < :now

-- name: sweep_mails
DELETE FROM mails WHERE failed_at < :before

-- name: find_password
SELECT password_hash FROM users WHERE id = :user_id

-- name: change_password
UPDATE users SET password_hash = :fresh WHERE id = :user_id AND password_hash = :checked
