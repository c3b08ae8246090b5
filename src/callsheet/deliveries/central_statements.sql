-- database: central

-- name: email_of_user
-- No row if the user was disabled or deleted.
SELECT email FROM users WHERE tenant_id = :tenant_id AND id = :user_id AND disabled_at IS NULL
