-- Whether the results of the workflow's jobs keep the metadata that the engine wrote into them, the whole graph among it.
ALTER TABLE workflows ADD COLUMN keep_metadata boolean NOT NULL DEFAULT false;
