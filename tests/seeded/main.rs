//! Bugs on purpose: each is one that a scheduler like this could have, and the checker must find it. Under the same
//! schedule the sound version leaves nothing to find.
//!
//! Bugs inside a unit are put into the test's own database: into the text of its function on PostgreSQL, into a trigger
//! that undoes a write on SQLite. Bugs in what a program sends, to PostgreSQL or to Redis, are put in by a proxy. Bugs of what a
//! node or a remote worker does not do (a claim that it forgets, a stolen task that it starts) are played by the driver: they
//! are decisions inside the program, and nothing in a released program can be switched to decide otherwise.
//!
//! Four bugs are seeded on PostgreSQL only. Three cannot happen on SQLite: one writer at a time leaves no moment for a
//! session to be reaped during a claim or for a leader to be succeeded during its unit, and without a connection no reply
//! gets lost after its commit. The fourth, a finish that does not check session and attempt, is a condition left out of
//! a statement inside the program; a trigger can undo a write but not let one happen.

mod bugs;
mod cluster;
mod corruption;
mod doubts;
mod driver;
mod mutation;
mod services;
mod terms;
