-- Raised by every change an operator makes, so that a change that was made of what was read before is noticed.
ALTER TABLE effects ADD COLUMN version integer NOT NULL DEFAULT 1 CHECK (version > 0);
