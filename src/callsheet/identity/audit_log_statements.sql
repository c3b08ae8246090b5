-- database: central

-- name: record
INSERT INTO audit_logs (actor, action, subject_type, subject_id, tenant_id, details)
VALUES (:actor, :action, :subject_type, :subject_id, :tenant_id, :details::jsonb)

-- part: entry_columns
line.id, line.at, line.actor, acting.email AS actor_email, line.action, line.subject_type, line.subject_id,
    coalesce(subject_user.email, subject_tenant.slug, fleet.slug || ', ' || fleet.stage, effect.slug,
        asset.name,
        noted.name) AS subject_name,
    line.tenant_id, tenant.slug AS tenant, line.details

-- part: line_columns
id, at, actor, action, subject_type, subject_id, tenant_id, details, user_of_actor(actor) AS actor_id,
        CASE WHEN subject_id ~ '^[0-9a-f]{8}-[0-9a-f-]{27}$' THEN subject_id::uuid END AS named_id,
        CASE WHEN subject_type = 'fleet' AND subject_id ~ '^[0-9]{1,18}$' THEN subject_id::bigint END AS fleet_id,
        CASE subject_type WHEN 'fleet' THEN 'slug' WHEN 'effect' THEN 'slug' WHEN 'asset' THEN 'name'
            WHEN 'bulk_action' THEN 'kind' WHEN 'mail' THEN 'email' END AS name_field

-- part: names_of_line
-- Slugs never change. A thing that was deleted has the name that its own lines say, the newest first.
LEFT JOIN users acting ON acting.id = line.actor_id
LEFT JOIN users subject_user ON line.subject_type = 'user' AND subject_user.id = line.named_id
LEFT JOIN tenants subject_tenant ON line.subject_type = 'tenant' AND subject_tenant.id = line.named_id
LEFT JOIN gpu_fleets fleet ON fleet.id = line.fleet_id
LEFT JOIN effects effect ON line.subject_type = 'effect' AND effect.id = line.named_id
LEFT JOIN catalog_assets asset ON line.subject_type = 'asset' AND asset.id = line.named_id
LEFT JOIN LATERAL (
    SELECT concat_ws(', ', named.details ->> line.name_field, named.details ->> 'stage') AS name
    FROM audit_logs named
    WHERE line.name_field IS NOT NULL AND fleet.id IS NULL AND effect.id IS NULL AND asset.id IS NULL
      AND named.subject_type = line.subject_type AND named.subject_id = line.subject_id
      AND named.details ? line.name_field
    ORDER BY named.id DESC LIMIT 1
) noted ON true
LEFT JOIN tenants tenant ON tenant.id = line.tenant_id

-- name: lock_subject
-- Of two processes that may write the same line, the second one sees the line of the first.
SELECT pg_advisory_xact_lock(hashtextextended('audit log of ' || :subject_id::text, 0))

-- name: has_line
-- Run after lock_subject. `details`: the part of the details that identifies the line.
SELECT EXISTS (
    SELECT FROM audit_logs
    WHERE subject_type = :subject_type AND subject_id = :subject_id AND action = :action AND details @> :details::jsonb)

-- name: list_entries
-- Newest first, by the primary key. Operators act seldom, and lines of logins are limited and swept: a filter that
-- matches few lines reads thousands of rows, not millions. Names are looked up only for the lines of the page.
SELECT {entry_columns}
FROM (
    SELECT {line_columns}
    FROM audit_logs
    WHERE id < coalesce(:before, 9223372036854775807)
      AND (:actors::text[] IS NULL OR actor = ANY (:actors))
      AND (:action::text IS NULL OR action = :action)
      AND (:tenant_id::uuid IS NULL OR tenant_id = :tenant_id)
      AND (:since::timestamptz IS NULL OR at >= :since) AND (:until::timestamptz IS NULL OR at < :until)
      AND (:subject_type::text IS NULL OR subject_type = :subject_type)
      AND (:subject_id::text IS NULL OR subject_id = :subject_id)
    ORDER BY id DESC LIMIT :limit
) line
{names_of_line}
ORDER BY line.id DESC

-- name: list_entries_of_subject
SELECT {entry_columns}
FROM (
    SELECT {line_columns}
    FROM audit_logs
    WHERE subject_type = :subject_type AND subject_id = :subject_id AND id < coalesce(:before, 9223372036854775807)
      AND (:actors::text[] IS NULL OR actor = ANY (:actors))
      AND (:action::text IS NULL OR action = :action)
      AND (:tenant_id::uuid IS NULL OR tenant_id = :tenant_id)
      AND (:since::timestamptz IS NULL OR at >= :since) AND (:until::timestamptz IS NULL OR at < :until)
    ORDER BY id DESC LIMIT :limit
) line
{names_of_line}
ORDER BY line.id DESC

-- name: names_of_ids
-- Of users and tenants whose ids are in the details of lines.
SELECT id, email AS name FROM users WHERE id = ANY (:ids::uuid[])
UNION ALL
SELECT id, slug FROM tenants WHERE id = ANY (:ids)

-- name: find_actor
-- Also finds disabled users.
SELECT id FROM users WHERE email = :email

-- name: emails_of_users
SELECT id, email FROM users WHERE id = ANY (:ids::uuid[])

-- name: delete_old_lines
-- Oldest first, by the key, which is the order of time.
DELETE FROM audit_logs
WHERE id = ANY (ARRAY (
    SELECT id FROM (SELECT id, at FROM audit_logs ORDER BY id LIMIT :limit) oldest WHERE at < :before
))

-- name: sweep_logins
-- Oldest first, by the index of logins. Several control planes that sweep at once delete different rows.
DELETE FROM audit_logs
WHERE id IN (
    SELECT id FROM audit_logs
    WHERE action LIKE 'user.login%' AND at < :before
    ORDER BY at LIMIT :limit FOR UPDATE SKIP LOCKED
)
