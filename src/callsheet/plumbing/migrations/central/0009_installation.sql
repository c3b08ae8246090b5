-- Which installation this is. A pool records the same id, so that it cannot be used by another installation.
CREATE TABLE installation (
    is_only          boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    id               uuid NOT NULL,
    -- While a copy is repointed: the id it gets when all its pools have it.
    next_id          uuid,
    -- Set when another central with this id was seen at work on one of the pools. An operator clears it.
    possible_copy_at timestamptz,
    created_at       timestamptz NOT NULL DEFAULT clock_timestamp()
);
INSERT INTO installation (id) VALUES (gen_random_uuid());
