-- database: central

-- name: reseal_pool
-- Changes nothing if the DSN was changed meanwhile.
UPDATE pools SET sealed_dsn = :sealed_dsn WHERE name = :name AND sealed_dsn = :before

-- name: read_secret_fingerprint
SELECT secret_fingerprint FROM installation

-- name: record_first_fingerprint
-- Two control planes may start at the same time: both get the fingerprint that was recorded first.
UPDATE installation SET secret_fingerprint = coalesce(secret_fingerprint, :fingerprint) RETURNING secret_fingerprint

-- name: replace_fingerprint
UPDATE installation SET secret_fingerprint = :fingerprint
