DROP INDEX attempts_by_seq, history_superseded_by_seq, history_by_seq;
DROP TABLE run_transitions;
