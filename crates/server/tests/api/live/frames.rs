//! What is no WebSocket, what is too large, and clients that never read: a clean end, and a server that goes on.

use std::time::Duration;

use mainspring_server::{LiveLimits, Role};
use mainspring_store::Flavor;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use super::wire::{PATIENCE, Site};
use crate::fuzz::Length;

/// A connection on which the WebSocket was agreed, and nothing else was said.
async fn agreed(site: &Site, mut stream: TcpStream) -> TcpStream {
    let token = site.api.token(Role::Viewer);
    let head = format!(
        "GET /ws/updates?types=log HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        site.address
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        answer.push(stream.read_u8().await.unwrap());
    }
    assert!(answer.starts_with(b"HTTP/1.1 101"), "{}", String::from_utf8_lossy(&answer));
    stream
}

async fn connected(site: &Site) -> TcpStream {
    agreed(site, TcpStream::connect(site.address).await.unwrap()).await
}

/// A frame as a client sends it.
fn frame(head: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![head];
    match payload.len() {
        len @ 0..126 => bytes.push(0x80 | len as u8),
        len @ 126..65_536 => {
            bytes.push(0x80 | 126);
            bytes.extend((len as u16).to_be_bytes());
        }
        len => {
            bytes.push(0x80 | 127);
            bytes.extend((len as u64).to_be_bytes());
        }
    }
    let mask = [1, 2, 3, 4];
    bytes.extend(mask);
    bytes.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    bytes
}

/// Sends bytes and reads until the server has ended the connection.
async fn ends(mut stream: TcpStream, bytes: &[u8]) -> Vec<u8> {
    // The server may have ended it before everything was sent.
    let _ = stream.write_all(bytes).await;
    let mut answer = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        match tokio::time::timeout(PATIENCE, stream.read(&mut buffer)).await.expect("the server ends it") {
            Ok(0) | Err(_) => return answer,
            Ok(read) => answer.extend(&buffer[..read]),
        }
    }
}

fn huge_header() -> Vec<u8> {
    let mut bytes = vec![0x82, 0x80 | 127];
    bytes.extend((100_u64 << 20).to_be_bytes());
    bytes.extend([1, 2, 3, 4]);
    bytes
}

fn fragments() -> Vec<u8> {
    let mut bytes = frame(0x01, &[b'x'; 10_000]);
    for _ in 0..20 {
        bytes.extend(frame(0x00, &[b'x'; 10_000]));
    }
    bytes
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn frames_that_break_the_rules_end_their_connection_and_nothing_else() {
    let site = Site::open(Flavor::Sqlite).await;
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("garbage", b"GET / HTTP/1.1\r\n\r\n\xff\xff\xff\xff".to_vec()),
        ("the header of 100 MB", huge_header()),
        ("a length with the highest bit", vec![0x82, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 2, 3, 4]),
        ("more fragments than a message may have", fragments()),
        ("a continuation of nothing", frame(0x80, b"x")),
        ("a text within a text", [frame(0x01, b"x"), frame(0x81, b"y")].concat()),
        ("an unmasked frame", vec![0x81, 0x01, b'x']),
        ("a reserved bit", frame(0xc1, b"x")),
        ("a reserved opcode", frame(0x83, b"x")),
        ("a ping in fragments", frame(0x09, b"x")),
        ("a ping that is too long", frame(0x89, &[0; 126])),
        ("text that is not UTF-8", frame(0x81, b"\xff\xfe")),
        ("binary", frame(0x82, b"x")),
        ("text that is no JSON", frame(0x81, b"{{{{")),
        ("deep JSON", frame(0x81, "[".repeat(60_000).as_bytes())),
        ("an unknown order", frame(0x81, b"{\"drop\": {}}")),
        ("a message that is too large", frame(0x81, &[b' '; 70_000])),
        ("a close with half a code", frame(0x88, &[3])),
        ("a goodbye", frame(0x88, &[3, 232])),
    ];
    for (what, bytes) in cases {
        let answer = ends(connected(&site).await, &bytes).await;
        // A farewell is a closing frame; what is beyond repair is cut without one.
        assert!(answer.is_empty() || answer.contains(&0x88), "{what}: {:?}", String::from_utf8_lossy(&answer));
    }
    site.deserted().await;
    site.api.get("/live").send().await.expect(200);
    site.close().await;
}

/// Noise, frames with any head, and text that may be an order, whole or in fragments.
fn made_up(random: &mut fastrand::Rng) -> Vec<u8> {
    let mut bytes: Vec<u8> = Vec::new();
    for _ in 0..random.usize(1..6) {
        let payload: Vec<u8> = (0..random.usize(0..300)).map(|_| random.u8(..)).collect();
        match random.u8(0..5) {
            0 => bytes.extend(payload),
            1 => bytes.extend(frame(random.u8(..), &payload)),
            2 => bytes.extend(frame(0x81, &payload)),
            3 => {
                let keys = ["subscribe", "unsubscribe", "run", "seq", "types", "namespace", "workflow", ""];
                let values =
                    ["null", "{}", "[]", "-1", "1e99", "\"x\"", "{\"run\": \"x\"}", "{\"seq\": 9223372036854775808}"];
                let order = format!("{{\"{}\": {}}}", random.choice(keys).unwrap(), random.choice(values).unwrap());
                bytes.extend(frame(0x81, order.as_bytes()));
            }
            _ => {
                let cut = random.usize(0..=payload.len());
                bytes.extend(frame(random.u8(1..3), &payload[..cut]));
                bytes.extend(frame(0x89, &payload[..payload.len().min(100)]));
                bytes.extend(frame(random.choice([0x00, 0x80]).unwrap(), &payload[cut..]));
            }
        }
    }
    // Whatever it was, this ends it.
    bytes.extend(frame(0x88, &[3, 232]));
    bytes
}

#[expect(clippy::print_stderr, reason = "how much was tried is for people")]
async fn random_bytes(length: Length) {
    const AT_ONCE: usize = 150;
    let site = Site::open(Flavor::Sqlite).await;
    let mut random = length.random();
    let mut done = 0;
    while length.goes_on(done) {
        let mut clients = tokio::task::JoinSet::new();
        for _ in 0..AT_ONCE {
            let bytes = made_up(&mut random);
            let mut stream = connected(&site).await;
            clients.spawn(async move {
                let _ = stream.write_all(&bytes).await;
                let _ = stream.shutdown().await;
                ends(stream, &[]).await
            });
            done += 1;
        }
        while let Some(client) = clients.join_next().await {
            client.unwrap();
        }
        site.deserted().await;
        site.api.get("/live").send().await.expect(200);
    }
    eprintln!("websocket: {done} connections");
    site.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fuzz_websocket_frames() {
    random_bytes(Length::Cases(150)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_fuzz_websocket_frames() {
    random_bytes(Length::long()).await;
}

fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    text.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * 4_096
}

/// What waits for those who do not read stays in the database. 30 clients that want 400 MB are held to what they have
/// taken, and given up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heavy_clients_that_never_read_cost_no_memory_and_are_given_up() {
    let limits =
        LiveLimits { patience: Duration::from_millis(500), messages_per_second: 1_000, ..LiveLimits::default() };
    let site = Site::with(Flavor::Sqlite, limits).await;
    let tasks: Vec<String> = (0..1_000).map(|n| format!("t{n}: {{function: noop}}")).collect();
    let spec = site.workflow(&format!("{{name: w, tasks: {{{}}}}}", tasks.join(", "))).await;
    let run = site.submit(&spec).await;
    mainspring_testkit::wait::until("the run ends", PATIENCE, async || {
        Ok(site.client().store().run_summary(run).await?.state.is_terminal().then_some(()))
    })
    .await
    .unwrap();
    let before = resident_bytes();
    let mut clients = Vec::new();
    for _ in 0..30 {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4_096).unwrap();
        clients.push(agreed(&site, socket.connect(site.address).await.unwrap()).await);
    }
    for stream in &mut clients {
        let order = format!("{{\"subscribe\": {{\"run\": \"{run}\"}}}}");
        for _ in 0..30 {
            stream.write_all(&frame(0x81, order.as_bytes())).await.unwrap();
        }
    }
    site.deserted().await;
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < 150 << 20, "{grown} bytes for clients that never read");
    drop(clients);
    site.close().await;
}
