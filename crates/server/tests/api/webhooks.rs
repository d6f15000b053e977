//! `/webhooks/{namespace}/{name}`.

use mainspring_engine::Secrets;
use mainspring_server::{Api, Grant, Role, Settings};
use mainspring_store::Flavor;
use serde_json::json;

use crate::test_api::TestApi;

const LISTENS: &str = "{name: w, inputs: {n: {type: integer, default: 0}}, triggers: [{webhook: orders, inputs: {n: '${{ event.data.n }}'}}], tasks: {t: {function: {handler: noop}}}}";
/// HMAC-SHA256 of `{"n": 7}` under `s3cret`.
const SIGNATURE: &str = "sha256=9a4df1e863c8651e2e46bd5fd57e865c9005bf48c2e5a38b0acb036d3fbcfd27";

async fn api(flavor: Flavor) -> TestApi {
    let mut api = TestApi::new(flavor).await;
    api.client = api.client.clone().with_secrets(Secrets::new([("WEBHOOK_ORDERS".to_owned(), "s3cret".to_owned())]));
    api.service = Api::new(api.client.clone(), Settings::default()).unwrap();
    api.apply(LISTENS).await;
    api
}

async fn a_signed_call_starts_what_listens(flavor: Flavor) {
    let api = api(flavor).await;
    let node = api.work().await;
    let at = "/webhooks/default/orders";
    let call = || api.post(at).text("application/json", "{\"n\": 7}");
    let answer = call().header("x-mainspring-signature", SIGNATURE).send().await.expect(202).body();
    assert_eq!(answer["runs"].as_array().unwrap().len(), 1, "{answer}");
    call().header("x-hub-signature-256", SIGNATURE).send().await.expect(202);
    call().header("x-webhook-token", "s3cret").send().await.expect(202);
    call().role(Role::Operator).send().await.expect(202);
    assert!(api.runs("w", 4).await.iter().all(|run| run.inputs == Some(json!({"n": 7}))));
    // A key is looked at once the signature fits: no other sender is shown what was answered, and a refusal is not kept.
    call().header("idempotency-key", "w").send().await.expect(401);
    let keyed = || call().header("idempotency-key", "w").header("x-mainspring-signature", SIGNATURE);
    let first = keyed().send().await.expect(202);
    let again = keyed().send().await.expect(202);
    assert_eq!((again.header("idempotent-replay"), again.body()), ("true", first.body()));
    call().header("idempotency-key", "w").send().await.expect(401);
    assert_eq!(api.runs("w", 5).await.len(), 5);
    call().header("x-mainspring-timestamp", "1").header("x-mainspring-signature", SIGNATURE).send().await.expect(401);
    for (name, value) in [
        ("x-mainspring-signature", "sha256=00"),
        ("x-mainspring-signature", &format!("sha256={}", "0f".repeat(32))),
        ("x-mainspring-signature", &SIGNATURE[7..]),
        ("x-webhook-token", "s3cre"),
        ("x-webhook-token", ""),
        ("x-other", "1"),
    ] {
        call().header(name, value).send().await.expect(401);
    }
    // The signature is of these bytes, not of others that mean the same.
    api.post(at)
        .text("application/json", "{\"n\":7}")
        .header("x-mainspring-signature", SIGNATURE)
        .send()
        .await
        .expect(401);
    // A webhook without a secret refuses every sender.
    api.post("/webhooks/default/other").header("x-webhook-token", "").send().await.expect(401);
    api.post("/webhooks/default/other").role(Role::Operator).send().await.expect(404);
    call().role(Role::Viewer).send().await.expect(403);
    let guest = api.make_token("guest", &[Grant::within("here", Role::Admin)]).await;
    call().bearer(&guest).send().await.expect(403);
    api.post(at)
        .header("x-webhook-token", "s3cret")
        .text("text/plain", &"x".repeat((1 << 20) + 1))
        .send()
        .await
        .expect(413);
    api.post(at)
        .header("x-webhook-token", "s3cret")
        .text("application/json", "{\"n\": \"\\u0000\"}")
        .send()
        .await
        .expect(422);
    api.runs("w", 5).await;
    node.stop().await;
}

#[tokio::test]
async fn a_signed_call_starts_what_listens_on_postgres() {
    a_signed_call_starts_what_listens(Flavor::Postgres).await;
}

#[tokio::test]
async fn a_signed_call_starts_what_listens_on_sqlite() {
    a_signed_call_starts_what_listens(Flavor::Sqlite).await;
}
