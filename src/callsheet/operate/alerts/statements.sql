-- database: central
-- owns: alerts, alert_checks, alert_messages

-- name: start_check
-- Takes the turn to check, if the last check is old enough. Of two processes one gets it.
INSERT INTO alert_checks (number, started_at) VALUES (1, clock_timestamp())
ON CONFLICT (only_row) DO UPDATE SET number = alert_checks.number + 1, started_at = excluded.started_at
    WHERE alert_checks.started_at
        <= excluded.started_at - make_interval(secs => :interval_seconds::double precision)
RETURNING number

-- name: lock_check
-- The number of the last check that was started.
SELECT number FROM alert_checks FOR UPDATE

-- name: last_check
SELECT started_at FROM alert_checks

-- name: write_alerts
-- Writes the alerts that hold now; a worse severity is sent again. Returns those that are new, or worse than before.
WITH current_alert AS (
    SELECT * FROM unnest(:codes::text[], :subjects::text[], :severities::text[], :messages::text[], :actions::text[])
        AS a (code, subject, severity, message, action)
), previous_alert AS (
    SELECT code, subject, severity FROM alerts WHERE process = :process
), written_alert AS (
    INSERT INTO alerts (process, code, subject, severity, message, action, since, seen_at)
    SELECT :process, code, subject, severity, message, action, clock_timestamp(), clock_timestamp() FROM current_alert
    ON CONFLICT (process, code, subject) DO UPDATE SET
        severity = excluded.severity, message = excluded.message, action = excluded.action, seen_at = excluded.seen_at,
        sent_at = CASE WHEN excluded.severity = 'critical' AND alerts.severity = 'warning' THEN NULL
            ELSE alerts.sent_at END
    RETURNING process, code, subject, severity, message, action, since
)
SELECT written_alert.process, written_alert.code, written_alert.subject, written_alert.severity, written_alert.message,
    written_alert.action, written_alert.since
FROM written_alert LEFT JOIN previous_alert USING (code, subject)
WHERE previous_alert.code IS NULL OR (previous_alert.severity = 'warning' AND written_alert.severity = 'critical')
ORDER BY written_alert.severity, written_alert.code, written_alert.subject

-- name: end_alerts
-- Deletes the alerts of :process that no longer hold, and those of processes that have not checked for long.
DELETE FROM alerts
WHERE process = :process AND (code, subject) NOT IN (
        SELECT code, subject FROM unnest(:codes::text[], :subjects::text[]) AS found (code, subject))
   OR process <> :process AND process <> '' AND :process = ''
      AND seen_at < clock_timestamp() - make_interval(secs => :gone_seconds::double precision)
RETURNING process, code, subject, severity, message, action, since, sent_at IS NOT NULL AS was_sent

-- name: alerts_to_send
-- Alerts that have lasted long enough, marked as sent: their messages are written in the same transaction.
UPDATE alerts SET sent_at = clock_timestamp()
WHERE process = :process AND sent_at IS NULL AND severity = ANY(:severities::text[])
  AND since <= clock_timestamp() - make_interval(secs => :after_seconds::double precision)
RETURNING process, code, subject, severity, message, action, since

-- name: list_alerts
SELECT process, code, subject, severity, message, action, since FROM alerts
ORDER BY severity, since, code, subject LIMIT :limit

-- name: write_messages
INSERT INTO alert_messages (recipient, content)
SELECT recipient, content
FROM unnest(:recipients::text[]) AS recipient CROSS JOIN unnest(:contents::jsonb[]) AS content

-- name: claim_message
-- Sets the time of the next attempt before the message is sent: no other process sends it meanwhile, and after a crash
-- the message is sent again.
UPDATE alert_messages SET attempts = attempts + 1,
    due_at = clock_timestamp() + make_interval(secs => least(3600, 30 * power(2, attempts)))
WHERE id = (
    SELECT id FROM alert_messages
    WHERE failed_at IS NULL AND due_at <= clock_timestamp() AND recipient = ANY(:recipients::text[])
    ORDER BY due_at LIMIT 1 FOR UPDATE SKIP LOCKED
)
RETURNING id, recipient, content, attempts

-- name: delete_message
DELETE FROM alert_messages WHERE id = :id

-- name: message_was_not_sent
UPDATE alert_messages SET error = :error, failed_at = CASE WHEN :give_up::boolean THEN clock_timestamp() END
WHERE id = :id

-- name: delete_old_messages
DELETE FROM alert_messages WHERE created_at < clock_timestamp() - interval '7 days'

-- name: unsent_messages
-- Messages that were tried three times or more, and the last error.
SELECT count(*) AS number, (array_agg(error ORDER BY created_at DESC) FILTER (WHERE error IS NOT NULL))[1] AS error
FROM (
    SELECT error, created_at FROM alert_messages
    WHERE attempts >= 3 AND created_at > (SELECT clock_timestamp() - interval '24 hours')
    ORDER BY created_at DESC LIMIT 1000
) unsent
