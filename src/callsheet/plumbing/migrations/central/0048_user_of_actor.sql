-- needs code: any
--
-- The user that an actor names, `admin:ID` or `user:ID`. NULL for all others: a command, a worker, a loop.
CREATE FUNCTION user_of_actor(actor text) RETURNS uuid LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN actor ~ '^(admin|user):[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
        THEN split_part(actor, ':', 2)::uuid END
$$;
