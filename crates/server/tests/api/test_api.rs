//! An API on a throwaway database, with a token for every role.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode};
use axum::response::Response;
use http_body_util::BodyExt;
use mainspring_engine::{Client, NodeConfig, Secrets, SystemClock, Vault};
use mainspring_server::{Api, Grant, Role, Settings, Token};
use mainspring_store::{Flavor, NewToken};
use mainspring_testkit::node::TestNode;
use mainspring_testkit::{TestDatabase, wait};
use mainspring_worker::Registry;
use serde_json::Value;

pub(crate) struct TestApi {
    pub(crate) service: Api,
    pub(crate) client: Client,
    pub(crate) database: TestDatabase,
    tokens: HashMap<&'static str, String>,
}

/// Whether a route is a file of the web interface: open to everyone, and no part of the API's document.
pub(crate) fn is_page(method: &Method, path: &str) -> bool {
    *method == Method::GET && path != "/ui/session" && (["/", "/ui"].contains(&path) || path.starts_with("/ui/"))
}

/// A request to be sent.
pub(crate) struct Call<'a> {
    api: &'a TestApi,
    method: Method,
    target: String,
    headers: HeaderMap,
    body: Vec<u8>,
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl TestApi {
    pub(crate) async fn new(flavor: Flavor) -> Self {
        Self::with(flavor, Settings::default()).await
    }

    pub(crate) async fn with(flavor: Flavor, settings: Settings) -> Self {
        let database = TestDatabase::new(flavor).await;
        let secrets = Secrets::default().with_vault(Vault::new(&[[7; 32]]));
        let client = Client::new(database.store().clone(), Arc::new(SystemClock::new())).with_secrets(secrets);
        let service = Api::new(client.clone(), settings).unwrap();
        let mut api = Self { service, client, database, tokens: HashMap::new() };
        for role in Role::ALL {
            let token = api.make_token(role.word(), &[Grant::everywhere(role)]).await;
            api.tokens.insert(role.word(), token);
        }
        api
    }

    /// A token with these grants.
    pub(crate) async fn make_token(&self, name: &str, grants: &[Grant]) -> String {
        let token = Token::generate(self.client.clock().new_id()).unwrap();
        let new = NewToken {
            id: token.id(),
            name: name.to_owned(),
            hash: token.hash(),
            grants: serde_json::to_string(grants).unwrap(),
            created_by: "test".into(),
            expires_at: None,
        };
        self.client.store().add_token(self.client.now(), &new).await.unwrap();
        token.reveal().to_owned()
    }

    pub(crate) fn token(&self, role: Role) -> &str {
        &self.tokens[role.word()]
    }

    pub(crate) fn get(&self, target: &str) -> Call<'_> {
        self.call(Method::GET, target)
    }

    pub(crate) fn put(&self, target: &str) -> Call<'_> {
        self.call(Method::PUT, target)
    }

    pub(crate) fn post(&self, target: &str) -> Call<'_> {
        self.call(Method::POST, target)
    }

    pub(crate) fn delete(&self, target: &str) -> Call<'_> {
        self.call(Method::DELETE, target)
    }

    pub(crate) fn patch(&self, target: &str) -> Call<'_> {
        self.call(Method::PATCH, target)
    }

    /// Stores a workflow.
    pub(crate) async fn store(&self, yaml: &str) -> Value {
        self.post("/api/v1/workflows").role(Role::Author).text("application/yaml", yaml).send().await.expect(201).body()
    }

    /// Starts a run of a workflow of the default namespace; its id.
    pub(crate) async fn start(&self, workflow: &str) -> String {
        let target = format!("/api/v1/workflows/{workflow}/trigger");
        let made = self.post(&target).role(Role::Operator).send().await.expect(201).body();
        made["id"].as_str().unwrap().to_owned()
    }

    /// A node that executes what is ready, until the test ends.
    pub(crate) async fn node(&self) -> TestNode {
        TestNode::start(self.database.store(), Registry::builder().build()).await.unwrap()
    }

    /// One that also opens the secrets of the store.
    pub(crate) async fn trusted_node(&self) -> TestNode {
        let config = NodeConfig {
            name: "trusted".into(),
            heartbeat: Duration::from_millis(50),
            lease_ttl: Duration::from_secs(60),
            process_slots: 4,
            ..NodeConfig::default()
        };
        TestNode::start_as(self.client.clone(), config, Registry::builder().build()).await.unwrap()
    }

    /// What is shown of a run once it has this status.
    pub(crate) async fn until(&self, run: &str, status: &str) -> Value {
        let look = async || {
            let shown = self.get(&format!("/api/v1/workflow-runs/{run}")).role(Role::Viewer).send().await;
            Ok(Some(shown.expect(200).body()).filter(|shown| shown["status"] == status))
        };
        wait::until(&format!("{run} is {status}"), Duration::from_secs(120), look).await.unwrap()
    }

    /// What is shown of a task run.
    pub(crate) async fn task(&self, run: &str, task: &str) -> Value {
        let target = format!("/api/v1/workflow-runs/{run}/tasks/{task}");
        self.get(&target).role(Role::Viewer).send().await.expect(200).body()
    }

    /// What is shown of a task run once it has this status.
    pub(crate) async fn until_task(&self, run: &str, task: &str, status: &str) -> Value {
        let look = async || Ok(Some(self.task(run, task).await).filter(|shown| shown["status"] == status));
        wait::until(&format!("{task} is {status}"), Duration::from_secs(120), look).await.unwrap()
    }

    /// A request without a token.
    pub(crate) fn call(&self, method: Method, target: &str) -> Call<'_> {
        let mut headers = HeaderMap::new();
        headers.insert("host", HeaderValue::from_static("localhost"));
        Call { api: self, method, target: target.to_owned(), headers, body: Vec::new() }
    }
}

impl Call<'_> {
    pub(crate) fn role(self, role: Role) -> Self {
        let token = self.api.token(role).to_owned();
        self.bearer(&token)
    }

    pub(crate) fn bearer(self, token: &str) -> Self {
        self.header("authorization", &format!("Bearer {token}"))
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.insert(name.parse::<HeaderName>().unwrap(), HeaderValue::from_bytes(value.as_bytes()).unwrap());
        self
    }

    pub(crate) fn without(mut self, name: &str) -> Self {
        self.headers.remove(name);
        self
    }

    pub(crate) fn json(self, body: Value) -> Self {
        self.text("application/json", &body.to_string())
    }

    pub(crate) fn text(mut self, kind: &str, body: &str) -> Self {
        self.body = body.as_bytes().to_vec();
        self.header("content-type", kind)
    }

    fn request(self) -> (Api, Request<Body>) {
        let mut request = Request::builder().method(self.method).uri(self.target).body(Body::from(self.body)).unwrap();
        *request.headers_mut() = self.headers;
        (self.api.service.clone(), request)
    }

    /// The head of the answer, its body unread.
    pub(crate) async fn open(self) -> Response {
        let (service, request) = self.request();
        service.answer(request).await
    }

    pub(crate) async fn send(self) -> Answer {
        let (service, request) = self.request();
        Answer::of(service.answer(request).await).await
    }

    /// As the process itself.
    pub(crate) async fn locally(self) -> Answer {
        let (service, request) = self.request();
        Answer::of(service.call("tester", request).await).await
    }
}

impl Answer {
    async fn of(response: Response) -> Self {
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        Self { status: parts.status, headers: parts.headers, text: String::from_utf8_lossy(&bytes).into_owned() }
    }

    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Self {
        assert_eq!(self.status.as_u16(), status, "{}", self.text);
        if self.status.is_client_error() || self.status.is_server_error() {
            assert_eq!(self.header("content-type"), "application/problem+json", "{}", self.text);
            let body = self.body();
            assert_eq!(body["status"], status, "{body}");
            for field in ["type", "title", "detail"] {
                assert!(body[field].as_str().is_some_and(|text| !text.is_empty()), "{body} lacks {field}");
            }
        }
        self
    }

    #[track_caller]
    pub(crate) fn body(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}
