-- The numbered events of a run. Ended task runs, attempts that did not end theirs and the actions of people carry their
-- numbers already; what a run itself goes through has its rows here. The end of an ended run has none: it is the one number
-- that no row carries, and `runs` says when it was and how. So a plain run costs nothing.
-- Kinds: 0 admitted, 1 entered a stage, 2 ended (what a reopening took back), 3 timed out, 4 cancelled with what waited for it.
CREATE TABLE run_transitions (
    run_id      uuid NOT NULL,
    seq         bigint NOT NULL,
    kind        smallint NOT NULL CHECK (kind BETWEEN 0 AND 4),
    state       smallint NOT NULL CHECK (state BETWEEN 0 AND 5),
    stage       smallint NOT NULL CHECK (stage BETWEEN 0 AND 2),
    created_at  bigint NOT NULL,
    PRIMARY KEY (run_id, seq)
);

-- Whoever follows a run reads it from a number on. The first thousand tasks are looked up by their key; only what a run may
-- have more of is indexed, so that small runs pay nothing.
CREATE INDEX history_by_seq ON history (run_id, seq) WHERE item >= 0 OR idx >= 1000;
CREATE INDEX history_superseded_by_seq ON history_superseded (run_id, seq);
CREATE INDEX attempts_by_seq ON attempts (run_id, seq);
