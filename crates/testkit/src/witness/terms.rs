//! What must follow from the witness's log of terms. Each text returns what breaks the invariant.

pub(super) const ONE_HOLDER: &str = "an epoch has one holder, and the next epoch another number";
pub(super) const KEPT: &str = "a term is kept by its holder";
pub(super) const HELD: &str = "only who holds the term writes as its leader";
pub(super) const NOT_LATE: &str = "no write of an epoch commits after the takeover to a later one";

pub(super) const INVARIANTS: [(&str, &str); 4] = [
    (
        ONE_HOLDER,
        "SELECT 'epoch ' || epoch || ' after ' || before FROM \
         (SELECT epoch, coalesce(lag(epoch) OVER (ORDER BY at), 0) AS before FROM witness_takeovers) t WHERE epoch <> before + 1",
    ),
    (
        KEPT,
        "SELECT 'epoch ' || n.epoch || ' of ' || coalesce(t.actor, '?') || ' kept by ' || coalesce(n.actor, '?') \
         FROM witness_turns n LEFT JOIN witness_takeovers t USING (epoch) WHERE n.actor IS DISTINCT FROM t.actor",
    ),
    (
        HELD,
        "SELECT what || ' ' || subject || ' by ' || coalesce(actor, '?') || ' in epoch ' || coalesce(epoch, 0) || ' of ' || coalesce(holder, '?') \
         FROM witness_writes WHERE epoch IS NULL OR actor IS DISTINCT FROM holder",
    ),
    (
        NOT_LATE,
        "SELECT w.what || ' ' || w.subject || ' by ' || coalesce(w.actor, '?') || ' of epoch ' || w.epoch || ' was not there at the takeover to ' || t.epoch \
         FROM witness_writes w JOIN witness_takeovers t ON t.epoch > w.epoch WHERE NOT pg_visible_in_snapshot(w.xid, t.seen)",
    ),
];
