//! A stored workflow as several commands need it, and storing another version.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mainspring_api::List;
use mainspring_api::workflows::{BundledFile, WorkflowBundle};
use mainspring_core::Workflow;
use mainspring_core::diagnostic::did_you_mean;
use mainspring_core::work::BundleFile;
use mainspring_core::workflow::DEFAULT_NAMESPACE;
use serde_json::Value;

use crate::api::{Answer, Connection, Content, PAGE, strange};
use crate::app::App;
use crate::failure::{Failure, Result};
use crate::progress::Plan;
use crate::source::Source;
use crate::{bundle, source};

/// A file that was read with everything it brings along.
pub(super) struct Loaded {
    pub(super) workflow: Workflow,
    pub(super) source: Source,
    files: Vec<BundleFile>,
}

impl Loaded {
    pub(super) fn read(app: &App<'_>, path: &str) -> Result<Self> {
        let (workflow, source) = source::workflow(app, path)?;
        let files = bundle::read(&workflow, &source)?;
        Ok(Self { workflow, source, files })
    }

    /// A namespace that a profile says counts where neither the command line nor the file says one.
    pub(super) fn settle(&mut self, api: &Connection) {
        if self.workflow.namespace == DEFAULT_NAMESPACE {
            api.namespace_or_default().clone_into(&mut self.workflow.namespace);
        }
    }

    /// Stores it as the newest version; the same content again is the same version.
    pub(super) async fn store(&self, api: &Connection, conditions: &[(&'static str, &str)]) -> Result<Answer> {
        let content = if self.files.is_empty() {
            Content { kind: "application/yaml", bytes: self.source.text.clone().into_bytes() }
        } else {
            let file = |file: &BundleFile| BundledFile {
                path: file.path.clone(),
                executable: file.executable,
                content: STANDARD.encode(&file.content),
            };
            let files = self.files.iter().map(file).collect();
            let body = WorkflowBundle { source: self.source.text.clone(), files };
            let bytes = serde_json::to_vec(&body).map_err(|error| Failure::failed(error.to_string()))?;
            Content { kind: "application/vnd.mainspring.bundle+json", bytes }
        };
        let query = [("namespace", Some(self.workflow.namespace.as_str()))];
        api.ask("POST", &["workflows"], &query, Some(content), conditions).await
    }
}

/// The newest version of a workflow.
pub(super) struct Stored {
    pub(super) id: String,
    pub(super) number: i64,
    /// For `If-Match`.
    pub(super) etag: Option<String>,
    pub(super) plan: Plan,
}

/// The workflow of that name, if there is one.
pub(super) async fn find(api: &Connection, namespace: &str, name: &str) -> Result<Option<Stored>> {
    let within = [("namespace", Some(namespace))];
    let answer = api.ask("GET", &["workflows", name], &within, None, &[]).await?;
    if answer.status == 404 {
        return Ok(None);
    }
    let shown = answer.value()?;
    let (Some(id), Some(number)) = (shown["id"].as_str(), shown["version"].as_i64()) else { return Err(strange()) };
    let plan = match (api.client(), shown["namespace"].as_str(), shown["name"].as_str()) {
        (Some(client), Some(namespace), Some(name)) => Plan::Stored(client.latest(namespace, name).await?),
        _ => Plan::Read(Arc::new(fetch(api, &shown, id, number).await?)),
    };
    Ok(Some(Stored { id: id.to_owned(), number, etag: answer.etag, plan }))
}

/// The name of a stored workflow that is nearly this one, as a question.
pub(super) async fn similar(api: &Connection, namespace: &str, name: &str) -> Option<String> {
    let query = [("namespace", Some(namespace)), ("limit", Some(PAGE))];
    let known: List<mainspring_api::workflows::Workflow> = api.read(&["workflows"], &query).await.ok()?;
    did_you_mean(name, known.items.iter().map(|workflow| workflow.name.as_str()))
}

/// A version as it was written, read again.
async fn fetch(api: &Connection, shown: &Value, id: &str, number: i64) -> Result<Workflow> {
    let version = api.get(&["workflows", id, "versions", &number.to_string()], &[]).await?;
    let source = version["source"].as_str().ok_or_else(strange)?;
    let mut workflow = mainspring_core::parse(source).map_err(|_| {
        Failure::bad_input(format!("version {number} of this workflow says something that this program does not know"))
            .remedy("use the same version of mainspring as the server")
    })?;
    // What the request said beside the text.
    for (field, value) in [("namespace", &mut workflow.namespace), ("name", &mut workflow.name)] {
        shown[field].as_str().unwrap_or_default().clone_into(value);
    }
    Ok(workflow)
}
