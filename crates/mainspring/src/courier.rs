//! Carries the engine's notifications by the worker's HTTP client and mail server.

use std::sync::Arc;

use mainspring_engine::{Message, Messenger, MessengerFuture};
use mainspring_worker::http::{HttpClient, HttpConfig};
use mainspring_worker::{Courier, SmtpConfig};

#[derive(Debug)]
struct Post(Courier);

impl Messenger for Post {
    fn send(&self, message: Message) -> MessengerFuture<'_> {
        Box::pin(async move {
            let sent = match message {
                Message::Post { url, headers, body } => self.0.post(&url, &headers, body).await,
                Message::Email { to, subject, body, id } => self.0.email(&to, &subject, body, id).await,
            };
            sent.map_err(|failure| failure.message)
        })
    }
}

/// `None` if the client cannot be set up, which the worker says too.
pub(crate) fn messenger(http: HttpConfig, smtp: Option<SmtpConfig>) -> Option<Arc<dyn Messenger>> {
    let client = HttpClient::new(http).ok()?;
    Some(Arc::new(Post(Courier::new(client, smtp))))
}
