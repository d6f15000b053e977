//! Sessions of the web interface: who gets one, when its cookie counts, and how it ends.

use axum::http::Method;
use mainspring_server::{Grant, Role};
use serde_json::json;

use crate::on_both;
use crate::test_api::{Answer, Call, TestApi};

const OWN: (&str, &str) = ("sec-fetch-site", "same-origin");
const WRITE: (&str, &str) = ("x-mainspring-ui", "1");

fn sign_in<'h>(api: &'h TestApi, body: serde_json::Value) -> Call<'h> {
    api.post("/ui/session").header(OWN.0, OWN.1).header(WRITE.0, WRITE.1).json(body)
}

/// The cookie that an answer sets, as a browser sends it back.
fn cookie(answer: &Answer) -> String {
    answer.header("set-cookie").split(';').next().unwrap().to_owned()
}

async fn signed_in(api: &TestApi, role: Role) -> String {
    let token = api.token(role).to_owned();
    cookie(&sign_in(api, json!({"token": token})).send().await.expect(200))
}

async fn code(api: &TestApi, role: Role) -> String {
    let made = api.post("/api/v1/auth/codes").role(role).send().await.expect(201).body();
    made["code"].as_str().unwrap().to_owned()
}

/// What the session gets, asked by a page of its own.
async fn status(api: &TestApi, cookie: &str) -> u16 {
    api.get("/api/v1/workflows").header(OWN.0, OWN.1).header("cookie", cookie).send().await.status.as_u16()
}

on_both! {
    async fn a_token_opens_a_session_that_scripts_cannot_read(api: &TestApi) {
        let token = api.token(Role::Viewer).to_owned();
        let answer = sign_in(api, json!({"token": token})).send().await.expect(200);
        let set = answer.header("set-cookie").to_owned();
        for part in ["HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=43200"] {
            assert!(set.contains(part), "{set}");
        }
        assert!(!answer.text.contains(&token) && answer.body()["name"] == "viewer");
        assert_eq!(status(api, &cookie(&answer)).await, 200);
        let me = api.get("/ui/session").header(OWN.0, OWN.1).header("cookie", &cookie(&answer)).send().await.expect(200);
        assert_eq!(me.body()["grants"][0]["role"], "viewer");
    }

    async fn the_store_holds_no_session_id(api: &TestApi) {
        let cookie = signed_in(api, Role::Admin).await;
        let id = cookie.split_once('=').unwrap().1;
        // The hash alone opens nothing.
        let hash = {
            use base64::Engine as _;
            use sha2::Digest as _;
            let raw = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(id).unwrap();
            base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(sha2::Sha256::digest(raw))
        };
        assert_eq!(status(api, &format!("mainspring={hash}")).await, 401);
    }

    async fn a_cookie_alone_from_another_origin_opens_nothing(api: &TestApi) {
        let cookie = signed_in(api, Role::Admin).await;
        for (name, value) in [("sec-fetch-site", "cross-site"), ("sec-fetch-site", "same-site"), ("sec-fetch-site", "none"), ("x-nothing", "1")] {
            api.get("/api/v1/workflows").header(name, value).header("cookie", &cookie).send().await.expect(401);
        }
        // A page of another origin is refused before its cookie is looked at.
        api.get("/api/v1/workflows").header("origin", "http://evil.example").header("cookie", &cookie).send().await.expect(403);
        // A write needs the header that a form cannot set.
        let write = |marked: bool| {
            let call = api.post("/api/v1/pause").header(OWN.0, OWN.1).header("cookie", &cookie).json(json!({}));
            if marked { call.header(WRITE.0, WRITE.1) } else { call }
        };
        write(false).send().await.expect(401);
        assert_ne!(write(true).send().await.status.as_u16(), 401);
    }

    async fn a_websocket_needs_the_origin_of_this_host(api: &TestApi) {
        let cookie = signed_in(api, Role::Viewer).await;
        let open = |origin: Option<&str>| {
            let call = api.get("/ws/updates").header("upgrade", "websocket").header(OWN.0, OWN.1).header("cookie", &cookie);
            match origin { Some(origin) => call.header("origin", origin), None => call }
        };
        open(None).send().await.expect(401);
        open(Some("http://evil.example")).send().await.expect(403);
        // Past the guard; without a connection there is nothing to upgrade.
        open(Some("http://localhost")).send().await.expect(426);
    }

    async fn a_bearer_token_beside_a_cookie_is_refused(api: &TestApi) {
        let cookie = signed_in(api, Role::Viewer).await;
        api.get("/api/v1/workflows").role(Role::Admin).header(OWN.0, OWN.1).header("cookie", &cookie).send().await.expect(401);
    }

    async fn a_session_id_that_a_request_brings_is_never_adopted(api: &TestApi) {
        let planted = "mainspring=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
        let token = api.token(Role::Viewer).to_owned();
        let answer = sign_in(api, json!({"token": token})).header("cookie", planted).send().await.expect(200);
        assert_ne!(cookie(&answer), planted);
        assert_eq!(status(api, planted).await, 401);
        // Signing in again ends the session before.
        let second = sign_in(api, json!({"token": token})).header("cookie", &cookie(&answer)).send().await.expect(200);
        assert_eq!(status(api, &cookie(&answer)).await, 401);
        assert_eq!(status(api, &cookie(&second)).await, 200);
    }

    async fn a_one_time_code_works_once(api: &TestApi) {
        let code = code(api, Role::Operator).await;
        let answer = sign_in(api, json!({"code": code})).send().await.expect(200);
        assert_eq!(answer.body()["name"], "operator");
        sign_in(api, json!({"code": code})).send().await.expect(401);
        assert_eq!(status(api, &cookie(&answer)).await, 200);
    }

    async fn two_browsers_cannot_redeem_one_code(api: &TestApi) {
        let code = code(api, Role::Viewer).await;
        let both = tokio::join!(sign_in(api, json!({"code": code})).send(), sign_in(api, json!({"code": code})).send());
        let mut statuses = [both.0.status.as_u16(), both.1.status.as_u16()];
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 401]);
    }

    async fn a_session_cannot_make_a_code_that_outlives_it(api: &TestApi) {
        let cookie = signed_in(api, Role::Admin).await;
        api.post("/api/v1/auth/codes").header(OWN.0, OWN.1).header(WRITE.0, WRITE.1).header("cookie", &cookie).send().await.expect(403);
    }

    async fn a_revoked_token_ends_its_sessions_and_codes(api: &TestApi) {
        let token = api.make_token("leaver", &[Grant::everywhere(Role::Viewer)]).await;
        let id = mainspring_server::Token::read(&token).unwrap().id();
        let cookie = cookie(&sign_in(api, json!({"token": token})).send().await.expect(200));
        let made = api.post("/api/v1/auth/codes").bearer(&token).send().await.expect(201).body();
        assert_eq!(status(api, &cookie).await, 200);
        api.delete(&format!("/api/v1/auth/tokens/{id}")).role(Role::Admin).send().await.expect(204);
        assert_eq!(status(api, &cookie).await, 401);
        sign_in(api, json!({"code": made["code"]})).send().await.expect(401);
        sign_in(api, json!({"token": token})).send().await.expect(401);
    }

    async fn signing_out_everywhere_ends_every_session_of_the_token(api: &TestApi) {
        let (here, there) = (signed_in(api, Role::Viewer).await, signed_in(api, Role::Viewer).await);
        let other = signed_in(api, Role::Admin).await;
        let out = |cookie: &str, query: &str| {
            api.delete(&format!("/ui/session{query}")).header(OWN.0, OWN.1).header(WRITE.0, WRITE.1).header("cookie", cookie)
        };
        let third = signed_in(api, Role::Viewer).await;
        let answer = out(&third, "").send().await.expect(204);
        assert!(answer.header("set-cookie").contains("Max-Age=0"));
        assert_eq!([status(api, &third).await, status(api, &here).await], [401, 200]);
        out(&here, "?everywhere=true").send().await.expect(204);
        assert_eq!([status(api, &here).await, status(api, &there).await], [401, 401]);
        assert_eq!(status(api, &other).await, 200, "another token's");
    }

    async fn wrong_sign_ins_are_alike_and_foreign_pages_cannot_sign_in(api: &TestApi) {
        let revoked_like = "ms_00000000000070008000000000000000_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
        let mut texts = Vec::new();
        for body in [json!({"token": "x"}), json!({"token": revoked_like}), json!({"code": "x"}), json!({"code": "AAAA"})] {
            texts.push(sign_in(api, body).send().await.expect(401).text);
        }
        texts.dedup();
        assert_eq!(texts.len(), 1);
        sign_in(api, json!({})).send().await.expect(422);
        sign_in(api, json!({"token": "x", "code": "y"})).send().await.expect(422);
        let token = api.token(Role::Viewer).to_owned();
        let body = json!({"token": token});
        api.post("/ui/session").header(WRITE.0, WRITE.1).header("sec-fetch-site", "cross-site").json(body.clone()).send().await.expect(403);
        api.post("/ui/session").header(OWN.0, OWN.1).json(body.clone()).send().await.expect(403);
        sign_in(api, body).header("host", "evil.example").send().await.expect(421);
    }

    async fn pages_are_static_and_carry_the_policy(api: &TestApi) {
        let expected = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
            base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'";
        for page in ["/ui/", "/ui/runs", "/ui/w/default/x", "/ui/r/00000000-0000-7000-8000-000000000000/log"] {
            let answer = api.get(page).send().await;
            assert_eq!((answer.status.as_u16(), answer.header("content-security-policy")), (200, expected), "{page}");
        }
        for missing in ["/ui/assets/nothing.js", "/ui/assets/..%2fpackage.json", "/ui/assets/..%2f..%2fCargo.toml"] {
            api.get(missing).send().await.expect(404);
        }
        api.get("/ui/nothing").send().await.expect(404);
        let nowhere = api.call(Method::GET, "/ui/no/page").header("accept", "text/html").send().await;
        assert_eq!((nowhere.status.as_u16(), nowhere.header("content-security-policy")), (404, expected));
        let root = api.call(Method::GET, "/").header("accept", "text/html,*/*").send().await;
        assert_eq!((root.status.as_u16(), root.header("location")), (307, "/ui/"));
        api.get("/").header("accept", "application/json").send().await.expect(404);
    }
}
