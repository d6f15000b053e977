//! The words of expressions: what may be named, which filters and tests there are, and where each name has a value.

use crate::diagnostic::{did_you_mean, quoted};

use super::reference::{ExprError, NameTable, Reference};

/// Why a name has no value at a place; `None`: it has one.
pub(crate) type Refusal = Option<&'static str>;

/// Which names an expression may use at its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Allowed {
    pub(crate) inputs: Refusal,
    pub(crate) run: Refusal,
    /// `run.status` and `run.failed_tasks`.
    pub(crate) run_end: Refusal,
    pub(crate) tasks: Refusal,
    pub(crate) env: Refusal,
    pub(crate) secrets: Refusal,
    pub(crate) item: Refusal,
    /// The item under another name.
    pub(crate) matrix: Refusal,
    pub(crate) event: Refusal,
    /// `body`, `status` and `headers`, and nothing else.
    pub(crate) answer: bool,
    /// `error`, and nothing else.
    pub(crate) error: bool,
}

pub(super) const ROOTS: [&str; 10] =
    ["inputs", "run", "workflow", "tasks", "secrets", "env", "item", "index", "matrix", "event"];
const ANSWER: [&str; 3] = ["body", "status", "headers"];
const FAILURE: [&str; 1] = ["error"];
const FAILURE_FIELDS: [&str; 5] = ["kind", "message", "exit_code", "status", "attempt"];
pub(super) const FUNCTIONS: [&str; 2] = ["dict", "range"];
pub(super) const KEYWORDS: [&str; 14] =
    ["and", "or", "not", "in", "is", "if", "else", "true", "false", "none", "True", "False", "None", "null"];
/// Filters whose result is bounded by what goes in. Those that repeat or pad at will are left out.
pub(super) const FILTERS: [&str; 54] = [
    "abs",
    "attr",
    "basename",
    "bool",
    "capitalize",
    "count",
    "d",
    "date",
    "datetime",
    "default",
    "dictsort",
    "dirname",
    "first",
    "float",
    "format",
    "fromjson",
    "groupby",
    "int",
    "items",
    "join",
    "json",
    "last",
    "length",
    "lines",
    "list",
    "lower",
    "map",
    "max",
    "min",
    "minus",
    "plus",
    "regex_find",
    "regex_match",
    "regex_replace",
    "reject",
    "rejectattr",
    "replace",
    "reverse",
    "round",
    "seconds",
    "select",
    "selectattr",
    "sort",
    "split",
    "string",
    "sum",
    "timestamp",
    "title",
    "tojson",
    "trim",
    "trimprefix",
    "unique",
    "upper",
    "urlencode",
];
pub(super) const TESTS: [&str; 24] = [
    "boolean",
    "defined",
    "divisibleby",
    "endingwith",
    "eq",
    "even",
    "false",
    "float",
    "ge",
    "gt",
    "in",
    "integer",
    "iterable",
    "le",
    "lt",
    "mapping",
    "ne",
    "none",
    "number",
    "odd",
    "sequence",
    "startingwith",
    "string",
    "true",
];
const TASK_FIELDS: [&str; 4] = ["output", "status", "attempts", "error"];
const ERROR_FIELDS: [&str; 3] = ["kind", "message", "attempt"];
const RUN_FIELDS: [&str; 5] = ["id", "created_at", "scheduled_for", "status", "failed_tasks"];
/// What is known of a run only when its main tasks have ended.
const RUN_END_FIELDS: [&str; 2] = ["status", "failed_tasks"];
const WORKFLOW_FIELDS: [&str; 3] = ["name", "namespace", "version"];

pub(super) fn check_reference(reference: &Reference, names: &NameTable<'_>, allowed: Allowed) -> Result<(), ExprError> {
    let fail = |message: String, help: Option<String>| {
        Err(ExprError { offset: reference.offset, length: reference.length, message, help })
    };
    let root = reference.root.as_str();
    let (known, over): (&[&str], &str) = match () {
        () if allowed.answer => (&ANSWER, " over an answer"),
        () if allowed.error => (&FAILURE, " over a failure"),
        () => (&ROOTS, ""),
    };
    if !known.contains(&root) {
        let help =
            did_you_mean(root, known.iter().copied()).unwrap_or_else(|| format!("there are {}", known.join(", ")));
        return fail(format!("nothing is called {} in expressions{over}", quoted(root)), Some(help));
    }
    let refusal = match root {
        "inputs" => allowed.inputs,
        "run" => allowed.run,
        "tasks" => allowed.tasks,
        "env" => allowed.env,
        "secrets" => allowed.secrets,
        "item" | "index" => allowed.item,
        "matrix" => allowed.matrix,
        "event" => allowed.event,
        _ => None,
    };
    if let Some(cause) = refusal {
        let (cause, help) = cause.split_once(" — ").map_or((cause, None), |(cause, help)| (cause, Some(help.into())));
        return fail(cause.replace("NAME", root), help);
    }
    if root == "secrets" && reference.path.is_empty() {
        let help = "write `secrets.NAME`".to_owned();
        return fail("`secrets` must be followed by the name of a secret".into(), Some(help));
    }
    match root {
        "tasks" => check_task(reference, names),
        "run" => {
            let field = reference.path.first().map_or("", String::as_str);
            if let Some(cause) = allowed.run_end.filter(|_| RUN_END_FIELDS.contains(&field)) {
                return fail(cause.replace("NAME", field), None);
            }
            let known: Vec<&str> = RUN_FIELDS
                .into_iter()
                .filter(|field| allowed.run_end.is_none() || !RUN_END_FIELDS.contains(field))
                .collect();
            check_field(reference, "`run`", 0, &known)
        }
        "workflow" => check_field(reference, "`workflow`", 0, &WORKFLOW_FIELDS),
        "error" => check_field(reference, "`error`", 0, &FAILURE_FIELDS),
        _ => Ok(()),
    }
}

/// The segment of the path that must be one of the fields, if it was written.
fn check_field(reference: &Reference, what: &str, at: usize, known: &[&str]) -> Result<(), ExprError> {
    match reference.path.get(at) {
        Some(field) if !known.contains(&field.as_str()) => Err(ExprError {
            offset: reference.offset,
            length: reference.length,
            message: format!("{what} has no {}", quoted(field)),
            help: did_you_mean(field, known.iter().copied())
                .or_else(|| Some(format!("there are {}", known.join(", ")))),
        }),
        _ => Ok(()),
    }
}

fn check_task(reference: &Reference, names: &NameTable<'_>) -> Result<(), ExprError> {
    let fail = |message: String, help: Option<String>| {
        Err(ExprError { offset: reference.offset, length: reference.length, message, help })
    };
    let Some((name, rest)) = reference.path.split_first() else {
        let help = "write `tasks.NAME.output` or `tasks['NAME'].output`".to_owned();
        return fail("`tasks` must be followed by the name of a task".into(), Some(help));
    };
    if !names.contains_key(name.as_str()) {
        return fail(format!("there is no task {}", quoted(name)), did_you_mean(name, names.keys().copied()));
    }
    match rest.first() {
        Some(field) if !TASK_FIELDS.contains(&field.as_str()) => {
            let help = did_you_mean(field, TASK_FIELDS)
                .unwrap_or_else(|| format!("write `tasks.{name}.output.{field}` if it is part of the output"));
            fail(format!("a task has no {}", quoted(field)), Some(help))
        }
        Some(field) if field == "error" => check_field(reference, "`error` of a task", 2, &ERROR_FIELDS),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::evaluate::environment;
    use super::*;

    /// A word in the list that the engine does not know would fail only when it is evaluated.
    #[test]
    fn every_filter_and_test_exists() {
        for filter in FILTERS {
            let source = format!("1 | {filter}");
            let compiled = environment().compile_expression(&source).unwrap();
            let error = compiled.eval(()).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(!error.contains("unknown filter"), "{filter}: {error}");
        }
        for test in TESTS {
            let compiled = environment().compile_expression_owned(format!("1 is {test}")).unwrap();
            let error = compiled.eval(()).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(!error.contains("unknown test"), "{test}: {error}");
        }
    }
}
