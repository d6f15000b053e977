DROP INDEX attempts_by_seq;
DROP INDEX history_superseded_by_seq;
DROP INDEX history_by_seq;
DROP TABLE run_transitions;
