-- database: pool

-- name: due_previews
-- One file of each tenant in turn, so that many or slow files of one tenant do not delay the others. The newest file
-- comes first, because users look at new files.
WITH RECURSIVE tenants_in_turn AS (
    SELECT :after::uuid AS tenant_id, 0 AS number
    UNION ALL
    SELECT (
        SELECT tenant_id FROM file_previews
        WHERE due_at IS NOT NULL AND kind = :kind AND tenant_id > turn.tenant_id ORDER BY tenant_id LIMIT 1
    ), turn.number + 1
    FROM tenants_in_turn turn
    WHERE turn.tenant_id IS NOT NULL AND turn.number < :limit
)
SELECT turn.tenant_id, due.file_id, due.kind, due.due_at, due.attempts, f.path, f.disk, f.size
FROM tenants_in_turn turn CROSS JOIN LATERAL (
    SELECT file_id, kind, due_at, attempts FROM file_previews
    WHERE due_at IS NOT NULL AND kind = :kind AND tenant_id = turn.tenant_id
      AND due_at <= (SELECT coalesce(:now, clock_timestamp()))
    ORDER BY due_at DESC LIMIT 1
) due LEFT JOIN LATERAL (
    SELECT path, disk, size FROM files
    WHERE tenant_id = turn.tenant_id AND id = due.file_id AND deleted_at IS NULL LIMIT 1
) f ON true
WHERE turn.number > 0
ORDER BY turn.number

-- name: claim_preview
-- Until the new due_at no other control plane works on this preview. After a crash it is due again at that time.
UPDATE file_previews SET due_at = clock_timestamp() + make_interval(secs => :seconds::integer), attempts = attempts + 1
WHERE tenant_id = :tenant_id AND file_id = :file_id AND due_at = :due_at

-- name: postpone_preview
-- The attempt does not count, because it was interrupted.
UPDATE file_previews SET due_at = clock_timestamp() + make_interval(secs => :seconds::integer),
    attempts = greatest(0, attempts - 1)
WHERE tenant_id = :tenant_id AND file_id = :file_id AND status = 'pending'

-- name: give_up_preview
UPDATE file_previews SET status = 'none', due_at = NULL
WHERE tenant_id = :tenant_id AND file_id = :file_id AND status = 'pending'

-- name: keep_preview
-- Changes no row if the file was deleted meanwhile.
UPDATE file_previews p SET status = 'ready', due_at = NULL, width = :width, height = :height,
    duration_seconds = :duration_seconds, has_clip = :has_clip
WHERE p.tenant_id = :tenant_id AND p.file_id = :file_id AND p.status <> 'none' AND EXISTS (
    SELECT FROM files f WHERE f.tenant_id = p.tenant_id AND f.id = p.file_id AND f.deleted_at IS NULL)
