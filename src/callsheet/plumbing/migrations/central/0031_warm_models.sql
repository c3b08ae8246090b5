-- The model files that the graph loads, whether they are required or not: for workers that have them loaded.
ALTER TABLE workflows ADD COLUMN models text[] NOT NULL DEFAULT '{}';
