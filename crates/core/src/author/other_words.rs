//! The words of other programs, and what to write instead.

use super::dialect::Table;

/// What other programs call it, by the mapping that the key was written in.
const OTHER_WORDS: [(&str, &str, &str); 41] = [
    ("a workflow", "schedule", "write `triggers: [{cron: \"0 2 * * *\"}]`"),
    ("a workflow", "schedules", "write `triggers: [{cron: \"0 2 * * *\"}]`"),
    ("a workflow", "cron", "write `triggers: [{cron: \"0 2 * * *\"}]`"),
    ("a workflow", "every", "write `triggers: [{every: 15m}]`"),
    ("a workflow", "on", "write `triggers`: `[{cron: …}]`, `[{event: …}]`"),
    ("a workflow", "steps", "write `tasks`: a mapping from names to tasks, with `needs` between them"),
    ("a step", "uses", "write what it does in `run`"),
    ("a step", "working-directory", "write `cwd`"),
    ("a step", "continue-on-error", "write `continue_on_error`"),
    ("`poll`", "sql", "write `run` with the client of the database, and `output: json` or `stdout`"),
    ("`poll`", "interval", "write `every`"),
    ("`poll`", "url", "write `http`"),
    ("a workflow", "jobs", "write `tasks`: a mapping from names to tasks, with `needs` between them"),
    ("a workflow", "dag", "write `tasks`: a mapping from names to tasks, with `needs` between them"),
    ("a workflow", "id", "write `name`"),
    ("a workflow", "params", "write `inputs`: `{day: {type: date}}`"),
    ("a workflow", "variables", "write `env`, or `inputs` for what a run is given"),
    ("a workflow", "retry", "write `defaults: {retry: {attempts: 3}}`"),
    ("a workflow", "retries", "write `defaults: {retry: {attempts: 3}}`"),
    ("a task", "depends_on", "write `needs`"),
    ("a task", "depends", "write `needs`"),
    ("a task", "dependencies", "write `needs`"),
    ("a task", "upstream", "write `needs`"),
    ("a task", "command", "write `run`"),
    ("a task", "cmd", "write `run`"),
    ("a task", "script", "write `run`"),
    ("a task", "bash_command", "write `run`"),
    ("a task", "when", "write `if`"),
    ("a task", "condition", "write `if`"),
    ("a task", "retries", "write `retry: {attempts: 3}`"),
    ("a task", "with_items", "write `foreach`"),
    ("a task", "strategy", "write `matrix`, `fail_fast` and `max_parallel` in the task itself"),
    ("a task", "container", "write `image`"),
    (
        "a task",
        "inputs",
        "inputs of another workflow belong into `workflow: {name: …, inputs: {…}}`; for a script write `env`",
    ),
    ("a task", "dotenv", "write `env_file`"),
    ("a task", "continue_on", "write `exit_codes: {continue: [3], skip: [99]}`, or `on_exhausted: continue`"),
    ("a workflow", "dotenv", "write `env_file`"),
    ("a task", "working_directory", "write `cwd`"),
    ("a task", "memoize", "write `reuse: {key: …, ttl: 1h}`"),
    ("a task", "task_cache", "write `reuse: {key: …, ttl: 1h}`"),
    ("`cache`", "path", "write `paths`"),
];

/// What to write instead of a word that other programs use.
pub(super) fn other_word(table: &Table, key: &str) -> Option<&'static str> {
    OTHER_WORDS.iter().find(|(what, word, _)| *what == table.what && *word == key).map(|(_, _, help)| *help)
}
