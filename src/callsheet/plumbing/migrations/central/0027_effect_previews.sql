-- What a gallery shows of an effect.
ALTER TABLE effects
    ADD COLUMN category text NOT NULL DEFAULT '' CHECK (length(category) <= 200),
    -- Where its preview is in storage, and what is there: {"folder", "before", "after"}.
    ADD COLUMN preview jsonb CHECK (jsonb_typeof(preview) = 'object');
