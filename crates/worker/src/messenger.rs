//! Carries messages that no task asked for: webhooks under the same guard as `http` tasks, and e-mail.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use mainspring_boxed::boxed;
use mainspring_core::work::{Clock, Failure};
use mainspring_core::{Micros, RunId, TaskKey};
use tokio::sync::mpsc;

use crate::email::SmtpConfig;
use crate::function::LogSink;
use crate::http::{HttpClient, Request};
use crate::mask::Mask;

/// How much of an answer is read: only its status counts.
const ANSWER_LIMIT: u64 = 64 * 1024;

/// Clones share everything.
#[derive(Debug, Clone)]
pub struct Courier {
    http: HttpClient,
    smtp: Option<SmtpConfig>,
}

#[boxed]
impl Courier {
    pub fn new(http: HttpClient, smtp: Option<SmtpConfig>) -> Self {
        Self { http, smtp }
    }

    /// Posts JSON; anything but 2xx is a failure. Redirects are not followed: what is signed goes where it was meant to go.
    pub async fn post(&self, url: &str, headers: &[(String, String)], body: String) -> Result<(), Failure> {
        let mut request = Request::new("POST", url)?;
        request.set_body("application/json", body);
        for (name, value) in headers {
            request.set(name, value)?;
        }
        let answer = self.http.send(request, 0, ANSWER_LIMIT, &silent()).await?;
        match answer.status.is_success() {
            true => Ok(()),
            false => Err(Failure {
                kind: "http_status".into(),
                message: format!("the address answered {}; expected 200 to 299", answer.status),
                status: Some(answer.status.as_u16()),
                ..Failure::default()
            }),
        }
    }

    pub async fn email(&self, to: &[String], subject: &str, body: String, id: String) -> Result<(), Failure> {
        let Some(smtp) = &self.smtp else {
            return Err(Failure {
                kind: "smtp".into(),
                message: "no mail server is configured: set host and from in the section [smtp]".into(),
                ..Failure::default()
            });
        };
        let subject: String = subject.chars().map(|c| if c.is_control() { ' ' } else { c }).take(200).collect();
        smtp.send(to, &subject, body, id).await
    }
}

/// A log that drops its lines, because notifications have no log.
fn silent() -> LogSink {
    #[derive(Debug)]
    struct NoClock;
    impl Clock for NoClock {
        fn now(&self) -> Micros {
            0
        }
    }
    LogSink {
        key: TaskKey::new(RunId::nil(), 0),
        attempt: 0,
        clock: Arc::new(NoClock),
        logs: mpsc::channel(1).0,
        left: Arc::new(AtomicUsize::new(0)),
        mask: Arc::new(Mask::default()),
    }
}
