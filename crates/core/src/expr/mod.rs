//! Expressions: `${{ }}` templates and bare conditions, evaluated by MiniJinja within limits.
//!
//! Data is never evaluated: a value that holds `${{` stays those characters. An expression sees `inputs`, `run`,
//! `workflow`, `env` and the tasks it names; it cannot loop, include, define macros or look at a task by a computed
//! name, so what it reads is known before it runs.

mod evaluate;
mod facts;
mod filters;
mod multiplication;
mod reference;
mod scope;
mod template;

#[cfg(test)]
mod tests;

pub(crate) use evaluate::{EvalError, evaluate, is_true, render_json, render_text};
pub use facts::holds;
pub(crate) use reference::{Allowed, Analysis, ExprError, NameTable, analyse};
pub use scope::{Scope, TaskView};
pub(crate) use template::{Part, has_expression, split, strip_braces};

/// The longest expression; longer ones belong in a task.
pub const MAX_EXPRESSION: usize = 4_096;
/// The largest value or text an expression may give.
pub const MAX_RESULT: usize = 1024 * 1024;
