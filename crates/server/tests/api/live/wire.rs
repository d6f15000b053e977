//! A served api with a node, and clients of its WebSocket.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use mainspring_core::RunId;
use mainspring_engine::{Client, NodeConfig, Spec, Submission};
use mainspring_server::{Grant, HttpServer, LiveLimits, Rates, Role, Settings};
use mainspring_store::Flavor;
use mainspring_testkit::node::TestNode;
use mainspring_worker::Registry;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{self, Message};

use crate::test_api::TestApi;

/// Whatever should happen happens within this, on the slowest machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) type Socket = WebSocketStream<TcpStream>;

pub(crate) struct Site {
    pub(crate) api: TestApi,
    pub(crate) address: SocketAddr,
    server: HttpServer,
    node: Option<TestNode>,
}

pub(crate) fn settings(live: LiveLimits) -> Settings {
    let rates = Rates { per_address: 1_000_000, per_identity: 1_000_000, ..Rates::default() };
    Settings { rates, live, ..Settings::default() }
}

impl Site {
    pub(crate) async fn open(flavor: Flavor) -> Self {
        Self::with(flavor, LiveLimits::default()).await
    }

    pub(crate) async fn with(flavor: Flavor, live: LiveLimits) -> Self {
        let api = TestApi::with(flavor, settings(live)).await;
        let server = HttpServer::bind("127.0.0.1:0".parse().unwrap()).await.unwrap().serve(api.service.clone());
        let config = NodeConfig {
            name: "test".into(),
            heartbeat: Duration::from_millis(200),
            lease_ttl: Duration::from_secs(60),
            process_slots: 4,
            ..NodeConfig::default()
        };
        let node = TestNode::start_as(api.client.clone(), config, Registry::default()).await.unwrap();
        Self { api, address: server.address(), server, node: Some(node) }
    }

    pub(crate) fn client(&self) -> &Client {
        &self.api.client
    }

    pub(crate) async fn workflow(&self, yaml: &str) -> Arc<Spec> {
        let workflow = mainspring_core::parse(yaml).unwrap_or_else(|errors| panic!("{errors}\n{yaml}"));
        self.client().put_workflow(workflow, yaml).await.unwrap()
    }

    pub(crate) async fn submit(&self, spec: &Spec) -> RunId {
        self.client().submit(spec, Submission::default()).await.unwrap().run().unwrap()
    }

    /// A WebSocket of a viewer of everything.
    pub(crate) async fn connect(&self, query: &str) -> Socket {
        let token = self.api.token(Role::Viewer).to_owned();
        self.try_connect(query, &[("authorization", &format!("Bearer {token}"))]).await.unwrap()
    }

    pub(crate) async fn try_connect(
        &self,
        query: &str,
        headers: &[(&str, &str)],
    ) -> Result<Socket, tungstenite::Error> {
        connect(self.address, query, headers).await
    }

    /// The status with which a connection is refused.
    pub(crate) async fn refused(&self, query: &str, headers: &[(&str, &str)]) -> u16 {
        match self.try_connect(query, headers).await {
            Err(tungstenite::Error::Http(response)) => response.status().as_u16(),
            Err(other) => panic!("{query}: {other}"),
            Ok(_) => panic!("{query} was let in"),
        }
    }

    pub(crate) async fn viewer_of(&self, namespace: &str) -> String {
        self.api.make_token("viewer", &[Grant::within(namespace, Role::Viewer)]).await
    }

    /// Returns once there are no subscribers.
    pub(crate) async fn deserted(&self) {
        mainspring_testkit::wait::until("all subscribers have left", PATIENCE, async || {
            Ok((self.client().live().followers() == 0).then_some(()))
        })
        .await
        .unwrap();
    }

    pub(crate) async fn close(mut self) {
        self.server.shutdown(Duration::from_secs(10)).await;
        if let Some(node) = self.node.take() {
            node.stop().await;
        }
    }
}

pub(crate) async fn connect(
    address: SocketAddr,
    query: &str,
    headers: &[(&str, &str)],
) -> Result<Socket, tungstenite::Error> {
    let mut request = format!("ws://{address}/ws/updates?{query}").into_client_request().unwrap();
    for (name, value) in headers {
        let name: axum::http::HeaderName = name.parse().unwrap();
        request.headers_mut().insert(name, value.parse().unwrap());
    }
    let stream = TcpStream::connect(address).await?;
    tokio_tungstenite::client_async(request, stream).await.map(|(socket, _)| socket)
}

/// The next message, whatever type it is of; `None` when the connection has ended.
pub(crate) async fn next(socket: &mut Socket) -> Option<Value> {
    loop {
        let message = tokio::time::timeout(PATIENCE, socket.next()).await.expect("a message comes in time")?;
        match message {
            Ok(Message::Text(text)) => return Some(serde_json::from_str(&text).unwrap()),
            Ok(Message::Close(_)) | Err(_) => return None,
            Ok(_) => {}
        }
    }
}

/// Reads to the closing frame; its code and reason.
pub(crate) async fn closed(socket: &mut Socket) -> Option<(u16, String)> {
    loop {
        let message = tokio::time::timeout(PATIENCE, socket.next()).await.expect("the end comes in time")?;
        match message {
            Ok(Message::Close(Some(frame))) => return Some((frame.code.into(), frame.reason.to_string())),
            Ok(_) => {}
            Err(_) => return None,
        }
    }
}

pub(crate) fn is_end(message: &Value) -> bool {
    message["payload"]["transition"] == "ended"
}

/// Whether it tells that its run has ended, as an event or as where it stands.
pub(crate) fn tells_the_end(message: &Value) -> bool {
    let ended = ["success", "failed", "cancelled"].map(Value::from).contains(&message["payload"]["status"]);
    message["type"] == "workflow_status" && ended
}

/// Whether it is a numbered message.
pub(crate) fn number(message: &Value) -> Option<i64> {
    message["seq"].as_i64()
}
