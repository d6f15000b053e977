//! Made-up cursors and tokens: refused, never a server error, and never let in.
//!
//! The short versions run with every change; those named `long_` run for `MAINSPRING_TEST_FUZZ_SECONDS` each (60).

use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use mainspring_server::{Rates, Role, Settings};
use mainspring_store::Flavor;
use serde_json::{Value, json};

use crate::jwt;
use crate::test_api::TestApi;

/// How long a target goes on: a number of cases, or until its time is over.
pub(crate) enum Length {
    Cases(u64),
    Until(Instant),
}

impl Length {
    pub(crate) fn long() -> Self {
        let given = std::env::var("MAINSPRING_TEST_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok());
        Self::Until(Instant::now() + Duration::from_secs(given.unwrap_or(60)))
    }

    pub(crate) fn goes_on(&self, done: u64) -> bool {
        match self {
            Self::Cases(cases) => done < *cases,
            Self::Until(end) => Instant::now() < *end,
        }
    }

    /// The same cases in every short run, others in every long one.
    #[expect(clippy::print_stderr, reason = "a case can be repeated only by its seed")]
    pub(crate) fn random(&self) -> fastrand::Rng {
        let random = match self {
            Self::Cases(_) => fastrand::Rng::with_seed(0x6d61_696e),
            Self::Until(_) => fastrand::Rng::new(),
        };
        eprintln!("seed {}", random.get_seed());
        random
    }
}

fn settings() -> Settings {
    let rates = Rates { per_address: 1_000_000, per_identity: 1_000_000, failures_per_minute: 1_000_000 };
    Settings { rates, ..Settings::default() }
}

/// Changes some characters of a text, or cuts it, or puts another piece in.
fn changed(random: &mut fastrand::Rng, text: &str) -> String {
    let mut bytes = text.as_bytes().to_vec();
    for _ in 0..random.usize(1..4) {
        let at = random.usize(0..=bytes.len());
        match random.u8(0..4) {
            0 if at < bytes.len() => bytes[at] = random.u8(0x21..0x7f),
            1 => bytes.truncate(at),
            2 => bytes.insert(at, random.u8(0x21..0x7f)),
            _ => {
                let piece: Vec<u8> = (0..random.usize(1..20)).map(|_| random.alphanumeric() as u8).collect();
                bytes.splice(at..at, piece);
            }
        }
    }
    String::from_utf8(bytes).expect("only ASCII was put in")
}

fn noise(random: &mut fastrand::Rng, most: usize) -> Vec<u8> {
    (0..random.usize(0..most)).map(|_| random.u8(..)).collect()
}

fn quoted(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02x}")).collect()
}

/// Every list that takes a cursor, with one that it made itself.
async fn lists(api: &TestApi) -> Vec<(&'static str, String)> {
    for number in 0..3 {
        let name = format!("n{number}");
        api.post("/api/v1/namespaces").role(Role::Admin).json(json!({"name": name})).send().await.expect(201);
        api.store(&format!("{{name: w{number}, triggers: [{{cron: '0 {number} * * *'}}], tasks: {{t: {{run: x}}}}}}"))
            .await;
        api.start(&format!("w{number}")).await;
        api.put(&format!("/api/v1/calendars/c{number}")).role(Role::Admin).json(json!({})).send().await.expect(200);
    }
    let mut lists = Vec::new();
    for path in [
        "/workflows",
        "/workflow-runs",
        "/namespaces",
        "/schedules",
        "/calendars",
        "/auth/tokens",
        "/audit",
        "/task-runs?status=ready",
    ] {
        let join = if path.contains('?') { '&' } else { '?' };
        let first = api.get(&format!("/api/v1{path}{join}limit=1")).role(Role::Admin).send().await.expect(200).body();
        lists.push((path, first["next"].as_str().unwrap_or_else(|| panic!("{path} has one page: {first}")).to_owned()));
    }
    lists
}

#[expect(clippy::print_stderr, reason = "how much was tried is for people")]
async fn cursors(length: Length) {
    let api = TestApi::with(Flavor::Sqlite, settings()).await;
    let lists = lists(&api).await;
    let mut random = length.random();
    let mut done = 0;
    while length.goes_on(done) {
        let (path, real) = random.choice(&lists).unwrap();
        let cursor = match random.u8(0..4) {
            0 => changed(&mut random, real),
            1 => URL_SAFE_NO_PAD.encode(noise(&mut random, 60)),
            2 => String::from_utf8_lossy(&noise(&mut random, 60)).replace('\0', ""),
            // Of another list, whose positions have another type.
            _ => random.choice(&lists).unwrap().1.clone(),
        };
        let join = if path.contains('?') { '&' } else { '?' };
        let target = format!("/api/v1{path}{join}limit=1&cursor={}", quoted(&cursor));
        let answer = api.get(&target).role(Role::Admin).send().await;
        let expected = if cursor == *real { 200 } else { 400 };
        assert_eq!(answer.status.as_u16(), expected, "{path} {cursor}: {}", answer.text);
        done += 1;
    }
    eprintln!("cursors: {done} cases");
}

/// Anything JSON, as a header or claims might hold it.
fn made_up(random: &mut fastrand::Rng, depth: u8) -> Value {
    match random.u8(0..if depth == 0 { 5 } else { 7 }) {
        0 => Value::Null,
        1 => json!(random.bool()),
        2 => json!(random.i64(..)),
        3 => json!(random.f64() * 1e300),
        4 => json!(String::from_utf8_lossy(&noise(random, 12))),
        5 => (0..random.u8(0..4)).map(|_| made_up(random, depth - 1)).collect(),
        _ => {
            let names = [
                "alg",
                "typ",
                "kid",
                "jku",
                "jwk",
                "crit",
                "exp",
                "aud",
                "iss",
                "sub",
                "nbf",
                "mainspring",
                "namespace",
                "role",
            ];
            let field =
                |random: &mut fastrand::Rng| (random.choice(names).unwrap().to_owned(), made_up(random, depth - 1));
            Value::Object((0..random.u8(0..6)).map(|_| field(random)).collect())
        }
    }
}

#[expect(clippy::print_stderr, reason = "how much was tried is for people")]
async fn web_tokens(length: Length) {
    let folder = tempfile::tempdir().unwrap();
    let api = jwt::api_with(&folder.path().join("key"), settings()).await;
    let good = jwt::claims(&api);
    let real = jwt::hs256(&good);
    let mut random = length.random();
    let mut done = 0;
    while length.goes_on(done) {
        let header = json!({"alg": "HS256", "typ": "JWT"});
        // Signed by the issuer, so that claims are looked at: whatever they hold, nothing is granted by accident.
        let (token, is_signed) = match random.u8(0..5) {
            0 => (changed(&mut random, &real), false),
            1 => (
                format!(
                    "{}.{}.{}",
                    URL_SAFE_NO_PAD.encode(noise(&mut random, 40)),
                    URL_SAFE_NO_PAD.encode(noise(&mut random, 40)),
                    URL_SAFE_NO_PAD.encode(noise(&mut random, 40))
                ),
                false,
            ),
            2 => (
                jwt::signed(&made_up(&mut random, 2), &good, |_| noise(&mut fastrand::Rng::with_seed(done), 40)),
                false,
            ),
            3 => (jwt::signed(&header, &made_up(&mut random, 3), jwt::hmac(jwt::SECRET)), true),
            _ => {
                let mut claims = good.clone();
                let name = *random.choice(&["exp", "aud", "iss", "sub", "nbf", "mainspring"]).unwrap();
                claims[name] = made_up(&mut random, 3);
                (jwt::signed(&header, &claims, jwt::hmac(jwt::SECRET)), true)
            }
        };
        let answer = api.get("/api/v1/pools?namespace=there").bearer(&token).send().await;
        let allowed: &[u16] = if is_signed { &[401, 403] } else { &[401] };
        // Base64 has spare bits at its end: a change there may be none.
        let is_same = token.trim_end_matches('=').rsplit_once('.').map(|(message, _)| message)
            == real.rsplit_once('.').map(|(message, _)| message);
        let status = answer.status.as_u16();
        assert!(allowed.contains(&status) || (is_same && status == 403), "{token}: {status} {}", answer.text);
        done += 1;
    }
    eprintln!("web tokens: {done} cases");
}

#[tokio::test]
async fn fuzz_cursors() {
    cursors(Length::Cases(400)).await;
}

#[tokio::test]
async fn long_fuzz_cursors() {
    cursors(Length::long()).await;
}

#[tokio::test]
async fn fuzz_web_tokens() {
    web_tokens(Length::Cases(400)).await;
}

#[tokio::test]
async fn long_fuzz_web_tokens() {
    web_tokens(Length::long()).await;
}
