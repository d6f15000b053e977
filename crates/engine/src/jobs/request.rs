//! The request for a job and its validation: all errors are reported at once, each with its place.

use mainspring_core::builtin::builtin_function;
use mainspring_core::schedule::{Cron, timezone};
use mainspring_core::time;
use mainspring_core::workflow::DEFAULT_NAMESPACE;
use mainspring_core::{Micros, Workflow};
use mainspring_store::JobKind;
use serde_json::{Value, json};

use super::spec::{DEFAULT_RETRIES, DEFAULT_RETRY_DELAY_MS, DEFAULT_TIMEOUT_MS, JobSpec, LONGEST_RETRY_DELAY_MS};
use crate::request_fault::RequestFault;

const MAX_NAME: usize = 255;
const MAX_SLUG: usize = 90;
const MAX_TAGS: usize = 50;
const MAX_TAG: usize = 128;
const MAX_PAYLOAD: usize = 1 << 20;
/// An instant that is this little ago is taken for now: requests take their time.
const JUST_NOW: Micros = 60_000_000;

/// When a job fires.
#[derive(Debug, Clone)]
pub enum JobTiming {
    Cron(String),
    /// RFC 3339.
    Once(String),
    /// A duration like `15m`.
    Interval(String),
    /// After runs of this workflow, `namespace/name`, that ended so.
    After {
        workflow: String,
        on: Vec<String>,
    },
}

impl JobTiming {
    pub fn kind(&self) -> JobKind {
        match self {
            Self::Cron(_) => JobKind::Cron,
            Self::Once(_) => JobKind::OneTime,
            Self::Interval(_) => JobKind::Recurring,
            Self::After { .. } => JobKind::Dependent,
        }
    }
}

/// The request for a job. Fields that are not given get their defaults.
#[derive(Debug, Clone)]
pub struct JobRequest {
    /// Any printable name.
    pub name: String,
    pub namespace: Option<String>,
    pub description: Option<String>,
    pub timing: JobTiming,
    pub timezone: Option<String>,
    pub start_date: Option<String>,
    pub end_date: Option<String>,
    pub max_executions: Option<u64>,
    pub handler_name: String,
    pub handler_type: Option<String>,
    pub payload: Option<Value>,
    /// Nothing in the payload is an expression.
    pub literal: bool,
    pub max_retries: Option<u32>,
    pub retry_delay_ms: Option<u64>,
    /// Bounds the delay, which doubles with every failure.
    pub max_retry_delay_ms: Option<u64>,
    pub timeout_ms: Option<u64>,
    pub priority: Option<Value>,
    pub concurrency: Option<u32>,
    pub allow_overlap: Option<bool>,
    pub tags: Vec<String>,
    pub metadata: Option<Value>,
    pub created_by: String,
    /// Put it in the place of a job of that name.
    pub replace: bool,
}

impl JobRequest {
    pub fn new(name: impl Into<String>, handler: impl Into<String>, timing: JobTiming) -> Self {
        Self {
            name: name.into(),
            namespace: None,
            description: None,
            timing,
            timezone: None,
            start_date: None,
            end_date: None,
            max_executions: None,
            handler_name: handler.into(),
            handler_type: None,
            payload: None,
            literal: false,
            max_retries: None,
            retry_delay_ms: None,
            max_retry_delay_ms: None,
            timeout_ms: None,
            priority: None,
            concurrency: None,
            allow_overlap: None,
            tags: Vec::new(),
            metadata: None,
            created_by: "unknown".into(),
            replace: false,
        }
    }
}

/// A request that holds together.
pub(crate) struct Checked {
    pub(crate) spec: JobSpec,
    pub(crate) document: Value,
    pub(crate) workflow: Workflow,
}

impl JobRequest {
    pub(crate) fn check(&self, now: Micros) -> Result<Checked, Vec<RequestFault>> {
        let mut faults = Vec::new();
        self.check_texts(&mut faults);
        let schedule = self.check_timing(now, &mut faults);
        let handler_type = self.check_handler_type(&mut faults);
        let start_date = instant("/start_date", &self.start_date, &mut faults);
        let end_date = instant("/end_date", &self.end_date, &mut faults);
        if let (Some(start), Some(end)) = (start_date, end_date)
            && start >= end
        {
            faults.push(RequestFault::new(
                "/end_date",
                "it ends before it begins: give an `end_date` behind `start_date`",
            ));
        }
        if self.max_executions == Some(0) {
            faults.push(RequestFault::new("/max_executions", "a job that never runs is of no use: give at least 1"));
        }
        if self.timeout_ms == Some(0) {
            faults.push(RequestFault::new("/timeout_ms", "nothing ends within no time: give at least 1"));
        }
        let allow_overlap = self.allow_overlap.unwrap_or(false);
        let (follows, on) = match &self.timing {
            JobTiming::After { workflow, on } => (Some(workflow.clone()), on.clone()),
            _ => (None, Vec::new()),
        };
        let spec = JobSpec {
            title: self.name.clone(),
            description: self.description.clone(),
            schedule,
            timezone: self.timezone.clone().unwrap_or_else(|| "UTC".into()),
            follows,
            on,
            start_date,
            end_date,
            max_executions: self.max_executions,
            handler_name: match handler_type {
                "shell" if self.handler_name.is_empty() => "shell".into(),
                _ => self.handler_name.clone(),
            },
            handler_type: handler_type.into(),
            payload: self.payload.clone().unwrap_or_else(|| json!({})),
            literal: self.literal,
            max_retries: self.max_retries.unwrap_or(DEFAULT_RETRIES),
            retry_delay_ms: self.retry_delay_ms.unwrap_or(DEFAULT_RETRY_DELAY_MS),
            max_retry_delay_ms: self.max_retry_delay_ms.unwrap_or(LONGEST_RETRY_DELAY_MS),
            timeout_ms: self.timeout_ms.unwrap_or_else(|| self.usual_timeout_ms(handler_type)),
            priority: self.priority.clone().unwrap_or_else(|| "medium".into()),
            concurrency: self.concurrency.or((!allow_overlap).then_some(1)),
            allow_overlap,
            tags: self.tags.clone(),
            metadata: self.metadata.clone().unwrap_or_else(|| json!({})),
        };
        if !faults.is_empty() {
            return Err(faults);
        }
        let namespace = self.namespace.as_deref().unwrap_or(DEFAULT_NAMESPACE);
        compile(spec, self.timing.kind(), namespace, &slug(&self.name))
    }

    fn check_handler_type(&self, faults: &mut Vec<RequestFault>) -> &str {
        match self.handler_type.as_deref().unwrap_or("function") {
            word @ ("function" | "agent" | "workflow" | "shell") => word,
            "remote" => "agent",
            other => {
                let message = format!("`{other}` is no type of handler: write function, agent, workflow or shell");
                faults.push(RequestFault::new("/handler_type", message));
                "function"
            }
        }
    }

    /// A built-in function knows best how long it may take.
    fn usual_timeout_ms(&self, handler_type: &str) -> u64 {
        let builtin = (handler_type == "function").then(|| builtin_function(&self.handler_name)).flatten();
        builtin.map_or(DEFAULT_TIMEOUT_MS, |function| function.timeout_ms)
    }

    fn check_texts(&self, faults: &mut Vec<RequestFault>) {
        let length = self.name.chars().count();
        if self.name.trim().is_empty() || length > MAX_NAME || self.name.chars().any(char::is_control) {
            let message = format!("a name has 1 to {MAX_NAME} printable characters, this one has {length}");
            faults.push(RequestFault::new("/name", message));
        }
        let fits = |c: char| c.is_ascii_alphanumeric() || "_.:-".contains(c);
        if self.handler_type.as_deref() == Some("shell") {
            let command = self.payload.as_ref().and_then(|payload| payload.get("run")).and_then(Value::as_str);
            if command.is_none_or(|command| command.trim().is_empty()) {
                let message = "a shell job has its command in the payload, like {\"run\": \"df -h\"}";
                faults.push(RequestFault::new("/payload", message));
            }
        } else if self.handler_name.is_empty()
            || self.handler_name.len() > MAX_NAME
            || !self.handler_name.chars().all(fits)
        {
            let message = "the name of a handler is made of letters, digits and `_ . : -`, like `reports:send`";
            faults.push(RequestFault::new("/handler_name", message));
        }
        if self.tags.len() > MAX_TAGS {
            faults.push(RequestFault::new("/tags", format!("at most {MAX_TAGS} tags: these are {}", self.tags.len())));
        }
        for (number, tag) in self.tags.iter().enumerate() {
            if tag.trim().is_empty() || tag.chars().count() > MAX_TAG || tag.chars().any(char::is_control) {
                let message = format!("a tag has 1 to {MAX_TAG} printable characters");
                faults.push(RequestFault::new(format!("/tags/{number}"), message));
            }
        }
        if let Some(payload) = &self.payload {
            if !payload.is_object() && !payload.is_null() {
                faults.push(RequestFault::new("/payload", "a payload is an object, like {\"retention_days\": 30}"));
            }
            if payload.to_string().len() > MAX_PAYLOAD {
                faults.push(RequestFault::new(
                    "/payload",
                    format!("a payload has at most {MAX_PAYLOAD} bytes: store the data elsewhere and pass its address"),
                ));
            }
        }
        if self.metadata.as_ref().is_some_and(|metadata| !metadata.is_object() && !metadata.is_null()) {
            faults.push(RequestFault::new("/metadata", "metadata is an object, like {\"team\": \"billing\"}"));
        }
    }

    /// The schedule as it is kept.
    fn check_timing(&self, now: Micros, faults: &mut Vec<RequestFault>) -> String {
        let zone = self.timezone.as_deref().unwrap_or("UTC");
        let known = timezone(zone);
        if let Err(error) = &known {
            faults.push(RequestFault::new("/timezone", format!("{error}: {}", error.help)));
        }
        match &self.timing {
            JobTiming::Cron(text) => {
                if known.is_ok()
                    && let Err(error) = Cron::parse(text, zone)
                {
                    faults.push(RequestFault::new("/schedule", format!("{error}: {}", error.help())));
                }
                text.clone()
            }
            JobTiming::Once(text) => match time::parse(text) {
                None => {
                    let message = format!("`{text}` is not an instant: write it like 2026-12-01T10:00:00Z");
                    faults.push(RequestFault::new("/execute_at", message));
                    text.clone()
                }
                Some(at) if at < now - JUST_NOW => {
                    let message = format!("{} has passed: give an instant to come", time::rfc3339(at));
                    faults.push(RequestFault::new("/execute_at", message));
                    text.clone()
                }
                Some(at) => time::rfc3339(at),
            },
            JobTiming::Interval(text) => text.clone(),
            JobTiming::After { workflow, on } => {
                if on.is_empty() || on.iter().any(|end| !["success", "failed", "cancelled"].contains(&end.as_str())) {
                    faults.push(RequestFault::new("/on", "write which ends it follows: success, failed or cancelled"));
                }
                workflow.clone()
            }
        }
    }
}

/// The workflow of a job; errors of the dialect are reported under the fields of the request.
pub(crate) fn compile(spec: JobSpec, kind: JobKind, namespace: &str, name: &str) -> Result<Checked, Vec<RequestFault>> {
    let document = spec.document(kind, namespace, name);
    match mainspring_core::parse(&document.to_string()) {
        Ok(workflow) => Ok(Checked { spec, document, workflow }),
        Err(problems) => Err(problems
            .iter()
            .map(|problem| {
                let help = problem.help.as_ref().map(|help| format!(": {help}")).unwrap_or_default();
                RequestFault::new(pointer_of(&problem.path), format!("{}{help}", problem.message))
            })
            .collect()),
    }
}

/// Which field of a request a place of the workflow comes from.
fn pointer_of(path: &str) -> String {
    let known = [
        ("/triggers/0/cron", "/schedule"),
        ("/triggers/0/every", "/every"),
        ("/triggers/0/at", "/execute_at"),
        ("/triggers/0/timezone", "/timezone"),
        ("/triggers/0/start", "/start_date"),
        ("/triggers/0/end", "/end_date"),
        ("/triggers/0/max_executions", "/max_executions"),
        ("/triggers/0/workflow", "/workflow"),
        ("/triggers/0/on", "/on"),
        ("/tasks/job/retry/attempts", "/max_retries"),
        ("/tasks/job/retry/max_delay", "/max_retry_delay_ms"),
        ("/tasks/job/retry", "/retry_delay_ms"),
        ("/tasks/job/timeout", "/timeout_ms"),
        ("/tasks/job/function/payload", "/payload"),
        ("/tasks/job/remote/payload", "/payload"),
        ("/tasks/job/workflow/inputs", "/payload"),
        ("/tasks/job/run", "/payload"),
        ("/tasks/job", "/handler_name"),
        ("/concurrency", "/concurrency"),
        ("/priority", "/priority"),
        ("/namespace", "/namespace"),
        ("/description", "/description"),
        ("/title", "/name"),
        ("/name", "/name"),
    ];
    let found = known.into_iter().find_map(|(place, field)| path.strip_prefix(place).map(|rest| (field, rest)));
    match found {
        Some((field @ "/payload", rest)) => format!("{field}{rest}"),
        Some((field, _)) => field.into(),
        None => String::new(),
    }
}

/// A name for people as one for addresses.
pub(crate) fn slug(title: &str) -> String {
    let mut slug = String::new();
    for c in title.chars().flat_map(char::to_lowercase) {
        let c = if c.is_ascii_alphanumeric() || "_.-".contains(c) { c } else { '-' };
        if c != '-' || !slug.ends_with('-') {
            slug.push(c);
        }
    }
    let slug: String = slug.trim_matches(|c: char| !c.is_ascii_alphanumeric()).chars().take(MAX_SLUG).collect();
    if slug.is_empty() { "job".into() } else { slug }
}

/// Reads an instant; `None` if there is none, or with a fault if it is not one.
fn instant(pointer: &str, text: &Option<String>, faults: &mut Vec<RequestFault>) -> Option<Micros> {
    let text = text.as_deref()?;
    let at = time::parse(text);
    if at.is_none() {
        faults.push(RequestFault::new(
            pointer,
            format!("`{text}` is not an instant: write it like 2026-12-01T10:00:00Z"),
        ));
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_become_names() {
        for (title, name) in [
            ("Daily Cleanup", "daily-cleanup"),
            ("  Über--alles!  ", "ber-alles"),
            ("a.b_c-d", "a.b_c-d"),
            ("日本", "job"),
            ("cleanup:old_traces", "cleanup-old_traces"),
        ] {
            assert_eq!(slug(title), name, "{title}");
        }
    }

    #[test]
    fn a_job_has_the_agreed_defaults() {
        let request = JobRequest::new("Daily Cleanup", "cleanup:old_traces", JobTiming::Cron("0 2 * * *".into()));
        let checked = request.check(0).unwrap_or_else(|faults| panic!("{faults:?}"));
        let task = &checked.workflow.tasks[0];
        assert_eq!((task.retry.attempts, task.timeout_ms), (4, Some(600_000)), "the function knows its time");
        let own = JobRequest::new("Own", "reports:send", JobTiming::Cron("0 2 * * *".into()));
        let own = own.check(0).unwrap_or_else(|faults| panic!("{faults:?}"));
        assert_eq!(own.workflow.tasks[0].timeout_ms, Some(300_000));
        let delays: Vec<i64> = (1..=7).map(|failures| task.retry.delay_micros(failures, 0.5) / 1_000_000).collect();
        assert_eq!(delays, [60, 120, 240, 480, 960, 1_800, 1_800], "twice as long each time, up to half an hour");
        assert_eq!(checked.workflow.concurrency.as_ref().map(|limit| limit.limit), Some(1));
        assert_eq!(checked.spec.priority, "medium");
        assert_eq!(checked.workflow.name, "daily-cleanup");
        assert_eq!(checked.workflow.title.as_deref(), Some("Daily Cleanup"));
    }

    #[test]
    fn every_kind_and_handler_makes_a_workflow() {
        let after = JobTiming::After { workflow: "default/other".into(), on: vec!["success".into(), "failed".into()] };
        for timing in [
            JobTiming::Cron("*/5 * * * *".into()),
            JobTiming::Once("2030-01-01T00:00:00Z".into()),
            JobTiming::Interval("15m".into()),
            after,
        ] {
            for kind in ["function", "agent", "remote", "workflow"] {
                let mut request = JobRequest::new("j", "h", timing.clone());
                request.handler_type = Some(kind.into());
                request.payload = Some(json!({"a": 1}));
                request.max_executions = (timing.kind() != JobKind::OneTime).then_some(3);
                request.check(0).unwrap_or_else(|faults| panic!("{timing:?} {kind}: {faults:?}"));
            }
        }
    }

    #[test]
    fn everything_wrong_is_said_with_its_place() {
        let mut request = JobRequest::new(" ", "no spaces please", JobTiming::Cron("61 * * * *".into()));
        request.handler_type = Some("magic".into());
        request.payload = Some(json!([1]));
        request.start_date = Some("tomorrow".into());
        request.max_executions = Some(0);
        request.tags = vec![String::new()];
        let faults = request.check(0).err().expect("it is refused");
        let places: Vec<&str> = faults.iter().map(|fault| fault.pointer.as_str()).collect();
        for place in [
            "/name",
            "/handler_name",
            "/schedule",
            "/handler_type",
            "/payload",
            "/start_date",
            "/max_executions",
            "/tags/0",
        ] {
            assert!(places.contains(&place), "{place} in {faults:?}");
        }
        let mut request = JobRequest::new("j", "h", JobTiming::Interval("often".into()));
        request.priority = Some("urgent".into());
        let faults = request.check(0).err().expect("it is refused");
        let places: Vec<&str> = faults.iter().map(|fault| fault.pointer.as_str()).collect();
        assert!(places.contains(&"/every") && places.contains(&"/priority"), "{faults:?}");
        let late = JobRequest::new("j", "h", JobTiming::Once("2020-01-01T00:00:00Z".into()));
        assert_eq!(
            late.check(1_780_000_000_000_000).err().map(|faults| faults[0].pointer.clone()),
            Some("/execute_at".into())
        );
    }
}
