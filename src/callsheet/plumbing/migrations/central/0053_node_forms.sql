-- needs code: any
--
-- What engines declare about the inputs of their node classes, for the import of workflows: JSON that is compressed with
-- zlib. NULL: the workers of this environment do not report it.

ALTER TABLE worker_environments ADD COLUMN node_forms bytea;
