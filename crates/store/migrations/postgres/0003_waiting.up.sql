-- What waits for something outside: timers, events, approvals, results, child runs, the items of an expansion.

-- One row per waiting task run. Whatever happens sets `outcome` (0 badly, 1 well, 2 nobody waits any more) and makes the
-- task run `deciding`; a node then concludes it. Kinds: 0 timer, 1 event, 2 approval, 3 result, 4 child run, 5 items.
CREATE TABLE waits (
    run_id      uuid NOT NULL,
    idx         integer NOT NULL,
    item        integer NOT NULL,
    kind        smallint NOT NULL CHECK (kind BETWEEN 0 AND 5),
    attempt     integer NOT NULL,
    namespace   text,
    event       text,
    key         text,
    child       uuid,
    body        text,
    due_at      bigint,
    created_at  bigint NOT NULL,
    outcome     smallint CHECK (outcome BETWEEN 0 AND 2),
    output      text,
    actor       text,
    reason      text,
    happened_at bigint,
    PRIMARY KEY (run_id, idx, item)
);
CREATE INDEX waits_for_event ON waits (namespace, event) WHERE event IS NOT NULL AND outcome IS NULL;
CREATE UNIQUE INDEX waits_for_child ON waits (child) WHERE child IS NOT NULL;

-- The values of an expansion, written once when it happens.
CREATE TABLE items (
    run_id      uuid NOT NULL,
    idx         integer NOT NULL,
    item        integer NOT NULL,
    value       text NOT NULL,
    PRIMARY KEY (run_id, idx, item)
);

-- Durable before it is acknowledged; `matched` once every waiting task run has been looked at.
CREATE TABLE events (
    id          uuid PRIMARY KEY,
    namespace   text NOT NULL,
    name        text NOT NULL,
    key         text,
    data        text NOT NULL,
    source      text NOT NULL,
    created_at  bigint NOT NULL,
    matched     boolean NOT NULL DEFAULT FALSE
);
CREATE INDEX events_by_name ON events (namespace, name, created_at);
CREATE INDEX events_unmatched ON events (created_at) WHERE NOT matched;
CREATE INDEX events_by_age ON events (created_at) WHERE matched;

-- What a version brings along for its tasks.
CREATE TABLE version_files (
    version     bigint NOT NULL REFERENCES versions (id) ON DELETE CASCADE,
    path        text NOT NULL,
    executable  boolean NOT NULL,
    content     bytea NOT NULL,
    PRIMARY KEY (version, path)
);

-- Files that attempts left to be kept.
CREATE TABLE artifacts (
    run_id      uuid NOT NULL,
    idx         integer NOT NULL,
    item        integer NOT NULL,
    attempt     integer NOT NULL,
    name        text NOT NULL,
    content     bytea NOT NULL,
    PRIMARY KEY (run_id, idx, item, attempt, name)
);

-- Counts ended items for the tasks they belong to, and lets as many go that waited for their turn. The caller holds the
-- locks of the runs. Returns the pools that these now wait for.
CREATE FUNCTION items_v1(p_now bigint, g_run uuid[], g_idx integer[], g_item integer[], g_state smallint[], g_flags smallint[]) RETURNS integer[]
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
    e record;
    left_open integer;
    run_state smallint;
    freed integer[];
    pools integer[] := '{}';
BEGIN
    FOR e IN
        SELECT u.run, u.idx, count(*)::integer AS n,
               (count(*) FILTER (WHERE counts_v1(u.state, u.flags) = 1))::integer AS s,
               (count(*) FILTER (WHERE counts_v1(u.state, u.flags) = 2))::integer AS f,
               (count(*) FILTER (WHERE counts_v1(u.state, u.flags) = 3))::integer AS k
        FROM unnest(g_run, g_idx, g_item, g_state, g_flags) AS u(run, idx, item, state, flags)
        WHERE u.item >= 0 GROUP BY u.run, u.idx ORDER BY u.run, u.idx
    LOOP
        SELECT r.state INTO run_state FROM runs r WHERE r.id = e.run;
        UPDATE task_runs t SET open = t.open - e.n, succeeded = t.succeeded + e.s, failed = t.failed + e.f, skipped = t.skipped + e.k,
            state = CASE WHEN t.open > e.n THEN t.state WHEN run_state = 1 THEN 4 ELSE 6 END,
            due_at = CASE WHEN t.open > e.n THEN t.due_at ELSE p_now END
        WHERE t.run_id = e.run AND t.idx = e.idx AND t.item = -1 AND t.state = 8 AND t.flags & 128 <> 0
        RETURNING t.open INTO left_open;
        CONTINUE WHEN NOT FOUND OR left_open = 0;
        WITH go AS (
            UPDATE task_runs t SET
                state = CASE WHEN run_state <> 1 THEN 6 WHEN t.flags & 2 <> 0 THEN 4 WHEN t.pool IS NOT NULL THEN 5 ELSE 1 END,
                due_at = p_now + t.item
            WHERE t.ctid = ANY (ARRAY(
                SELECT s.ctid FROM task_runs s WHERE s.run_id = e.run AND s.idx = e.idx AND s.item >= 0 AND s.state = 0
                ORDER BY s.item LIMIT e.n))
            RETURNING t.state, t.pool
        )
        SELECT array_agg(g.pool) INTO freed FROM go g WHERE g.state = 5;
        pools := pools || coalesce(freed, '{}');
    END LOOP;
    RETURN pools;
END $$;

-- The task run that waits for this run can be decided. Only its own row is touched: its run may be busy meanwhile.
CREATE FUNCTION child_ended_v1(p_now bigint, p_child uuid) RETURNS void
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE w record;
BEGIN
    FOR w IN SELECT x.run_id, x.idx, x.item FROM waits x WHERE x.child = p_child AND x.outcome IS NULL FOR UPDATE LOOP
        UPDATE waits SET outcome = (SELECT CASE WHEN r.state = 3 THEN 1 ELSE 0 END FROM runs r WHERE r.id = p_child), happened_at = p_now
        WHERE run_id = w.run_id AND idx = w.idx AND item = w.item;
        UPDATE task_runs t SET state = 4, due_at = p_now WHERE t.run_id = w.run_id AND t.idx = w.idx AND t.item = w.item AND t.state = 8;
    END LOOP;
END $$;
