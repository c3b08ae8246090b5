-- needs code: any
--
-- Identifies the secret key of the installation without revealing it. NULL: no control plane of this version has started.
ALTER TABLE installation ADD COLUMN secret_fingerprint text;
