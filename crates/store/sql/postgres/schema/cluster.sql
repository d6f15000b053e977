-- The processes that share this database: worker sessions, lanes, leadership.

CREATE TABLE sessions (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    node        uuid NOT NULL,
    worker      text NOT NULL,
    hostname    text NOT NULL,
    queues      text NOT NULL,
    labels      text NOT NULL,
    slots       integer NOT NULL,
    remote      boolean NOT NULL DEFAULT FALSE,
    draining    boolean NOT NULL DEFAULT FALSE,
    beat        bigint NOT NULL DEFAULT 0,
    dead        boolean NOT NULL DEFAULT FALSE,
    created_at  bigint NOT NULL,
    beat_at     bigint NOT NULL,
    ended_at    bigint,
    -- The last exchange of a remote worker that was begun.
    seq         bigint NOT NULL DEFAULT 0,
    -- Where a remote worker may take tasks, joined by commas; null is everywhere.
    namespaces  text,
    function_slots integer NOT NULL DEFAULT 0,
    remote_slots integer NOT NULL DEFAULT 0,
    handlers    text NOT NULL DEFAULT '',
    version     text NOT NULL DEFAULT '',
    token_hash  bytea,
    -- How many attempts a remote worker has and has not begun.
    backlog     integer NOT NULL DEFAULT 0
) WITH (fillfactor = 50);
CREATE INDEX sessions_live ON sessions (id) WHERE NOT dead;

-- An idle remote worker asks another one for a share of what that has not begun.
CREATE TABLE steal_requests (
    victim      bigint PRIMARY KEY,
    thief       bigint NOT NULL,
    wanted      integer NOT NULL,
    created_at  bigint NOT NULL
);

-- One row per connection that exchanges: the guard that makes an exchange happen once. `voided` is the last one whose
-- number was used up and that applied nothing: while it was in doubt, so that it never will happen, or for a dead session.
CREATE TABLE lanes (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    node        uuid NOT NULL,
    seq         bigint NOT NULL DEFAULT 0,
    voided      bigint NOT NULL DEFAULT 0,
    created_at  bigint NOT NULL
) WITH (fillfactor = 50);

CREATE TABLE cancel_requests (
    session     bigint NOT NULL,
    run_id      uuid NOT NULL,
    idx         integer NOT NULL,
    item        integer NOT NULL,
    attempt     integer NOT NULL,
    reason      text NOT NULL,
    PRIMARY KEY (session, run_id, idx, item, attempt)
);

-- Leadership: one row per singleton duty. Only a compare-and-swap on it makes a leader.
CREATE TABLE terms (
    name        text PRIMARY KEY,
    epoch       bigint NOT NULL,
    term_id     uuid NOT NULL,
    node        uuid NOT NULL,
    beat        bigint NOT NULL,
    released    boolean NOT NULL DEFAULT FALSE
) WITH (fillfactor = 50);

-- Processes that take part. A beat that stands still says that one is gone.
CREATE TABLE members (
    node        uuid PRIMARY KEY,
    name        text NOT NULL,
    address     text,
    roles       text NOT NULL,
    version     text NOT NULL,
    started_at  bigint NOT NULL,
    beat        bigint NOT NULL,
    beat_at     bigint NOT NULL
) WITH (fillfactor = 50);

-- Named locks. The fencing value rises with every holder, so a row is never deleted.
CREATE TABLE locks (
    name         text PRIMARY KEY,
    fence        bigint NOT NULL,
    holder       uuid NOT NULL,
    holder_name  text NOT NULL,
    ttl_ms       bigint NOT NULL CHECK (ttl_ms > 0),
    beat         bigint NOT NULL,
    released     boolean NOT NULL
) WITH (fillfactor = 50);
