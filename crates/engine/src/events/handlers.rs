//! Handlers of events: what a namespace, or with a global one every namespace, does when an event comes.

use mainspring_boxed::boxed;
use mainspring_store::{HandlerRow, Result};
use uuid::Uuid;

use crate::client::Client;
use crate::request_fault::RequestFault;

const LONGEST_NAME: usize = 255;

/// Refuses what is no name of an event; `pattern` allows one `*` at its end.
pub fn check_event_name(name: &str, pattern: bool) -> Result<(), RequestFault> {
    let body = if pattern { name.strip_suffix('*').unwrap_or(name) } else { name };
    let fits = |c: char| !c.is_control() && !c.is_whitespace() && c != '*';
    if name.is_empty() || name.chars().count() > LONGEST_NAME || !body.chars().all(fits) {
        let message = format!(
            "the name of an event has 1 to {LONGEST_NAME} characters without spaces, like order.imported{}",
            if pattern { "; one `*` at its end stands for any rest" } else { "" }
        );
        return Err(RequestFault::new("/event_name", message));
    }
    Ok(())
}

/// Refuses a handler that could never do anything.
pub fn check_handler(row: &HandlerRow) -> Result<(), RequestFault> {
    check_event_name(&row.event_name, true)?;
    let fits = |c: char| c.is_ascii_alphanumeric() || "_.:-".contains(c);
    if row.handler_name.is_empty() || row.handler_name.len() > LONGEST_NAME || !row.handler_name.chars().all(fits) {
        let message = "the name of a handler is made of letters, digits and `_ . : -`, like `reports:send`";
        return Err(RequestFault::new("/handler_name", message));
    }
    if !["function", "agent", "workflow"].contains(&row.handler_type.as_str()) {
        let message = format!("`{}` is no type of handler: write function, agent or workflow", row.handler_type);
        return Err(RequestFault::new("/handler_type", message));
    }
    let Some(config) = row.config.as_object() else {
        return Err(RequestFault::new("/action_config", "must be an object"));
    };
    for key in ["inputs", "payload", "metadata"] {
        if config.get(key).is_some_and(|value| !value.is_object() && !value.is_null()) {
            return Err(RequestFault::new(format!("/action_config/{key}"), "must be an object"));
        }
    }
    Ok(())
}

#[boxed]
impl Client {
    pub async fn create_handler(&self, row: &HandlerRow) -> Result<()> {
        self.store.insert_handler(row).await
    }

    pub async fn change_handler(&self, row: &HandlerRow) -> Result<()> {
        self.store.update_handler(self.now(), row).await
    }

    pub async fn delete_handler(&self, id: Uuid) -> Result<()> {
        self.store.delete_handler(id).await
    }
}
