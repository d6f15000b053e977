//! One run's trace, exported to a collector: from the HTTP request to the shell task of a remote worker.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::remote_workers::{FRONT, Worker, make_token, token, url};
use crate::support::{Place, Server, on_both_databases, until};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const INCOMING: &str = "00f067aa0ba902b7";

#[derive(Debug, Clone)]
struct Seen {
    trace: String,
    id: String,
    parent: String,
    name: String,
}

/// Takes what is posted to `/v1/traces`.
struct Collector {
    address: String,
    spans: Arc<Mutex<Vec<Seen>>>,
}

impl Collector {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let spans: Arc<Mutex<Vec<Seen>>> = Arc::default();
        let taken = Arc::clone(&spans);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                take(stream, &taken);
            }
        });
        Self { address, spans }
    }

    fn of_trace(&self, trace: &str) -> Vec<Seen> {
        self.spans.lock().unwrap().iter().filter(|span| span.trace == trace).cloned().collect()
    }
}

fn take(mut stream: TcpStream, spans: &Mutex<Vec<Seen>>) {
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
    for group in fields(&body).remove(&1).unwrap_or_default() {
        for scope in fields(&group).remove(&2).unwrap_or_default() {
            spans.lock().unwrap().extend(fields(&scope).remove(&2).unwrap_or_default().iter().map(|span| seen(span)));
        }
    }
    write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").unwrap();
}

fn seen(span: &[u8]) -> Seen {
    let fields = fields(span);
    let bytes = |field: u64| fields.get(&field).map(|values| values[0].clone()).unwrap_or_default();
    let hex = |field: u64| bytes(field).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    Seen { trace: hex(1), id: hex(2), parent: hex(4), name: String::from_utf8(bytes(5)).unwrap() }
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

fn trigger(server: &Server, token: &str) -> Value {
    let mut stream = TcpStream::connect(&server.address).unwrap();
    write!(
        stream,
        "POST /api/v1/workflows/traced/trigger HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\n\
         traceparent: 00-{TRACE}-{INCOMING}-01\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        server.address
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {answer}"))
}

fn a_run_is_one_trace_from_the_request_to_the_remote_shell(database: &str) {
    let place = Place::on(database);
    let collector = Collector::start();
    place.write("mainspring.toml", format!("[traces]\nendpoint = \"http://{}\"\n", collector.address));
    let server = place.server(FRONT);
    let worker = Worker::start(&place, "far", &url(&server), &token(&place), &[]);
    place.write("traced.yaml", "name: traced\ntasks:\n  work:\n    run: echo \"parent=$TRACEPARENT\"\n");
    place.call(&["apply", "traced.yaml"]).expect(0);
    let run = trigger(&server, &make_token(&place, "operator"));
    assert_eq!(run["trace_id"], TRACE, "{run:#}");
    let id = run["id"].as_str().unwrap();
    let shown = place.ended(id);
    assert_eq!(shown["status"], "success", "{shown:#}");
    let logged = place.call(&["runs", "logs", id]).expect(0).stdout;
    worker.signal(Signal::SIGTERM);
    worker.wait();
    let names = ["POST /api/v1/workflows/{workflow}/trigger", "run traced", "claim", "execution", "task work"];
    let spans = until("every span arrives", || {
        let spans = collector.of_trace(TRACE);
        names.iter().all(|name| spans.iter().any(|span| span.name == *name)).then_some(spans)
    });
    let mut parent = INCOMING.to_owned();
    for name in names {
        let of_name: Vec<&Seen> = spans.iter().filter(|span| span.name == name).collect();
        assert_eq!((of_name.len(), &of_name[0].parent), (1, &parent), "{name} in {spans:#?}");
        parent = of_name[0].id.clone();
    }
    assert_eq!(spans.len(), names.len(), "{spans:#?}");
    // What the script calls goes on under the span of its task.
    assert!(logged.contains(&format!("parent=00-{TRACE}-{parent}-01")), "{logged}");
    let task = crate::support::task(&shown, "work");
    let execution = spans.iter().find(|span| span.name == "execution").unwrap();
    assert_eq!((&task["trace_id"], &task["span_id"]), (&TRACE.into(), &execution.id.clone().into()), "{task:#}");
}

on_both_databases! {
    a_run_is_one_trace_from_the_request_to_the_remote_shell
}
