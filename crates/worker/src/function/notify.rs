//! `notify:send`: sends a notification by webhook or e-mail.

use std::time::Duration;

use mainspring_core::builtin::builtin_function;
use mainspring_core::work::Failure;
use serde_json::{Map, Value, json};

use super::call::{FunctionCall, FunctionFuture, FunctionResult, Handler};
use super::payload::Payload;
use crate::email::SmtpConfig;
use crate::http::{Request, identify};

/// How much of an answer to a webhook is read: only its status counts.
const ANSWER_LIMIT: u64 = 64 * 1024;
const REDIRECTS: u8 = 3;

#[derive(Debug)]
pub(super) struct Notify {
    pub(super) smtp: Option<SmtpConfig>,
}

impl Handler for Notify {
    /// `{type: webhook, recipient: "https://…", subject, body, headers}` or
    /// `{type: email, recipient: a@example.org, subject, body}`; several recipients as a list.
    fn call(&self, call: FunctionCall) -> FunctionFuture<'_> {
        Box::pin(async move {
            tokio::select! {
                () = call.cancel.cancelled() => Ok(None),
                result = self.send(&call) => result,
            }
        })
    }

    fn timeout(&self) -> Option<Duration> {
        builtin_function("notify:send").map(|function| Duration::from_millis(function.timeout_ms))
    }
}

impl Notify {
    async fn send(&self, call: &FunctionCall) -> FunctionResult {
        let payload = Payload::of("notify:send", call.payload())?;
        payload.only_known()?;
        match payload.text("type")? {
            Some("webhook") => webhook(call, &payload).await,
            Some("email") => self.email(call, &payload).await,
            Some(other) => Err(payload.bad(&format!("`type` is `{other}`; it should be webhook or email"))),
            None => Err(payload.bad("`type` is missing; it should be webhook or email")),
        }
    }

    async fn email(&self, call: &FunctionCall, payload: &Payload<'_>) -> FunctionResult {
        let Some(smtp) = &self.smtp else {
            let message = "this worker cannot send e-mail: no mail server is configured; \
                           set host and from in the section [smtp] of the configuration";
            return Err(Failure {
                kind: "handler".into(),
                message: message.into(),
                permanent: true,
                ..Failure::default()
            });
        };
        if payload.get("headers").is_some() {
            return Err(payload.bad("`headers` is for webhooks"));
        }
        let recipients = recipients(payload)?;
        let subject = subject(call, payload)?;
        let body = match payload.get("body") {
            None => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(other) => serde_json::to_string_pretty(other).unwrap_or_default(),
        };
        let id = format!("<{}.{}@mainspring>", call.idempotency_key(), call.attempt);
        smtp.send(&recipients, &subject, body, id).await?;
        call.log.info(&format!("sent e-mail to {}", recipients.join(", "))).await;
        Ok(Some(json!({"type": "email", "recipients": recipients})))
    }
}

async fn webhook(call: &FunctionCall, payload: &Payload<'_>) -> FunctionResult {
    let urls = recipients(payload)?;
    let content = match payload.get("body") {
        // A receiver with a format of its own gets exactly what the author wrote.
        Some(body @ (Value::Object(_) | Value::Array(_))) => body.clone(),
        body => envelope(call, &subject(call, payload)?, body),
    };
    let headers = match payload.get("headers") {
        None => &Map::new(),
        Some(Value::Object(headers)) => headers,
        Some(_) => return Err(payload.bad("`headers` should be a mapping of texts")),
    };
    let mut statuses = Vec::with_capacity(urls.len());
    for url in &urls {
        let mut request = Request::new("POST", url)?;
        request.set_body("application/json", content.to_string());
        for (name, value) in headers {
            let Some(value) = value.as_str() else { return Err(payload.bad("`headers` should be a mapping of texts")) };
            request.set(name, value)?;
        }
        identify(&mut request, call);
        let answer = call.http.send(request, REDIRECTS, ANSWER_LIMIT, &call.log).await?;
        if !answer.status.is_success() {
            return Err(Failure {
                kind: "http_status".into(),
                message: format!("the webhook answered {}; expected 200 to 299", answer.status),
                status: Some(answer.status.as_u16()),
                detail: answer.excerpt(),
                ..Failure::default()
            });
        }
        statuses.push(answer.status.as_u16());
    }
    Ok(Some(json!({"type": "webhook", "statuses": statuses})))
}

/// `text` is what chat systems show.
fn envelope(call: &FunctionCall, subject: &str, body: Option<&Value>) -> Value {
    let text = match body {
        Some(Value::String(body)) => format!("{subject}\n{body}"),
        Some(other) => format!("{subject}\n{other}"),
        None => subject.to_owned(),
    };
    json!({
        "subject": subject,
        "body": body,
        "text": text,
        "namespace": call.order.namespace,
        "workflow": call.order.workflow,
        "task": call.order.task,
        "run_id": call.key.run.to_string(),
    })
}

fn subject(call: &FunctionCall, payload: &Payload<'_>) -> Result<String, Failure> {
    let subject = match payload.text("subject")? {
        Some(subject) => subject.to_owned(),
        None => format!("Workflow {} in {}", call.order.workflow, call.order.namespace),
    };
    if subject.chars().any(char::is_control) {
        return Err(payload.bad("`subject` holds a control character, such as a line break"));
    }
    Ok(subject)
}

fn recipients(payload: &Payload<'_>) -> Result<Vec<String>, Failure> {
    let found: Option<Vec<String>> = match payload.get("recipient") {
        Some(Value::String(one)) => Some(vec![one.clone()]),
        Some(Value::Array(several)) => several.iter().map(|one| one.as_str().map(str::to_owned)).collect(),
        _ => None,
    };
    match found.filter(|found| (1..=50).contains(&found.len()) && found.iter().all(|one| !one.is_empty())) {
        Some(found) => Ok(found),
        None => Err(payload.bad("`recipient` should be a URL or an address, or a list of 1 to 50")),
    }
}
