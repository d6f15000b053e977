//! Expressions: `${{ }}` templates and bare conditions, evaluated by MiniJinja within limits.
//!
//! Data is never evaluated: a value that holds `${{` stays those characters. An expression sees `inputs`, `run`,
//! `workflow`, `env`, the tasks it names and, where they exist, `secrets`, `item`, `index` and `event`; it cannot loop, include, define macros or look at a task by a computed
//! name, so what it reads is known before it runs.

mod comparison;
mod depth;
mod evaluate;
mod filters;
mod multiplication;
mod reference;
mod scope;
mod template;
mod times;
mod vocabulary;

#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod tests;

pub(crate) use evaluate::{EvalError, evaluate, is_true, render_json, render_text};
pub(crate) use reference::{Analysis, ExprError, NameTable, analyse, references};
pub use scope::{Scope, TaskError, TaskView};
pub(crate) use template::{Part, has_expression, split, strip_braces};
pub(crate) use vocabulary::Allowed;

/// The longest expression; longer ones belong in a task.
pub const MAX_EXPRESSION: usize = 4_096;
/// The largest value or text an expression may give.
pub const MAX_RESULT: usize = 1024 * 1024;
