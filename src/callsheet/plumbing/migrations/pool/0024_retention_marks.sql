-- How far a table was cleared of old rows, where some of its old rows stay.
-- needs code: any
CREATE TABLE retention_marks (
    name          text PRIMARY KEY,
    completed_at  timestamptz NOT NULL,
    id            uuid NOT NULL
);
