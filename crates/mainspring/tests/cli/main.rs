//! The real binary, as people and programs call it.

mod authoring;
mod bad_input;
mod batches;
mod configuration;
mod cron;
mod dead_letters;
mod examples;
mod files;
mod guard;
mod isolation;
mod maintain;
mod newcomer;
mod object_store;
mod operate;
mod remote;
mod remote_workers;
mod repairs;
mod restart;
mod run;
mod schedules;
mod server;
mod support;
mod traces;
mod validate;
mod waiting;
mod watch;
