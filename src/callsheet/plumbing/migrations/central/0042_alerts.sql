-- needs code: any
--
-- Alerts that hold at the moment, and the messages about them that are not sent yet.

CREATE TABLE alerts (
    -- Empty: an alert of the installation. Otherwise the process that found it, for example of its loops.
    process         text NOT NULL,
    code            text NOT NULL,
    subject         text NOT NULL,
    severity        text NOT NULL CHECK (severity IN ('critical', 'warning')),
    message         text NOT NULL,
    action          text NOT NULL,
    since           timestamptz NOT NULL,
    seen_at         timestamptz NOT NULL,
    -- When the messages about its start were written. NULL: not yet, or no recipient is configured.
    sent_at         timestamptz,
    PRIMARY KEY (process, code, subject)
);

-- Whose turn it is to check: a process writes what it found only if no other process has started a check since.
CREATE TABLE alert_checks (
    only_row        boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    number          bigint NOT NULL,
    started_at      timestamptz NOT NULL
);

CREATE TABLE alert_messages (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    -- webhook, or the e-mail address of a recipient.
    recipient       text NOT NULL,
    content         jsonb NOT NULL,
    created_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    due_at          timestamptz NOT NULL DEFAULT clock_timestamp(),
    attempts        integer NOT NULL DEFAULT 0,
    error           text,
    failed_at       timestamptz
);
CREATE INDEX alert_messages_due ON alert_messages (due_at) WHERE failed_at IS NULL;
