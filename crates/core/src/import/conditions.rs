//! The conditions of GitHub Actions, read and written anew: for jobs as an expression of this dialect, for steps as a
//! test of the shell, because what a step looks at exists only while the job runs.
//!
//! What cannot be translated as a whole is not translated at all.

use super::expressions::{Counterpart, JobScope, References, counterpart};

/// When something runs, as far as what went before is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum When {
    Success,
    Failure,
    Always,
}

/// A condition in two parts: how things stand, and what else must hold.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Condition {
    pub(super) when: When,
    rest: Option<Test>,
}

#[derive(Debug, PartialEq, Eq)]
enum Test {
    Or(Vec<Test>),
    And(Vec<Test>),
    Not(Box<Test>),
    Constant(bool),
    Status(When),
    Truth(Value),
    Equal(Value, Value, bool),
    Contains(Value, Value),
    Starts(Value, Value),
    Ends(Value, Value),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Value {
    Text(String),
    Path(String),
}

/// `None` if there is something in it that is unknown here.
pub(super) fn read(text: &str) -> Option<Condition> {
    let text = text.trim();
    let text = text.strip_prefix("${{").and_then(|inner| inner.strip_suffix("}}")).unwrap_or(text);
    if text.contains("${{") {
        return None;
    }
    let tokens = tokens(text)?;
    let mut parser = Parser { tokens: &tokens, at: 0 };
    let test = parser.or()?;
    (parser.at == tokens.len()).then_some(())?;
    let (when, rest) = test.simplified().split()?;
    Some(Condition { when, rest })
}

impl Condition {
    /// The rest as an expression; `None` if nothing of it can be said here, an empty text if there is none.
    pub(super) fn expression(&self, scope: &JobScope) -> Option<String> {
        self.rest.as_ref().map_or(Some(String::new()), |rest| rest.expression(scope))
    }

    /// The rest as a test of the shell.
    pub(super) fn shell(&self, scope: &JobScope, references: &mut References) -> Option<String> {
        self.rest.as_ref().map_or(Some(String::new()), |rest| rest.shell(scope, references))
    }
}

impl Test {
    /// Without what is known before anything runs: nothing but the clock and people start runs here.
    fn simplified(self) -> Self {
        match self {
            Self::Equal(Value::Path(path), Value::Text(event), equal)
            | Self::Equal(Value::Text(event), Value::Path(path), equal)
                if path == "github.event_name" && !matches!(event.as_str(), "schedule" | "workflow_dispatch") =>
            {
                Self::Constant(!equal)
            }
            Self::Not(inner) => match inner.simplified() {
                Self::Constant(truth) => Self::Constant(!truth),
                // `!cancelled()`: whatever happened, short of the end of the run.
                inner => Self::Not(Box::new(inner)),
            },
            Self::And(parts) => Self::joined(parts, true),
            Self::Or(parts) => Self::joined(parts, false),
            other => other,
        }
    }

    fn joined(parts: Vec<Self>, all: bool) -> Self {
        let mut kept = Vec::new();
        for part in parts.into_iter().map(Self::simplified) {
            match part {
                Self::Constant(truth) if truth == all => {}
                Self::Constant(truth) => return Self::Constant(truth),
                other => kept.push(other),
            }
        }
        match kept.len() {
            0 => Self::Constant(all),
            1 => kept.remove(0),
            _ if all => Self::And(kept),
            _ => Self::Or(kept),
        }
    }

    /// Takes `always()`, `failure()` and `success()` off the front: they may stand beside other parts, not within them.
    fn split(self) -> Option<(When, Option<Self>)> {
        let (whens, mut rest): (Vec<Self>, Vec<Self>) = match self {
            Self::And(parts) => parts.into_iter().partition(|part| matches!(part, Self::Status(_))),
            Self::Status(when) => return Some((when, None)),
            Self::Or(parts) if parts.iter().all(|part| matches!(part, Self::Status(_))) => {
                return Some((When::Always, None));
            }
            other => (Vec::new(), vec![other]),
        };
        let when = match whens[..] {
            [] => When::Success,
            [Self::Status(when)] => when,
            _ => return None,
        };
        rest.iter().all(|part| !part.has_status()).then_some(())?;
        let rest = if rest.len() > 1 { Some(Self::And(rest)) } else { rest.pop() };
        Some((when, rest))
    }

    fn has_status(&self) -> bool {
        match self {
            Self::Status(_) => true,
            Self::Not(inner) => inner.has_status(),
            Self::And(parts) | Self::Or(parts) => parts.iter().any(Self::has_status),
            _ => false,
        }
    }

    fn expression(&self, scope: &JobScope) -> Option<String> {
        let value = |value: &Value| match value {
            Value::Text(text) => Some(format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))),
            Value::Path(path) => match counterpart(path, scope)? {
                Counterpart::Expression(_, ours) if !ours.starts_with("secrets.") => Some(ours),
                _ => None,
            },
        };
        Some(match self {
            Self::Or(parts) | Self::And(parts) => {
                let word = if matches!(self, Self::Or(_)) { " or " } else { " and " };
                let parts: Option<Vec<String>> = parts.iter().map(|part| part.expression(scope)).collect();
                format!("({})", parts?.join(word))
            }
            Self::Not(inner) => format!("not {}", inner.expression(scope)?),
            Self::Constant(truth) => truth.to_string(),
            Self::Status(_) => return None,
            Self::Truth(one) => value(one)?,
            Self::Equal(one, other, equal) => {
                // There texts and numbers are compared without regard to case; here as texts.
                let operator = if *equal { "==" } else { "!=" };
                format!("{} | string {operator} {} | string", value(one)?, value(other)?)
            }
            Self::Contains(whole, part) => format!("{} in {}", value(part)?, value(whole)?),
            Self::Starts(whole, part) => format!("{} is startingwith({})", value(whole)?, value(part)?),
            Self::Ends(whole, part) => format!("{} is endingwith({})", value(whole)?, value(part)?),
        })
    }

    fn shell(&self, scope: &JobScope, references: &mut References) -> Option<String> {
        Some(match self {
            Self::Or(parts) | Self::And(parts) => {
                let word = if matches!(self, Self::Or(_)) { " || " } else { " && " };
                let parts: Option<Vec<String>> = parts.iter().map(|part| part.shell(scope, references)).collect();
                format!("{{ {}; }}", parts?.join(word))
            }
            Self::Not(inner) => format!("! {}", inner.shell(scope, references)?),
            Self::Constant(true) => "true".into(),
            Self::Constant(false) => "false".into(),
            Self::Status(_) => return None,
            Self::Truth(one) => {
                let one = one.word(scope, references)?;
                format!("{{ [ -n {one} ] && [ {one} != false ] && [ {one} != 0 ]; }}")
            }
            Self::Equal(one, other, equal) => {
                let operator = if *equal { "=" } else { "!=" };
                format!("[ {} {operator} {} ]", one.word(scope, references)?, other.word(scope, references)?)
            }
            Self::Contains(whole, part) => {
                let (whole, part) = (whole.word(scope, references)?, part.word(scope, references)?);
                format!("case {whole} in *{part}*) true;; *) false;; esac")
            }
            Self::Starts(whole, part) => {
                let (whole, part) = (whole.word(scope, references)?, part.word(scope, references)?);
                format!("case {whole} in {part}*) true;; *) false;; esac")
            }
            Self::Ends(whole, part) => {
                let (whole, part) = (whole.word(scope, references)?, part.word(scope, references)?);
                format!("case {whole} in *{part}) true;; *) false;; esac")
            }
        })
    }
}

impl Value {
    /// As a quoted word of the shell.
    fn word(&self, scope: &JobScope, references: &mut References) -> Option<String> {
        match self {
            Self::Text(text) => Some(quoted(text)),
            Self::Path(path) => match counterpart(path, scope)? {
                Counterpart::Variable(name) => Some(format!("\"${{{name}}}\"")),
                Counterpart::Expression(variable, ours) => {
                    if let Some(secret) = ours.strip_prefix("secrets.") {
                        references.secrets.insert(secret.to_owned());
                    }
                    references.variables.insert(variable.clone(), ours);
                    Some(format!("\"${{{variable}}}\""))
                }
            },
        }
    }
}

/// A text as one word of the shell, whatever is in it.
pub(super) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''").replace("${{", "$ {{"))
}

#[derive(Debug, PartialEq, Eq)]
enum Token {
    Symbol(&'static str),
    Text(String),
    Word(String),
}

fn tokens(text: &str) -> Option<Vec<Token>> {
    let mut references = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let symbol = ["&&", "||", "==", "!=", "!", "(", ")", ","].into_iter().find(|symbol| rest.starts_with(symbol));
        if let Some(symbol) = symbol {
            references.push(Token::Symbol(symbol));
            rest = &rest[symbol.len()..];
        } else if first == '\'' {
            // A quote inside is written twice.
            let mut end = 1;
            while let Some(quote) = rest[end..].find('\'').map(|at| end + at) {
                end = quote + 1;
                if !rest[end..].starts_with('\'') {
                    break;
                }
                end += 1;
            }
            (end > 1 && rest[..end].ends_with('\'')).then_some(())?;
            references.push(Token::Text(rest[1..end - 1].replace("''", "'")));
            rest = &rest[end..];
        } else {
            let end = rest
                .find(|one: char| !(one.is_ascii_alphanumeric() || matches!(one, '_' | '-' | '.')))
                .unwrap_or(rest.len());
            (end > 0).then_some(())?;
            references.push(Token::Word(rest[..end].to_owned()));
            rest = &rest[end..];
        }
        rest = rest.trim_start();
    }
    Some(references)
}

struct Parser<'t> {
    tokens: &'t [Token],
    at: usize,
}

impl Parser<'_> {
    fn takes(&mut self, symbol: &str) -> bool {
        let is_next = matches!(self.tokens.get(self.at), Some(Token::Symbol(next)) if *next == symbol);
        self.at += usize::from(is_next);
        is_next
    }

    fn or(&mut self) -> Option<Test> {
        let mut parts = vec![self.and()?];
        while self.takes("||") {
            parts.push(self.and()?);
        }
        Some(if parts.len() > 1 { Test::Or(parts) } else { parts.remove(0) })
    }

    fn and(&mut self) -> Option<Test> {
        let mut parts = vec![self.not()?];
        while self.takes("&&") {
            parts.push(self.not()?);
        }
        Some(if parts.len() > 1 { Test::And(parts) } else { parts.remove(0) })
    }

    fn not(&mut self) -> Option<Test> {
        if self.takes("!") {
            let is_cancelled = matches!(&self.tokens[self.at..], [Token::Word(word), Token::Symbol("("), Token::Symbol(")"), ..] if word == "cancelled");
            if is_cancelled {
                self.at += 3;
                return Some(Test::Status(When::Always));
            }
            return Some(Test::Not(Box::new(self.not()?)));
        }
        if self.takes("(") {
            let inner = self.or()?;
            return self.takes(")").then_some(inner);
        }
        self.comparison()
    }

    fn comparison(&mut self) -> Option<Test> {
        if let (Some(Token::Word(word)), Some(Token::Symbol("("))) =
            (self.tokens.get(self.at), self.tokens.get(self.at + 1))
        {
            self.at += 2;
            let status = match word.as_str() {
                "always" => Some(When::Always),
                "failure" => Some(When::Failure),
                "success" => Some(When::Success),
                _ => None,
            };
            if let Some(when) = status {
                return self.takes(")").then_some(Test::Status(when));
            }
            let one = self.value()?;
            self.takes(",").then_some(())?;
            let other = self.value()?;
            self.takes(")").then_some(())?;
            return match word.as_str() {
                "contains" => Some(Test::Contains(one, other)),
                "startsWith" => Some(Test::Starts(one, other)),
                "endsWith" => Some(Test::Ends(one, other)),
                _ => None,
            };
        }
        let one = self.value()?;
        for (symbol, equal) in [("==", true), ("!=", false)] {
            if self.takes(symbol) {
                return Some(Test::Equal(one, self.value()?, equal));
            }
        }
        Some(match one {
            Value::Text(text) if text == "true" || text == "false" => Test::Constant(text == "true"),
            other => Test::Truth(other),
        })
    }

    fn value(&mut self) -> Option<Value> {
        let value = match self.tokens.get(self.at)? {
            Token::Text(text) => Value::Text(text.clone()),
            Token::Word(word) if matches!(word.as_str(), "true" | "false") || word.parse::<f64>().is_ok() => {
                Value::Text(word.clone())
            }
            Token::Word(word) => Value::Path(word.clone()),
            Token::Symbol(_) => return None,
        };
        self.at += 1;
        Some(value)
    }
}
