//! Who gets a notification when something goes wrong.

use serde::{Deserialize, Serialize};

use crate::state::{UnknownState, coded_enum};

/// The most targets that a workflow, or a namespace, has.
pub const MAX_NOTIFICATIONS: usize = 20;
const MAX_RECIPIENTS: usize = 50;

coded_enum! {
    /// What a notification can be about.
    Notice("notice") {
        RunFailed = 0 "run_failed",
        DeadlineMissed = 1 "deadline_missed",
        StaleWarning = 2 "stale_warning",
        DeadLetter = 3 "dead_letter",
    }
}

/// One target, and what it hears of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "NotificationSpec", into = "NotificationSpec")]
pub struct Notification {
    pub on: Vec<Notice>,
    pub channel: Channel,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Channel {
    /// JSON, signed with the secret of that name if there is one.
    Webhook {
        url: String,
        secret: Option<String>,
    },
    /// JSON as Slack and others take it: `{"text": …}`.
    Slack {
        url: String,
    },
    Email {
        to: Vec<String>,
    },
}

/// As it is written.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NotificationSpec {
    pub on: Vec<Notice>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub webhook: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slack: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub email: Vec<String>,
}

impl TryFrom<NotificationSpec> for Notification {
    type Error = String;

    fn try_from(spec: NotificationSpec) -> Result<Self, String> {
        let mut on = spec.on;
        on.sort_unstable();
        on.dedup();
        if on.is_empty() {
            on = Notice::ALL.to_vec();
        }
        let kinds = usize::from(spec.webhook.is_some())
            + usize::from(spec.slack.is_some())
            + usize::from(!spec.email.is_empty());
        if kinds != 1 {
            return Err("a notification has exactly one of `webhook`, `slack` and `email`".into());
        }
        if spec.secret.is_some() && spec.webhook.is_none() {
            return Err("`secret` signs a webhook: it has no meaning here".into());
        }
        let channel = match (spec.webhook, spec.slack) {
            (Some(url), _) => Channel::Webhook { url: address(url)?, secret: spec.secret },
            (None, Some(url)) => Channel::Slack { url: address(url)? },
            (None, None) => Channel::Email { to: recipients(spec.email)? },
        };
        Ok(Self { on, channel })
    }
}

impl From<Notification> for NotificationSpec {
    fn from(notification: Notification) -> Self {
        let on = notification.on;
        match notification.channel {
            Channel::Webhook { url, secret } => Self { on, webhook: Some(url), secret, ..Self::default() },
            Channel::Slack { url } => Self { on, slack: Some(url), ..Self::default() },
            Channel::Email { to } => Self { on, email: to, ..Self::default() },
        }
    }
}

fn address(url: String) -> Result<String, String> {
    let has_host = ["https://", "http://"].iter().any(|scheme| {
        url.strip_prefix(scheme).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '['))
    });
    let is_plain = url.len() <= 2_048 && !url.chars().any(|c| c.is_control() || c.is_whitespace());
    match has_host && is_plain {
        true => Ok(url),
        false => Err("the address must begin with https:// or http:// and name a host".into()),
    }
}

fn recipients(to: Vec<String>) -> Result<Vec<String>, String> {
    let fits = |address: &String| {
        address.len() <= 320
            && !address.chars().any(char::is_control)
            && address.split_once('@').is_some_and(|(name, host)| !name.is_empty() && !host.is_empty())
    };
    if to.len() > MAX_RECIPIENTS {
        return Err(format!("an e-mail has at most {MAX_RECIPIENTS} recipients"));
    }
    match to.iter().find(|address| !fits(address)) {
        Some(wrong) => Err(format!("`{}` is not an e-mail address", wrong.chars().take(80).collect::<String>())),
        None => Ok(to),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Notification, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }

    #[test]
    fn notifications_are_read_and_written_back() {
        let text = r#"{"on":["run_failed","dead_letter"],"webhook":"https://ops.example.com/x","secret":"HOOK"}"#;
        let read_back = read(text).unwrap();
        assert_eq!(serde_json::to_string(&read_back).unwrap(), text);
        assert_eq!(
            read(r#"{"email":["a@example.org"]}"#).unwrap().on.len(),
            4,
            "of everything unless it says otherwise"
        );
    }

    #[test]
    fn what_cannot_be_told_is_refused() {
        for (text, words) in [
            ("{}", "exactly one"),
            (r#"{"slack":"https://a.b","webhook":"https://a.b"}"#, "exactly one"),
            (r#"{"slack":"ftp://a.b"}"#, "https://"),
            (r#"{"slack":"https:// a"}"#, "https://"),
            (r#"{"email":["nobody"]}"#, "not an e-mail"),
            (r#"{"slack":"https://a.b","secret":"X"}"#, "signs a webhook"),
            (r#"{"slack":"https://a.b","on":["nonsense"]}"#, "nonsense"),
            (r#"{"slak":"https://a.b"}"#, "slak"),
        ] {
            assert!(read(text).unwrap_err().contains(words), "{text}");
        }
    }
}
