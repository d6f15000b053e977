//! `notifications` as written.

use crate::workflow::{MAX_NOTIFICATIONS, Notice, Notification, NotificationSpec};
use crate::yaml::NodeId;

use super::dialect::NOTIFICATION;
use super::fields::{Path, Reader, unread};

pub(super) fn read(reader: &mut Reader<'_, '_>, id: NodeId, path: Path<'_>) -> Vec<Notification> {
    let items = reader.list(id, path).unwrap_or_default();
    if items.len() > MAX_NOTIFICATIONS {
        let message = format!("a workflow has at most {MAX_NOTIFICATIONS} notifications");
        reader.report.add(reader.place(id), path, message);
        return Vec::new();
    }
    let mut all = Vec::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        all.extend(notification(reader, *item, path.index(index)));
    }
    all
}

fn notification(reader: &mut Reader<'_, '_>, id: NodeId, path: Path<'_>) -> Option<Notification> {
    let mut spec = NotificationSpec::default();
    for entry in reader.entries(id, path, &NOTIFICATION)? {
        let (at, value) = (path.key(entry.name), entry.value);
        match entry.name {
            "on" => {
                for (index, item) in reader.one_or_many(value, at, "a list of words")?.into_iter().enumerate() {
                    spec.on.extend(reader.word(item, at.index(index), Notice::ALL));
                }
            }
            "webhook" => spec.webhook = reader.text(value, at).map(Into::into),
            "slack" => spec.slack = reader.text(value, at).map(Into::into),
            "secret" => spec.secret = reader.identifier(value, at, "name of a secret").map(Into::into),
            "email" => {
                spec.email = reader.members(value, at, "a list of addresses", |reader, id, path| reader.text(id, path));
            }
            other => unread(other),
        }
    }
    match Notification::try_from(spec) {
        Ok(notification) => Some(notification),
        Err(message) => {
            reader.report.add(reader.place(id), path, message);
            None
        }
    }
}
