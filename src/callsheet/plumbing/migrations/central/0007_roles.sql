-- Four roles instead of two. Who was an admin administered the whole installation, which is what an operator does.
ALTER TABLE users DROP CONSTRAINT users_role_check;
UPDATE users SET role = 'operator' WHERE role = 'admin';
ALTER TABLE users ADD CONSTRAINT users_role_check CHECK (role IN ('user', 'tenant_admin', 'operator', 'viewer'));
CREATE INDEX users_operators ON users (id) WHERE role = 'operator';

-- The row of a deleted user stays, without what it said of a person: jobs and the ledger name its id.
ALTER TABLE users ADD COLUMN deleted_at timestamptz;
ALTER TABLE users ADD CONSTRAINT users_deleted_are_disabled CHECK (deleted_at IS NULL OR disabled_at IS NOT NULL);

ALTER TABLE tenants ADD COLUMN disabled_at timestamptz;
