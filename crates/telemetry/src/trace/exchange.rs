//! One request to the collector and its answer, over a connection of their own.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use http_body_util::{BodyExt as _, Collected, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::{http1, http2};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinSet;

use super::collector::SendError;
use super::{TraceProtocol, grpc};

/// A longer answer is not one of a collector.
const LONGEST_ANSWER: usize = 1 << 20;

/// Sends the request. An answer that does not say that the spans were taken is an error.
pub(super) async fn exchange(
    protocol: TraceProtocol,
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    request: Request<Full<Bytes>>,
) -> Result<(), SendError> {
    let driving = Driving::default();
    let stream = TokioIo::new(stream);
    let answer = match protocol {
        TraceProtocol::HttpProtobuf => {
            let (mut sender, connection) = http1::handshake(stream).await?;
            driving.spawn(connection);
            sender.send_request(request).await?
        }
        TraceProtocol::Grpc => {
            let (mut sender, connection) = http2::handshake(driving.executor(), stream).await?;
            driving.spawn(connection);
            sender.send_request(request).await?
        }
    };
    let (head, body) = read(answer).await?;
    if !head.status.is_success() {
        return Err(format!("it answered {}", head.status).into());
    }
    match protocol {
        TraceProtocol::HttpProtobuf => Ok(()),
        TraceProtocol::Grpc => Ok(grpc::verdict(&head.headers, body.trailers())?),
    }
}

async fn read(answer: Response<Incoming>) -> Result<(hyper::http::response::Parts, Collected<Bytes>), SendError> {
    let (head, body) = answer.into_parts();
    Ok((head, Limited::new(body, LONGEST_ANSWER).collect().await?))
}

/// What drives one connection. Dropped, it ends: a collector that stalls leaves nothing behind.
#[derive(Default)]
struct Driving(Arc<Mutex<JoinSet<()>>>);

impl Driving {
    fn spawn(&self, task: impl Future + Send + 'static) {
        spawn(&self.0, task);
    }

    fn executor(&self) -> Executor {
        Executor(Arc::downgrade(&self.0))
    }
}

/// Given to the connection, which must not keep itself alive.
#[derive(Clone)]
struct Executor(Weak<Mutex<JoinSet<()>>>);

impl<F: Future<Output = ()> + Send + 'static> hyper::rt::Executor<F> for Executor {
    fn execute(&self, task: F) {
        if let Some(tasks) = self.0.upgrade() {
            spawn(&tasks, task);
        }
    }
}

fn spawn(tasks: &Mutex<JoinSet<()>>, task: impl Future + Send + 'static) {
    tasks.lock().unwrap_or_else(PoisonError::into_inner).spawn(async move {
        // Why a connection ended is said by the request on it.
        let _ = task.await;
    });
}
