-- A step may be an actor of tasks: then it has the payload that is asked with, and its price is in the settings.
ALTER TABLE pipeline_steps
    ALTER COLUMN effect_id DROP NOT NULL,
    ADD COLUMN payload jsonb CHECK (jsonb_typeof(payload) = 'object'),
    ADD CONSTRAINT effect_or_actor CHECK ((effect_id IS NULL) = (payload IS NOT NULL));
