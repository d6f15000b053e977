//! JSON Web Tokens: what counts, and everything that must not.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use mainspring_server::{JwtAlgorithm, JwtSettings, Settings};
use mainspring_store::Flavor;
use ring::signature::{Ed25519KeyPair, KeyPair};
use serde_json::{Value, json};

use crate::test_api::TestApi;

pub(crate) const SECRET: &[u8] = b"a shared secret that is long enough for it";

fn part(value: &Value) -> String {
    URL_SAFE_NO_PAD.encode(value.to_string())
}

pub(crate) fn signed(header: &Value, claims: &Value, sign: impl Fn(&[u8]) -> Vec<u8>) -> String {
    let message = format!("{}.{}", part(header), part(claims));
    let signature = URL_SAFE_NO_PAD.encode(sign(message.as_bytes()));
    format!("{message}.{signature}")
}

pub(crate) fn hmac(secret: &[u8]) -> impl Fn(&[u8]) -> Vec<u8> {
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, secret);
    move |message| ring::hmac::sign(&key, message).as_ref().to_vec()
}

pub(crate) fn hs256(claims: &Value) -> String {
    signed(&json!({"alg": "HS256", "typ": "JWT"}), claims, hmac(SECRET))
}

/// With a shared secret, which is written to the file.
pub(crate) async fn api_with(key_file: &Path, settings: Settings) -> TestApi {
    std::fs::write(key_file, SECRET).unwrap();
    TestApi::with(Flavor::Sqlite, Settings { jwt: Some(issuer(JwtAlgorithm::Hs256, key_file)), ..settings }).await
}

async fn api(algorithm: JwtAlgorithm, key_file: &Path) -> TestApi {
    TestApi::with(Flavor::Sqlite, Settings { jwt: Some(issuer(algorithm, key_file)), ..Settings::default() }).await
}

fn issuer(algorithm: JwtAlgorithm, key_file: &Path) -> JwtSettings {
    JwtSettings {
        algorithm,
        key_file: key_file.to_owned(),
        audiences: vec!["mainspring".into()],
        issuers: vec!["https://issuer".into()],
        leeway: 0,
    }
}

pub(crate) fn claims(api: &TestApi) -> Value {
    let later = api.client.now() / 1_000_000 + 3_600;
    json!({"sub": "ada", "exp": later, "aud": "mainspring", "iss": "https://issuer",
           "mainspring": [{"namespace": "here", "role": "operator"}]})
}

fn without(claims: &Value, name: &str) -> Value {
    let mut claims = claims.clone();
    claims.as_object_mut().unwrap().remove(name);
    claims
}

fn with(claims: &Value, name: &str, value: Value) -> Value {
    let mut claims = claims.clone();
    claims[name] = value;
    claims
}

#[tokio::test]
async fn a_token_of_the_configured_issuer_counts() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("key");
    std::fs::write(&file, SECRET).unwrap();
    let api = api(JwtAlgorithm::Hs256, &file).await;
    let claims = claims(&api);
    let me = api.get("/api/v1/auth/me").bearer(&hs256(&claims)).send().await.expect(200).body();
    assert_eq!((&me["actor"], &me["name"]), (&json!("jwt:https://issuer:ada"), &json!("ada")));
    api.get("/api/v1/pools?namespace=here").bearer(&hs256(&claims)).send().await.expect(200);
    api.get("/api/v1/pools?namespace=there").bearer(&hs256(&claims)).send().await.expect(403);
    // Without grants it may ask who it is and nothing else.
    let bare = hs256(&without(&claims, "mainspring"));
    api.get("/api/v1/auth/me").bearer(&bare).send().await.expect(200);
    api.get("/api/v1/pools").bearer(&bare).send().await.expect(403);
    let list = with(&claims, "aud", json!(["other", "mainspring"]));
    api.get("/api/v1/auth/me").bearer(&hs256(&list)).send().await.expect(200);
}

#[tokio::test]
async fn what_must_not_count_does_not_and_says_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("key");
    std::fs::write(&file, SECRET).unwrap();
    let api = api(JwtAlgorithm::Hs256, &file).await;
    let good = claims(&api);
    let now = api.client.now() / 1_000_000;
    let header = |alg: &str| json!({"alg": alg, "typ": "JWT"});
    let unsigned = |alg: &str| format!("{}.{}.", part(&header(alg)), part(&good));
    let cases = [
        ("alg none", unsigned("none")),
        ("alg None", unsigned("None")),
        ("alg nOnE", unsigned("nOnE")),
        ("no signature", unsigned("HS256")),
        ("another secret", signed(&header("HS256"), &good, hmac(b"another secret that is long enough too"))),
        ("an empty secret", signed(&header("HS256"), &good, hmac(b""))),
        ("another algorithm", signed(&header("HS512"), &good, hmac(SECRET))),
        ("an asymmetric algorithm", signed(&header("RS256"), &good, hmac(SECRET))),
        ("expired", hs256(&with(&good, "exp", json!(now - 10)))),
        ("exp as a text", hs256(&with(&good, "exp", json!((now + 3_600).to_string())))),
        ("exp negative", hs256(&with(&good, "exp", json!(-1)))),
        ("exp beyond all calendars", hs256(&with(&good, "exp", json!(i64::MAX)))),
        ("grants by position", hs256(&with(&good, "mainspring", json!([["*", "admin"]])))),
        ("no exp", hs256(&without(&good, "exp"))),
        ("not yet", hs256(&with(&good, "nbf", json!(now + 3_600)))),
        ("no aud", hs256(&without(&good, "aud"))),
        ("another aud", hs256(&with(&good, "aud", json!("other")))),
        ("no iss", hs256(&without(&good, "iss"))),
        ("another iss", hs256(&with(&good, "iss", json!("https://evil")))),
        ("no sub", hs256(&without(&good, "sub"))),
        ("an empty sub", hs256(&with(&good, "sub", json!("")))),
        ("an unknown role", hs256(&with(&good, "mainspring", json!([{"namespace": "*", "role": "root"}])))),
        ("grants of another shape", hs256(&with(&good, "mainspring", json!("admin")))),
        ("kid as a path", signed(&json!({"alg": "HS256", "kid": "/dev/null"}), &good, hmac(b""))),
        ("a key that it brings", signed(&json!({"alg": "HS256", "jwk": {"kty": "oct", "k": ""}}), &good, hmac(b""))),
        ("four parts", format!("{}.x", hs256(&good))),
        ("not base64", "a.b.c".into()),
    ];
    let expected = api.get("/api/v1/auth/me").send().await.expect(401).text;
    for (what, token) in cases {
        let answer = api.get("/api/v1/auth/me").bearer(&token).send().await;
        assert_eq!(answer.status.as_u16(), 401, "{what}");
        assert_eq!(answer.text, expected, "{what} gets another answer");
    }
}

/// A public key is no shared secret: a token signed by HMAC with the PEM text as its key is refused.
#[tokio::test]
async fn a_public_key_is_never_taken_for_a_secret() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("key.pem");
    let pkcs8 = Ed25519KeyPair::generate_pkcs8(&ring::rand::SystemRandom::new()).unwrap();
    let pair = Ed25519KeyPair::from_pkcs8(pkcs8.as_ref()).unwrap();
    let mut der = vec![0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];
    der.extend(pair.public_key().as_ref());
    let body = base64::engine::general_purpose::STANDARD.encode(&der);
    let pem = format!("-----BEGIN PUBLIC KEY-----\n{body}\n-----END PUBLIC KEY-----\n");
    std::fs::write(&file, &pem).unwrap();
    let api = api(JwtAlgorithm::EdDsa, &file).await;
    let good = claims(&api);
    let token = signed(&json!({"alg": "EdDSA"}), &good, |message| pair.sign(message).as_ref().to_vec());
    api.get("/api/v1/auth/me").bearer(&token).send().await.expect(200);
    for key in [pem.as_bytes(), pem.trim().as_bytes(), &der, pair.public_key().as_ref()] {
        let confused = signed(&json!({"alg": "HS256"}), &good, hmac(key));
        api.get("/api/v1/auth/me").bearer(&confused).send().await.expect(401);
        let mislabelled = signed(&json!({"alg": "EdDSA"}), &good, hmac(key));
        api.get("/api/v1/auth/me").bearer(&mislabelled).send().await.expect(401);
    }
}

/// RS256 with a key and a token made by another program.
#[tokio::test]
async fn rsa_signatures_count() {
    let folder = tempfile::tempdir().unwrap();
    let openssl = |arguments: &[&str]| {
        let output = std::process::Command::new("openssl").args(arguments).current_dir(folder.path()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    openssl(&["genrsa", "-out", "private.pem", "2048"]);
    openssl(&["rsa", "-in", "private.pem", "-pubout", "-out", "public.pem"]);
    let api = api(JwtAlgorithm::Rs256, &folder.path().join("public.pem")).await;
    let good = claims(&api);
    let sign = |message: &[u8]| {
        std::fs::write(folder.path().join("message"), message).unwrap();
        openssl(&["dgst", "-sha256", "-sign", "private.pem", "-out", "signature", "message"]);
        std::fs::read(folder.path().join("signature")).unwrap()
    };
    let token = signed(&json!({"alg": "RS256"}), &good, sign);
    api.get("/api/v1/auth/me").bearer(&token).send().await.expect(200);
    let public = std::fs::read(folder.path().join("public.pem")).unwrap();
    let confused = signed(&json!({"alg": "HS256"}), &good, hmac(&public));
    api.get("/api/v1/auth/me").bearer(&confused).send().await.expect(401);
}

/// Keys that would be no protection are refused when the server starts.
#[tokio::test]
async fn weak_and_wrong_keys_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("key");
    for (algorithm, content) in [
        (JwtAlgorithm::Hs256, "short"),
        (JwtAlgorithm::Hs256, "-----BEGIN PUBLIC KEY-----\nAAAAAAAAAAAAAAAAAAAAAAAAAAAA\n-----END PUBLIC KEY-----"),
        (JwtAlgorithm::Rs256, "a shared secret that is long enough for it"),
        (JwtAlgorithm::EdDsa, ""),
    ] {
        std::fs::write(&file, content).unwrap();
        let jwt = JwtSettings { algorithm, key_file: file.clone(), audiences: vec![], issuers: vec![], leeway: 0 };
        let database = mainspring_testkit::TestDatabase::sqlite().await;
        let clock = std::sync::Arc::new(mainspring_engine::SystemClock::new());
        let client = mainspring_engine::Client::new(database.store().clone(), clock);
        let refused =
            mainspring_server::Api::new(client, Settings { jwt: Some(jwt), ..Settings::default() }).unwrap_err();
        assert!(refused.contains(&file.display().to_string()), "{refused}");
    }
}
