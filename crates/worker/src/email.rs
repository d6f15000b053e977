//! Sends e-mail through the operator's mail server.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use lettre::message::header::ContentType;
use lettre::message::{Mailbox, Message};
use lettre::transport::smtp::Error as SmtpError;
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Certificate, Tls, TlsParameters};
use lettre::{AsyncSmtpTransport, AsyncTransport, Tokio1Executor};
use mainspring_core::work::Failure;

use crate::text::first_characters;

const COMMAND_TIMEOUT: Duration = Duration::from_secs(20);

/// How the connection to the mail server is kept secret.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SmtpSecurity {
    /// Begins in clear and must go over to TLS; usually port 587.
    #[default]
    StartTls,
    /// TLS from the first byte; usually port 465.
    Tls,
    /// Only for a server on the same machine or a private network: everything is readable on the way.
    None,
}

/// The operator's mail server.
#[derive(Clone)]
pub struct SmtpConfig {
    pub host: String,
    pub port: u16,
    /// `alerts@example.org` or `Mainspring <alerts@example.org>`.
    pub from: String,
    pub credentials: Option<(String, String)>,
    pub security: SmtpSecurity,
    /// PEM files of authorities that are trusted beside the public ones.
    pub authorities: Vec<PathBuf>,
}

impl fmt::Debug for SmtpConfig {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let user = self.credentials.as_ref().map(|(user, _)| user);
        let mut shown = out.debug_struct("SmtpConfig");
        shown.field("host", &self.host).field("port", &self.port).field("from", &self.from);
        shown.field("user", &user).field("security", &self.security).finish_non_exhaustive()
    }
}

impl SmtpConfig {
    pub(crate) async fn send(
        &self,
        recipients: &[String],
        subject: &str,
        body: String,
        id: String,
    ) -> Result<(), Failure> {
        let mut message = Message::builder()
            .from(mailbox("the sender `from` in the configuration", &self.from)?)
            .subject(subject)
            .message_id(Some(id))
            .header(ContentType::TEXT_PLAIN);
        for recipient in recipients {
            message = message.to(mailbox("the recipient", recipient)?);
        }
        let message = message.body(body).map_err(|error| refused(format!("the e-mail cannot be written: {error}")))?;
        match self.transport()?.send(message).await {
            Ok(_) => Ok(()),
            Err(error) => Err(self.explain(&error)),
        }
    }

    fn transport(&self) -> Result<AsyncSmtpTransport<Tokio1Executor>, Failure> {
        let tls = match self.security {
            SmtpSecurity::None => Tls::None,
            SmtpSecurity::StartTls => Tls::Required(self.tls()?),
            SmtpSecurity::Tls => Tls::Wrapper(self.tls()?),
        };
        let mut builder = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(&self.host)
            .port(self.port)
            .tls(tls)
            .timeout(Some(COMMAND_TIMEOUT));
        if let Some((user, password)) = &self.credentials {
            builder = builder.credentials(Credentials::new(user.clone(), password.clone()));
        }
        Ok(builder.build())
    }

    fn tls(&self) -> Result<TlsParameters, Failure> {
        let mut builder = TlsParameters::builder(self.host.clone());
        for path in &self.authorities {
            let fail = |error: &dyn fmt::Display| {
                refused(format!("cannot read the certificates in {}: {error}", path.display()))
            };
            let pem = std::fs::read(path).map_err(|error| fail(&error))?;
            builder = builder.add_root_certificate(Certificate::from_pem(&pem).map_err(|error| fail(&error))?);
        }
        builder.build_rustls().map_err(|error| refused(format!("cannot set up TLS: {error}")))
    }

    fn explain(&self, error: &SmtpError) -> Failure {
        let server = format!("the mail server {}:{}", self.host, self.port);
        let message = match std::error::Error::source(error) {
            Some(cause) => format!("{server} did not take the e-mail: {error}: {cause}"),
            None => format!("{server} did not take the e-mail: {error}"),
        };
        Failure { kind: "smtp".into(), message, permanent: error.is_permanent(), ..Failure::default() }
    }
}

fn mailbox(what: &str, text: &str) -> Result<Mailbox, Failure> {
    let shown = first_characters(text, 100).escape_debug();
    if text.chars().any(char::is_control) {
        return Err(refused(format!("{what} `{shown}` holds a control character")));
    }
    text.parse()
        .map_err(|error| refused(format!("{what} `{shown}` is not an e-mail address: {error}; write name@example.org")))
}

fn refused(message: String) -> Failure {
    Failure { kind: "request".into(), message, permanent: true, ..Failure::default() }
}
