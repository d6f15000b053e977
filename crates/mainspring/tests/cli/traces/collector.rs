//! A collector that keeps the spans it is sent, over HTTP or gRPC.

use std::collections::HashMap;
use std::convert::Infallible;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};

#[derive(Debug, Clone)]
pub(super) struct ReceivedSpan {
    pub(super) trace: String,
    pub(super) id: String,
    pub(super) parent: String,
    pub(super) name: String,
}

#[derive(Default)]
struct Received {
    spans: Mutex<Vec<ReceivedSpan>>,
    /// Calls are answered with `UNAVAILABLE`, and counted.
    refuses: AtomicBool,
    refusals: AtomicUsize,
}

pub(super) struct Collector {
    pub(super) address: String,
    received: Arc<Received>,
}

impl Collector {
    /// Takes what is posted to `/v1/traces`.
    pub(super) fn over_http() -> Self {
        Self::start(|listener, received| {
            for stream in listener.incoming().flatten() {
                take(stream, &received);
            }
        })
    }

    /// Takes what `TraceService/Export` is called with, once it no longer refuses.
    pub(super) fn over_grpc_refusing() -> Self {
        Self::start(|listener, received| {
            received.refuses.store(true, Ordering::SeqCst);
            tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap()
                .block_on(serve(listener, received));
        })
    }

    fn start(run: impl FnOnce(TcpListener, Arc<Received>) + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let received = Arc::new(Received::default());
        let taken = Arc::clone(&received);
        std::thread::spawn(move || run(listener, taken));
        Self { address, received }
    }

    pub(super) fn of_trace(&self, trace: &str) -> Vec<ReceivedSpan> {
        self.received.spans.lock().unwrap().iter().filter(|span| span.trace == trace).cloned().collect()
    }

    pub(super) fn refusals(&self) -> usize {
        self.received.refusals.load(Ordering::SeqCst)
    }

    pub(super) fn refuse_no_more(&self) {
        self.received.refuses.store(false, Ordering::SeqCst);
    }
}

async fn serve(listener: TcpListener, received: Arc<Received>) {
    listener.set_nonblocking(true).unwrap();
    let listener = tokio::net::TcpListener::from_std(listener).unwrap();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let received = Arc::clone(&received);
        let service = service_fn(move |request| export(request, Arc::clone(&received)));
        let connection = http2::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service);
        tokio::spawn(async move {
            // The client leaves when it has its answer.
            let _ = connection.await;
        });
    }
}

type GrpcAnswer = Response<http_body_util::combinators::BoxBody<Bytes, Infallible>>;

async fn export(request: Request<Incoming>, received: Arc<Received>) -> Result<GrpcAnswer, Infallible> {
    assert_eq!(request.uri().path(), "/opentelemetry.proto.collector.trace.v1.TraceService/Export");
    let sent = ["content-type", "te", "x-tenant"].map(|name| request.headers()[name].to_str().unwrap());
    assert_eq!(sent, ["application/grpc", "trailers", "ops"]);
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let (prefix, message) = body.split_at(5);
    assert_eq!((prefix[0], &prefix[1..]), (0, &u32::try_from(message.len()).unwrap().to_be_bytes()[..]));
    let status = match received.refuses.load(Ordering::SeqCst) {
        true => "14",
        false => "0",
    };
    let trailers = HeaderMap::from_iter([("grpc-status".parse().unwrap(), status.parse().unwrap())]);
    let body = Full::new(Bytes::from_static(&[0; 5])).with_trailers(std::future::ready(Some(Ok(trailers))));
    let mut answer = Response::new(body.boxed());
    answer.headers_mut().insert("content-type", "application/grpc".parse().unwrap());
    match status {
        "0" => received.spans.lock().unwrap().extend(spans(message)),
        _ => _ = received.refusals.fetch_add(1, Ordering::SeqCst),
    }
    Ok(answer)
}

fn take(mut stream: TcpStream, received: &Received) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut length = 0;
    let mut line = String::new();
    while reader.read_line(&mut line).unwrap_or(0) > 2 {
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        line.clear();
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    received.spans.lock().unwrap().extend(spans(&body));
    write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").unwrap();
}

/// The spans of an `ExportTraceServiceRequest`.
fn spans(message: &[u8]) -> Vec<ReceivedSpan> {
    let within = |message: &[u8], number| fields(message).remove(&number).unwrap_or_default();
    let scopes = within(message, 1).into_iter().flat_map(|group| within(&group, 2));
    scopes.flat_map(|scope| within(&scope, 2)).map(|span| received(&span)).collect()
}

fn received(span: &[u8]) -> ReceivedSpan {
    let fields = fields(span);
    let bytes = |field: u64| fields.get(&field).map(|values| values[0].clone()).unwrap_or_default();
    let hex = |field: u64| bytes(field).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    ReceivedSpan { trace: hex(1), id: hex(2), parent: hex(4), name: String::from_utf8(bytes(5)).unwrap() }
}

/// The fields of a protobuf message that have a length, by number.
fn fields(mut message: &[u8]) -> HashMap<u64, Vec<Vec<u8>>> {
    fn varint(message: &mut &[u8]) -> u64 {
        let mut value = 0;
        for shift in (0..).step_by(7) {
            let byte = message[0];
            *message = &message[1..];
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                break;
            }
        }
        value
    }
    let mut found: HashMap<u64, Vec<Vec<u8>>> = HashMap::new();
    while !message.is_empty() {
        let tag = varint(&mut message);
        let length = match tag & 7 {
            0 => {
                varint(&mut message);
                continue;
            }
            1 => 8,
            5 => 4,
            _ => varint(&mut message) as usize,
        };
        let (value, rest) = message.split_at(length);
        message = rest;
        if tag & 7 == 2 {
            found.entry(tag >> 3).or_default().push(value.to_vec());
        }
    }
    found
}
