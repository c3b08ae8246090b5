-- What one room writes into a table of another room, each by a function of the room that owns the table.
-- needs code: any

-- Catalog: how long the last run of an effect took.
CREATE FUNCTION effect_took(the_effect uuid, seconds double precision) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE effects SET last_processing_time_seconds = seconds WHERE id = the_effect;
END $$;

-- Catalog: the workflows of actors. In one order, so that control planes that start together do not wait for each other
-- crosswise. A workflow that exists stays as it is: an admin may have switched it off.
CREATE FUNCTION workflows_keep(slugs text[], names text[], descriptions text[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO workflows (slug, name, description)
    SELECT w.slug, w.name, w.description FROM unnest(slugs, names, descriptions) AS w (slug, name, description)
    ORDER BY w.slug
    ON CONFLICT (slug) DO NOTHING;
END $$;

-- Fleet: how many workers are wanted, and when the next one is expected, for estimates and for why a job waits.
CREATE FUNCTION fleet_announce(the_fleet bigint, wanted integer, next_at timestamptz) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE gpu_fleets SET desired_workers = wanted, next_worker_at = next_at
    WHERE id = the_fleet AND (desired_workers IS DISTINCT FROM wanted OR next_worker_at IS DISTINCT FROM next_at);
END $$;

-- Identity: the share of a tenant in the queue.
CREATE FUNCTION tenant_set_share(
    the_tenant uuid, the_weight double precision, most_running integer, most_running_per_user integer
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE tenants SET weight = the_weight, max_running = most_running, max_running_per_user = most_running_per_user
    WHERE id = the_tenant;
END $$;

-- Scaling: fleets that this installation scales are its own in this database, too. Those of another one stay as they are.
CREATE FUNCTION scaling_adopt(the_installation uuid, the_system bigint, the_database bigint) RETURNS void
    LANGUAGE plpgsql AS $$
BEGIN
    UPDATE fleet_scaling SET central_system = the_system, central_database = the_database
    WHERE installation_id = the_installation;
END $$;
