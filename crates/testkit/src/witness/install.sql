-- ACTOR stands for the name of the server that uses this connection.
-- `seen` is what had committed when the takeover was let through: everything that held the term before must be in it.
CREATE TABLE witness_takeovers (
    epoch bigint NOT NULL,
    actor text,
    seen  pg_snapshot NOT NULL,
    at    timestamptz NOT NULL
);
-- The beats of terms: a leader beats at the beginning of each turn.
CREATE TABLE witness_turns (
    epoch bigint NOT NULL,
    actor text,
    at    timestamptz NOT NULL
);
-- Terms that their holder gave up.
CREATE TABLE witness_releases (
    epoch bigint NOT NULL
);
CREATE TABLE witness_sessions (
    session   bigint PRIMARY KEY,
    actor     text,
    last_beat timestamptz NOT NULL
);
-- What only a leader writes, with the epoch that was in force and who had taken it.
CREATE TABLE witness_writes (
    what    text NOT NULL,
    subject text NOT NULL,
    actor   text,
    epoch   bigint,
    holder  text,
    xid     xid8 NOT NULL,
    at      timestamptz NOT NULL
);

-- The functions are volatile, so each statement in them sees what has committed by then. An update of the term has waited
-- for those that held it before its trigger runs.
CREATE FUNCTION witness_term() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' OR NEW.epoch <> OLD.epoch OR NEW.term_id <> OLD.term_id THEN
        INSERT INTO witness_takeovers SELECT NEW.epoch, ACTOR, pg_current_snapshot(), clock_timestamp();
    END IF;
    INSERT INTO witness_releases SELECT NEW.epoch WHERE NEW.released;
    INSERT INTO witness_turns SELECT NEW.epoch, ACTOR, clock_timestamp() WHERE NOT NEW.released;
    RETURN NULL;
END $$;
CREATE TRIGGER witness AFTER INSERT OR UPDATE ON terms FOR EACH ROW EXECUTE FUNCTION witness_term();

CREATE FUNCTION witness_write(what text, subject text) RETURNS void LANGUAGE sql AS $$
    INSERT INTO witness_writes
    SELECT what, subject, ACTOR, held.epoch, held.actor, pg_current_xact_id(), clock_timestamp()
    FROM (SELECT 1) one LEFT JOIN LATERAL (SELECT epoch, actor FROM witness_takeovers ORDER BY epoch DESC LIMIT 1) held ON TRUE
$$;

CREATE FUNCTION witness_session() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO witness_sessions VALUES (NEW.id, ACTOR, clock_timestamp());
    ELSIF NEW.beat <> OLD.beat THEN
        UPDATE witness_sessions SET last_beat = clock_timestamp() WHERE session = NEW.id;
    END IF;
    -- The node that opened a session may end it, leader or not.
    IF TG_OP = 'UPDATE' AND NEW.dead AND NOT OLD.dead
       AND ACTOR IS DISTINCT FROM (SELECT actor FROM witness_sessions WHERE session = NEW.id) THEN
        PERFORM witness_write('reap', NEW.id::text);
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER witness AFTER INSERT OR UPDATE ON sessions FOR EACH ROW EXECUTE FUNCTION witness_session();

CREATE FUNCTION witness_run() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM witness_write('expire', NEW.id::text);
    RETURN NULL;
END $$;
CREATE TRIGGER witness AFTER UPDATE ON runs FOR EACH ROW
    WHEN (NEW.flags & 8 <> 0 AND OLD.flags & 8 = 0) EXECUTE FUNCTION witness_run();
