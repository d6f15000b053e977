-- A new UUID v7: the time in its first 48 bits, the version where a random UUID has its own, random bits behind.
CREATE FUNCTION uuid_v7_v1(p_now bigint) RETURNS uuid
LANGUAGE sql VOLATILE PARALLEL SAFE AS $$
    SELECT encode(set_bit(set_bit(overlay(uuid_send(gen_random_uuid()) PLACING substring(int8send(p_now / 1000) FROM 3) FROM 1 FOR 6), 52, 1), 53, 1), 'hex')::uuid
$$;
