-- database: central

-- name: record
INSERT INTO audit_logs (actor, action, subject_type, subject_id, tenant_id, details)
VALUES (:actor, :action, :subject_type, :subject_id, :tenant_id, :details::jsonb)

-- name: list_entries
-- By the primary key backwards: what was asked for last is near the end. Admins act seldom, and logins are limited and
-- swept, so a filter that fits little reads thousands of rows, not millions.
SELECT id, at, actor, action, subject_type, subject_id, tenant_id, details FROM audit_logs
WHERE id < coalesce(:before, 9223372036854775807)
  AND (:actor::text IS NULL OR actor = :actor)
  AND (:action::text IS NULL OR action = :action)
  AND (:subject_type::text IS NULL OR subject_type = :subject_type)
  AND (:subject_id::text IS NULL OR subject_id = :subject_id)
ORDER BY id DESC LIMIT :limit

-- name: list_entries_of_subject
SELECT id, at, actor, action, subject_type, subject_id, tenant_id, details FROM audit_logs
WHERE subject_type = :subject_type AND subject_id = :subject_id AND id < coalesce(:before, 9223372036854775807)
  AND (:actor::text IS NULL OR actor = :actor)
  AND (:action::text IS NULL OR action = :action)
ORDER BY id DESC LIMIT :limit

-- name: delete_old_lines
-- Oldest first, by the key, which is the order of time.
DELETE FROM audit_logs
WHERE id = ANY (ARRAY (
    SELECT id FROM (SELECT id, at FROM audit_logs ORDER BY id LIMIT :limit) oldest WHERE at < :before
))

-- name: sweep_logins
-- By their own index, oldest first; several control planes at once take different rows.
DELETE FROM audit_logs
WHERE id IN (
    SELECT id FROM audit_logs
    WHERE action LIKE 'user.login%' AND at < :before
    ORDER BY at LIMIT :limit FOR UPDATE SKIP LOCKED
)
