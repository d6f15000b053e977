//! Traces, exported to a collector: of one run, from the HTTP request to the shell task of a remote worker, and of what
//! an event starts.

use std::io::{Read, Write};
use std::net::TcpStream;

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::remote_workers::{FRONT, Worker, make_token, token, url};
use crate::support::{Place, Server, on_both_databases, until};

use collector::{Collector, ReceivedSpan};

mod collector;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const OTHER_TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const INCOMING: &str = "00f067aa0ba902b7";

/// The spans of a run, each the parent of the next.
const OF_A_RUN: [&str; 5] =
    ["POST /api/v1/workflows/{workflow}/trigger", "run traced", "claim", "execution", "task work"];

/// A request within a trace.
fn post(server: &Server, token: &str, trace: &str, path: &str, body: &str) -> Value {
    let mut stream = TcpStream::connect(&server.address).unwrap();
    write!(
        stream,
        "POST {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n\
         traceparent: 00-{trace}-{INCOMING}-01\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        server.address,
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {answer}"))
}

fn trigger(server: &Server, token: &str, trace: &str) -> Value {
    post(server, token, trace, "/api/v1/workflows/traced/trigger", "")
}

fn apply_traced(place: &Place) {
    place.write("traced.yaml", "name: traced\ntasks:\n  work:\n    run: echo \"parent=$TRACEPARENT\"\n");
    place.call(&["apply", "traced.yaml"]).expect(0);
}

/// Waits for the spans of a run and checks that they are one chain.
fn chain(collector: &Collector, trace: &str) -> Vec<ReceivedSpan> {
    let spans = until("every span arrives", || {
        let spans = collector.of_trace(trace);
        OF_A_RUN.iter().all(|name| spans.iter().any(|span| span.name == *name)).then_some(spans)
    });
    let mut parent = INCOMING.to_owned();
    for name in OF_A_RUN {
        let of_name: Vec<&ReceivedSpan> = spans.iter().filter(|span| span.name == name).collect();
        assert_eq!((of_name.len(), &of_name[0].parent), (1, &parent), "{name} in {spans:#?}");
        parent = of_name[0].id.clone();
    }
    assert_eq!(spans.len(), OF_A_RUN.len(), "{spans:#?}");
    spans
}

fn a_run_is_one_trace_from_the_request_to_the_remote_shell(database: &str) {
    let place = Place::on(database);
    let collector = Collector::over_http();
    place.write("mainspring.toml", format!("[traces]\nendpoint = \"http://{}\"\n", collector.address));
    let server = place.server(FRONT);
    let worker = Worker::start(&place, "far", &url(&server), &token(&place), &[]);
    apply_traced(&place);
    let run = trigger(&server, &make_token(&place, "operator"), TRACE);
    assert_eq!(run["trace_id"], TRACE, "{run:#}");
    let id = run["id"].as_str().unwrap();
    let shown = place.ended(id);
    assert_eq!(shown["status"], "success", "{shown:#}");
    let logged = place.call(&["runs", "logs", id]).expect(0).stdout;
    worker.signal(Signal::SIGTERM);
    worker.wait();
    let spans = chain(&collector, TRACE);
    // What the script calls goes on under the span of its task.
    let work = spans.iter().find(|span| span.name == "task work").unwrap();
    assert!(logged.contains(&format!("parent=00-{TRACE}-{}-01", work.id)), "{logged}");
    let task = crate::support::task(&shown, "work");
    let execution = spans.iter().find(|span| span.name == "execution").unwrap();
    assert_eq!((&task["trace_id"], &task["span_id"]), (&TRACE.into(), &execution.id.clone().into()), "{task:#}");
}

fn spans_go_over_grpc_as_soon_as_the_collector_takes_them(database: &str) {
    let place = Place::on(database);
    let collector = Collector::over_grpc_refusing();
    let settings = format!(
        "[traces]\nprotocol = \"grpc\"\nendpoint = \"http://{}\"\nheaders = {{x-tenant = \"ops\"}}\n",
        collector.address
    );
    place.write("mainspring.toml", settings);
    let server = place.server(FRONT);
    let worker = Worker::start(&place, "far", &url(&server), &token(&place), &[]);
    apply_traced(&place);
    let operator = make_token(&place, "operator");
    let run = trigger(&server, &operator, TRACE);
    assert_eq!(place.ended(run["id"].as_str().unwrap())["status"], "success");
    until("the collector refuses spans", || (collector.refusals() > 0).then_some(()));
    collector.refuse_no_more();
    let run = trigger(&server, &operator, OTHER_TRACE);
    assert_eq!(place.ended(run["id"].as_str().unwrap())["status"], "success");
    chain(&collector, OTHER_TRACE);
    worker.signal(Signal::SIGTERM);
    worker.wait();
    let (code, log) = server.terminate();
    assert_eq!(code, Some(0), "{log}");
    assert!(log.contains("the collector of traces takes none") && log.contains("it answered UNAVAILABLE"), "{log}");
}

/// The only run of a workflow, once there is one.
fn only_run(place: &Place, workflow: &str) -> Value {
    until("the event starts a run", || {
        let listed = place.call(&["runs", "list", "--workflow", workflow, "-o", "json"]).expect(0).json();
        listed["items"].as_array().unwrap().first().cloned()
    })
}

fn what_an_event_starts_belongs_to_its_trace_after_a_restart_too(database: &str) {
    let place = Place::on(database);
    let collector = Collector::over_http();
    place.write("mainspring.toml", format!("[traces]\nendpoint = \"http://{}\"\n", collector.address));
    // No window passes and no job fires while this server is the only one.
    let server = place.server(&[("MAINSPRING_SERVER_ROLES", "api")]);
    for (name, triggers) in [
        ("triggered", "[{event: go}]"),
        ("hooked", "[{webhook: go}]"),
        ("debounced", "[{event: go, debounce: {window: 10ms}}]"),
        ("handled", "[]"),
    ] {
        let file = format!("{name}.yaml");
        place.write(&file, format!("name: {name}\ntriggers: {triggers}\ntasks: {{work: {{run: 'true'}}}}\n"));
        place.call(&["apply", &file]).expect(0);
    }
    place.call(&["handlers", "create", "go", "--handler", "handled", "--action", "trigger_workflow"]).expect(0);
    let job = ["handlers", "create", "go", "--handler", "cleanup:old_traces", "--action", "create_job"];
    let config = r#"{"name": "swept", "payload": {"retention_days": 30}}"#;
    place.call(&[&job[..], &["--action-config", config]].concat()).expect(0);
    let operator = make_token(&place, "operator");
    let announced =
        post(&server, &operator, TRACE, "/api/v1/scheduler/events/trigger", r#"{"event_name": "go", "data": {}}"#);
    let outcomes =
        announced["deliveries"].as_array().unwrap().iter().map(|delivery| delivery["outcome"].as_str().unwrap());
    let mut outcomes: Vec<&str> = outcomes.collect();
    outcomes.sort_unstable();
    assert_eq!(outcomes, ["debounced", "started", "started", "started"], "{announced:#}");
    let called = post(&server, &operator, OTHER_TRACE, "/webhooks/default/go", "{}");
    assert_eq!(called["runs"].as_array().unwrap().len(), 1, "{called:#}");
    let request = |trace: &str| {
        until("the span of the request arrives", || {
            collector.of_trace(trace).into_iter().find(|span| span.parent == INCOMING)
        })
    };
    let requests = [request(TRACE), request(OTHER_TRACE)];
    server.kill();
    let _server = place.server(&[]);
    for (workflow, trace, request) in [
        ("triggered", TRACE, &requests[0]),
        ("handled", TRACE, &requests[0]),
        ("debounced", TRACE, &requests[0]),
        ("swept", TRACE, &requests[0]),
        ("hooked", OTHER_TRACE, &requests[1]),
    ] {
        let run = only_run(&place, workflow);
        assert_eq!(run["trace_id"], trace, "{workflow}: {run:#}");
        let ended = place.ended(run["id"].as_str().unwrap());
        assert_eq!(ended["status"], "success", "{ended:#}");
        let name = format!("run {workflow}");
        let span = until("the span of the run arrives", || {
            collector.of_trace(trace).into_iter().find(|span| span.name == name)
        });
        assert_eq!(span.parent, request.id, "{name} under {request:?}");
    }
}

#[test]
fn wrong_settings_are_said_with_what_is_right() {
    let place = Place::new();
    let check = |traces: &str, variables: &[(&str, &str)], said: &str| {
        place.write("mainspring.toml", format!("[traces]\n{traces}\n"));
        place.call_with(&["runs", "list"], variables).expect(2).says(&[said]);
    };
    let endpoint = "endpoint = \"http://127.0.0.1:4317\"";
    let words = "is `http/json`, but must be http/protobuf or grpc";
    check(&format!("{endpoint}\nprotocol = \"http/json\""), &[], &format!("`traces.protocol` {words}"));
    check(endpoint, &[("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json")], &format!("OTEL_EXPORTER_OTLP_PROTOCOL {words}"));
    check("protocol = \"grpc\"", &[], "means nothing without traces.endpoint");
    check(
        "protocol = \"grpc\"\nendpoint = \"http://127.0.0.1:4318/v1/traces\"",
        &[],
        "must be an address without a path, like http://127.0.0.1:4317",
    );
}

on_both_databases! {
    a_run_is_one_trace_from_the_request_to_the_remote_shell
    spans_go_over_grpc_as_soon_as_the_collector_takes_them
    what_an_event_starts_belongs_to_its_trace_after_a_restart_too
}
