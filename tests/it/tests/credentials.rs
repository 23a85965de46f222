//! Key pairs that are deleted, wrong secrets, the address they come from, and the key of stored secrets.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use axum::http::Method;
use perpend_db::DatabaseUrl;
use perpend_it::{KEYS, ORGANIZATION_KEYS, OTLP, TestApp, Trace};
use perpend_server::client::Client;
use perpend_server::{KeyPair, RandomIds, first_start};
use perpend_storage::testing::TempDatabase;
use serde_json::json;

const SCORES: &str = "/api/public/v3/scores";
const OF_ORGANIZATION: &str = "/api/public/organizations/projects";
/// Wrong secrets from one network that are answered with 401.
const MAX_FAILURES: usize = 20;

fn wrong(app: &TestApp) -> Client {
    Client::new(&app.origin).with_keys(KEYS.0, "sk-guess")
}

/// A server behind a proxy on this machine, so that a test can come from any address.
async fn behind_a_proxy() -> TestApp {
    let app = TestApp::with(&[("server.trusted_proxies", "127.0.0.0/8")]).await;
    let app = app.unwrap();
    app.clock.stop();
    app
}

/// The same caller from another address.
fn from(client: Client, address: &str) -> Client {
    client.with_header("x-forwarded-for", address)
}

async fn status(client: &Client, path: &str) -> u16 {
    client.get(path).await.unwrap().status.as_u16()
}

/// The statuses of so many requests, each once in a row.
async fn statuses(client: &Client, n: usize) -> Vec<u16> {
    let mut all = Vec::new();
    for _ in 0..n {
        all.push(status(client, SCORES).await);
    }
    all.dedup();
    all
}

async fn key_id(app: &TestApp, project: &str) -> String {
    let path = format!("/api/public/projects/{project}/apiKeys");
    let keys = app.organizer().get(&path).await.unwrap().json();
    keys["apiKeys"][0]["id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_deleted_pair_comes_back_neither_by_a_start_nor_for_another_organization() {
    let app = TestApp::new().await.unwrap();
    let home = app.app.home_project.to_string();
    let other = app.other_project().await.unwrap();
    let path = format!("/api/public/projects/{home}/apiKeys/{}", key_id(&app, &home).await);
    let deleted = app.organizer().send(Method::DELETE, &path, &[], "").await;
    assert_eq!(deleted.unwrap().status, 200);
    assert_eq!(status(&app.client, SCORES).await, 401);

    let start = || {
        let (store, now) = (&app.app.store, app.app.web.clock.now());
        first_start(store, &app.app.web.config.init, &RandomIds, now, |_| {
            unreachable!("there is a project")
        })
    };
    assert_eq!(start().await.unwrap().id, app.app.home_project);
    assert_eq!(status(&app.client, SCORES).await, 401);

    let others = other.get("/api/public/projects").await.unwrap().json();
    let others = others["data"][0]["id"].as_str().unwrap().to_owned();
    let stranger = Client::new(&app.origin).with_keys("pk-other-org", "sk-other-org");
    let path = format!("/api/public/projects/{others}/apiKeys");
    let pair = json!({ "publicKey": KEYS.0, "secretKey": "a long enough secret" });
    let refused = stranger.json(Method::POST, &path, &pair).await.unwrap();
    assert_eq!(refused.status, 409);
    let text = refused.text();
    assert!(text.contains("never given out again"), "{text}");
    let bearer = Client::new(&app.origin).with_authorization(&format!("Bearer {}", KEYS.0));
    let score = json!({ "traceId": "t", "name": "s", "value": 1 });
    let scored = bearer.json(Method::POST, "/api/public/scores", &score).await;
    assert_eq!(scored.unwrap().status, 401);

    // The pair of the organization as well; the project keeps its pairs.
    let (public_key, _) = ORGANIZATION_KEYS;
    let public_key = perpend_domain::ids::PublicKey::new(public_key).unwrap();
    app.app.store.catalog.delete_organization_key(&public_key).await.unwrap();
    start().await.unwrap();
    app.clock.advance(Duration::from_secs(10));
    assert_eq!(status(&app.organizer(), OF_ORGANIZATION).await, 401);
    app.stop().await.unwrap();
}

#[tokio::test]
async fn wrong_secrets_block_only_their_network_for_a_minute() {
    let app = behind_a_proxy().await;
    let guesser = from(wrong(&app), "192.0.2.1");
    assert_eq!(statuses(&guesser, MAX_FAILURES).await, [401]);
    assert_eq!(statuses(&guesser, 1_000).await, [429]);
    let refused = guesser.get(SCORES).await.unwrap();
    assert_eq!(refused.headers["retry-after"], "60");
    assert_eq!(refused.json()["code"], "rate_limited");
    assert_eq!(refused.json()["details"]["reason"], "too_many_attempts");
    // A right guess of a secret that can be guessed looks like a wrong one, where it was never used.
    assert_eq!(status(&from(app.client.clone(), "192.0.2.1"), SCORES).await, 429);

    assert_eq!(status(&from(app.client.clone(), "192.0.2.2"), SCORES).await, 200);
    assert_eq!(status(&from(wrong(&app), "192.0.2.2"), SCORES).await, 401);
    // Other keys from that network.
    let organizer = from(app.organizer(), "192.0.2.1");
    assert_eq!(status(&organizer, OF_ORGANIZATION).await, 200);
    let browser = Client::new(&app.origin).with_authorization(&format!("Bearer {}", KEYS.0));
    let score = json!({ "traceId": "t", "name": "s", "value": 1 });
    let browser = from(browser, "192.0.2.1");
    let scored = browser.json(Method::POST, "/api/public/scores", &score);
    assert_eq!(scored.await.unwrap().status, 200);

    app.clock.advance(Duration::from_secs(59));
    assert_eq!(status(&guesser, SCORES).await, 429);
    app.clock.advance(Duration::from_secs(1));
    assert_eq!(status(&from(app.client.clone(), "192.0.2.1"), SCORES).await, 200);
    assert_eq!(statuses(&guesser, MAX_FAILURES).await, [401]);
    assert_eq!(status(&guesser, SCORES).await, 429);
    app.stop().await.unwrap();
}

#[tokio::test]
async fn a_flood_of_wrong_secrets_from_its_own_address_does_not_lock_the_right_pair_out() {
    let app = TestApp::new().await.unwrap();
    app.clock.stop();
    let keys = format!("/api/public/projects/{}/apiKeys", app.app.home_project);
    let made = app.organizer().json(Method::POST, &keys, &json!({})).await;
    let made = made.unwrap().json();
    let text = |name: &str| made[name].as_str().unwrap().to_owned();
    let fresh = Client::new(&app.origin).with_keys(&text("publicKey"), &text("secretKey"));
    // A secret that a user chose, and that was used from this address.
    assert_eq!(status(&app.client, SCORES).await, 200);
    for (public_key, right) in [(text("publicKey"), &fresh), (KEYS.0.to_owned(), &app.client)] {
        let guesser = Client::new(&app.origin).with_keys(&public_key, "sk-guess");
        assert_eq!(statuses(&guesser, MAX_FAILURES + 5).await, [401, 429]);
        assert_eq!(status(right, SCORES).await, 200);
        let trace = Trace::new(1, "a").to_json();
        let sent = right.json(Method::POST, OTLP, &trace).await.unwrap();
        assert_eq!(sent.status, 200);
        assert_eq!(status(&guesser, SCORES).await, 429, "guessing stays limited");
    }
    app.stop().await.unwrap();
}

#[tokio::test]
async fn unknown_keys_share_one_count_per_network_which_is_a_64_of_ipv6() {
    let app = behind_a_proxy().await;
    let mut statuses = Vec::new();
    for n in 0..=MAX_FAILURES {
        let unknown = Client::new(&app.origin).with_keys(&format!("pk-made-up-{n}"), "sk");
        let client = from(unknown, &format!("2001:db8:1:2::{n:x}"));
        statuses.push(status(&client, SCORES).await);
    }
    statuses.dedup();
    assert_eq!(statuses, [401, 429]);
    let bearer = Client::new(&app.origin).with_authorization("Bearer pk-made-up");
    assert_eq!(status(&from(bearer.clone(), "2001:db8:1:2::ff"), SCORES).await, 429);
    assert_eq!(status(&from(bearer, "2001:db8:1:3::ff"), SCORES).await, 401);
    // A key that exists is not affected, nor is the count of its wrong secrets.
    assert_eq!(status(&from(app.client.clone(), "2001:db8:1:2::1"), SCORES).await, 200);
    assert_eq!(status(&from(wrong(&app), "2001:db8:1:2::1"), SCORES).await, 401);
    app.stop().await.unwrap();
}

#[tokio::test]
async fn every_way_to_show_credentials_is_limited_and_a_failure_counts_once() -> anyhow::Result<()>
{
    let secret = "secret-of-the-administrator";
    let limits = [
        ("server.trusted_proxies", "127.0.0.1"),
        ("admin.api_key", secret),
        ("limits.api_per_minute", "1000"),
    ];
    let app = TestApp::with(&limits).await?;
    app.clock.stop();
    // The rate limit looks at the key as well: the failure is one all the same.
    let guesser = from(wrong(&app), "192.0.2.1");
    assert_eq!(statuses(&guesser, MAX_FAILURES).await, [401]);
    assert_eq!(status(&guesser, SCORES).await, 429);
    let sent = guesser.json(Method::POST, OTLP, &Trace::new(1, "a").to_json()).await?;
    assert_eq!(sent.status, 429);
    assert!(sent.headers.contains_key("retry-after"));

    let administrator = |key: &str| {
        from(Client::new(&app.origin), "192.0.2.2")
            .with_authorization(&format!("Bearer {key}"))
            .with_header("x-perpend-admin-api-key", key)
            .with_header("x-perpend-project-id", app.app.home_project.as_str())
    };
    assert_eq!(statuses(&administrator("guess"), MAX_FAILURES + 1).await, [401, 429]);
    assert_eq!(status(&administrator(secret), SCORES).await, 200);

    let visitor = from(Client::new(&app.origin), "192.0.2.3");
    let mut statuses = Vec::new();
    let form = [crate::pages::FORM, crate::pages::OURS];
    for _ in 0..=MAX_FAILURES {
        let guess = visitor.send(Method::POST, "/login", &form, "token=guess");
        statuses.push(guess.await?.status.as_u16());
    }
    statuses.dedup();
    assert_eq!(statuses, [401, 429]);
    let right = format!("token={}", app.app.web.login_token.text());
    let right = visitor.send(Method::POST, "/login", &form, right).await?;
    assert_eq!(right.status, 303);

    let login = async || {
        let body = format!("public_key={}&secret_key=guess&next=%2Frules", KEYS.0);
        visitor.send(Method::POST, "/login", &form, body).await
    };
    for _ in 0..MAX_FAILURES {
        assert_eq!(login().await?.status, 401);
    }
    let blocked = login().await?;
    assert_eq!(blocked.status, 429);
    assert!(blocked.headers.contains_key("retry-after"));
    // The form keeps the typed values and counts down.
    let blocked = blocked.text();
    for part in [
        "name=\"secret_key\"",
        &format!("value=\"{}\"", KEYS.0),
        "name=\"next\" value=\"/rules\"",
        "data-again=\"",
    ] {
        assert!(blocked.contains(part), "{part}: {blocked}");
    }
    assert_eq!(status(&app.client, SCORES).await, 200);
    app.stop().await
}

#[tokio::test]
async fn a_claimed_address_does_not_escape_the_limit() {
    let app = TestApp::new().await.unwrap();
    app.clock.stop();
    let mut statuses = Vec::new();
    for n in 0..=MAX_FAILURES {
        let liar = from(wrong(&app), &format!("192.0.2.{n}"));
        statuses.push(status(&liar, SCORES).await);
    }
    statuses.dedup();
    assert_eq!(statuses, [401, 429]);
    app.stop().await.unwrap();
}

#[tokio::test]
async fn a_second_server_with_another_key_on_one_database_is_refused() {
    let Some(database) = TempDatabase::postgres().await else {
        return;
    };
    let DatabaseUrl::Postgres(url) = database.url().clone() else {
        unreachable!("{database:?}");
    };
    let first = TestApp::with(&[("database.url", &url)]).await.unwrap();
    let refused = TestApp::with(&[("database.url", &url)]).await.unwrap_err();
    let refused = refused.to_string();
    assert!(refused.contains("perpend secrets reset"), "{refused}");
    let key = std::fs::read_to_string(first.data_dir().join("secrets.key")).unwrap();
    let same = [("database.url", url.as_str()), ("secrets.key", key.as_str())];
    let second = TestApp::with(&same).await.unwrap();
    assert_eq!(status(&second.client, SCORES).await, 200);
    second.stop().await.unwrap();
    first.stop().await.unwrap();
}

/// The cookie that a login with this form gives, as a browser sends it again.
async fn log_in(app: &TestApp, form: &str) -> String {
    let headers = [crate::pages::FORM, crate::pages::OURS];
    let visitor = app.anonymous();
    let answer = visitor.send(Method::POST, "/login", &headers, form.to_owned()).await.unwrap();
    assert_eq!(answer.status, 303, "{}", answer.text());
    let cookie = answer.headers["set-cookie"].to_str().unwrap();
    cookie.split(';').next().unwrap().to_owned()
}

#[tokio::test]
async fn a_session_ends_with_the_key_pair_that_began_it_and_no_other() {
    let app = TestApp::new().await.unwrap();
    let keys = format!("/api/public/projects/{}/apiKeys", app.app.home_project.as_str());
    let made = app.organizer().json(Method::POST, &keys, &json!({})).await.unwrap().json();
    let text = |name: &str| made[name].as_str().unwrap().to_owned();
    let form = |public: &str, secret: &str| format!("public_key={public}&secret_key={secret}");
    let theirs = log_in(&app, &form(&text("publicKey"), &text("secretKey"))).await;
    let of_another_pair = log_in(&app, &form(KEYS.0, KEYS.1)).await;
    let token = app.app.web.login_token.text();
    let of_the_token = log_in(&app, &format!("token={token}")).await;
    let traces = format!("/project/{}/traces", app.app.home_project);
    let opens = async |cookie: &str| {
        let visitor = app.anonymous().with_header("cookie", cookie);
        status(&visitor, &traces).await
    };
    for cookie in [&theirs, &of_another_pair, &of_the_token] {
        assert_eq!(opens(cookie).await, 200);
    }
    let gone = format!("{keys}/{}", text("id"));
    let answer = app.organizer().json(Method::DELETE, &gone, &json!({})).await.unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(opens(&theirs).await, 303, "it leads to the login form");
    assert_eq!(opens(&of_another_pair).await, 200);
    assert_eq!(opens(&of_the_token).await, 200);
}

#[tokio::test]
async fn a_session_is_over_at_logout_on_every_server_and_cannot_be_replayed() {
    let databases = [None, TempDatabase::postgres().await];
    for database in databases {
        let url = database.as_ref().map(|database| match database.url() {
            DatabaseUrl::Postgres(url) => url.clone(),
            DatabaseUrl::Sqlite(_) => unreachable!(),
        });
        let key = "aGVyZSBhcmUgdGhpcnR5LXR3byBieXRlcyBvZiBrZXk=";
        let mut settings = vec![("secrets.key", key)];
        settings.extend(url.iter().map(|url| ("database.url", url.as_str())));
        let app = TestApp::with(&settings).await.unwrap();
        let second = match url {
            Some(_) => Some(TestApp::with(&settings).await.unwrap()),
            None => None,
        };
        let pair = format!("public_key={}&secret_key={}", KEYS.0, KEYS.1);
        let cookie = log_in(&app, &pair).await;
        let other = log_in(&app, &pair).await;
        let origins = [Some(&app.origin), second.as_ref().map(|app| &app.origin)];
        let opens = async |cookie: &str| {
            let traces = format!("/project/{}/traces", app.app.home_project);
            let mut all = Vec::new();
            for origin in origins.into_iter().flatten() {
                let visitor = Client::new(origin).with_header("cookie", cookie);
                all.push(status(&visitor, &traces).await);
            }
            all.dedup();
            all
        };
        assert_eq!(opens(&cookie).await, [200]);
        let visitor = app.anonymous().with_header("cookie", &cookie);
        let page = visitor.get("/logout").await.unwrap().text();
        let (_, rest) = page.split_once("name=\"form\" value=\"").unwrap();
        let form = format!("form={}", rest.split('"').next().unwrap());
        let headers = [crate::pages::FORM, crate::pages::OURS];
        let out = visitor.send(Method::POST, "/logout", &headers, form).await;
        assert_eq!(out.unwrap().status, 303);
        assert_eq!(opens(&cookie).await, [303]);
        assert_eq!(opens(&other).await, [200], "the session of another browser goes on");
    }
}

#[tokio::test]
async fn the_login_token_is_used_by_a_form_alone_works_once_and_expires() {
    let app = TestApp::new().await.unwrap();
    let token = app.app.web.login_token.text();
    let link = format!("/?token={token}");
    for _ in 0..3 {
        let page = app.anonymous().get(&link).await.unwrap();
        assert_eq!(page.status, 200);
        assert!(!page.headers.contains_key("set-cookie"));
        assert!(page.text().contains("<form"), "{}", page.text());
    }
    let form = format!("token={token}");
    let headers = [crate::pages::FORM, crate::pages::OURS];
    let post = async || {
        let visitor = app.anonymous();
        let answer = visitor.send(Method::POST, "/login", &headers, form.clone());
        answer.await.unwrap().status.as_u16()
    };
    let cookie = log_in(&app, &form).await;
    let visitor = app.anonymous().with_header("cookie", &cookie);
    let traces = format!("/project/{}/traces", app.app.home_project);
    assert_eq!(status(&visitor, &traces).await, 200);
    assert_eq!(post().await, 401);

    let app = TestApp::new().await.unwrap();
    app.clock.advance(Duration::from_secs(3_600));
    let form = format!("token={}", app.app.web.login_token.text());
    let visitor = app.anonymous();
    let late = visitor.send(Method::POST, "/login", &headers, form).await;
    assert_eq!(late.unwrap().status, 401);
}

#[tokio::test]
async fn a_key_with_an_unknown_permission_is_refused() {
    let app = TestApp::new().await.unwrap();
    let path = format!("/api/public/projects/{}/apiKeys", app.app.home_project);
    let make = async |body: serde_json::Value| {
        let made = app.organizer().json(Method::POST, &path, &body).await;
        made.unwrap()
    };
    for body in [
        json!({ "scope": "reader" }),
        json!({ "scope": "FULL" }),
        json!({ "scope": 1 }),
        json!({ "scopes": ["ingest"] }),
        json!({ "permissions": [] }),
        json!({ "readOnly": true }),
    ] {
        let refused = make(body.clone()).await;
        assert_eq!(refused.status, 400, "{body}: {}", refused.text());
    }
    for (body, reads, sends) in [
        (json!({ "scope": "ingest" }), 403, 200),
        (json!({ "scope": "read" }), 200, 403),
        (json!({ "scope": "full" }), 200, 200),
        (json!({}), 200, 200),
    ] {
        let made = make(body.clone()).await.json();
        let text = |name: &str| made[name].as_str().unwrap().to_owned();
        let client = Client::new(&app.origin).with_keys(&text("publicKey"), &text("secretKey"));
        assert_eq!(status(&client, SCORES).await, reads, "{body}");
        let trace = Trace::new(1, "a").to_json();
        let sent = client.json(Method::POST, OTLP, &trace).await.unwrap();
        assert_eq!(sent.status, sends, "{body}");
    }
}

#[tokio::test]
async fn both_secrets_of_a_rotated_pair_are_accepted_until_the_old_one_ends() {
    let app = TestApp::new().await.unwrap();
    let project = app.app.home_project.to_string();
    let own = format!("/api/v1/projects/{project}/api-keys");
    let organizer = app.organizer();
    let post = async |path: &str, body: serde_json::Value| {
        let answer = organizer.json(Method::POST, path, &body).await.unwrap();
        (answer.status.as_u16(), answer.json())
    };
    let (_, made) = post(&format!("/api/public/projects/{project}/apiKeys"), json!({})).await;
    let text = |name: &str| made[name].as_str().unwrap().to_owned();
    let (id, public_key) = (text("id"), text("publicKey"));
    let pair = |secret: &str| Client::new(&app.origin).with_keys(&public_key, secret);
    let old = pair(&text("secretKey"));
    let form = format!("public_key={public_key}&secret_key={}", text("secretKey"));
    let session = app.anonymous().with_header("cookie", &log_in(&app, &form).await);
    let traces = format!("/project/{project}/traces");
    assert_eq!((status(&old, SCORES).await, status(&session, &traces).await), (200, 200));

    let rotate = format!("{own}/{id}/rotate");
    for wrong in [json!({}), json!({ "overlapHours": -1 }), json!({ "overlapHours": 721 })] {
        let (status, refused) = post(&rotate, wrong).await;
        assert_eq!(status, 400);
        assert!(refused.to_string().contains("overlapHours"), "{refused}");
    }
    let (_, rotated) = post(&rotate, json!({ "overlapHours": 24 })).await;
    let new = pair(rotated["secretKey"].as_str().unwrap());
    assert_eq!((status(&old, SCORES).await, status(&new, SCORES).await), (200, 200));
    assert_eq!(status(&session, &traces).await, 200);
    app.app.jobs.run_once().await;
    // A pair of the project lists its keys and changes none.
    let listed = new.get(&format!("/api/public/projects/{project}/apiKeys")).await.unwrap();
    let (listed, shown) = (listed.json(), listed.text());
    let all = listed["apiKeys"].as_array().unwrap();
    let rotation = &all.iter().find(|key| key["id"] == json!(id)).unwrap()["rotation"];
    for used in ["newSecretLastUsedAt", "previousSecretLastUsedAt"] {
        assert!(rotation[used].is_string(), "{used}: {rotation}");
    }
    assert!(!shown.contains(rotated["secretKey"].as_str().unwrap()), "{shown}");
    let refused = new.json(Method::POST, &rotate, &json!({ "overlapHours": 0 })).await.unwrap();
    assert_eq!(refused.status, 403);
    assert_eq!(post(&rotate, json!({ "overlapHours": 0 })).await.0, 409);

    assert_eq!(post(&format!("{own}/{id}/end-previous-secret"), json!({})).await.0, 200);
    assert_eq!(status(&new, SCORES).await, 200);
    assert_eq!(status(&session, &traces).await, 303, "it began with the old secret");
    let ended = old.get(SCORES).await.unwrap();
    assert_eq!(ended.status, 401);
    assert!(ended.text().contains("key_expired"), "{}", ended.text());
    let trace = Trace::new(1, "a").to_json();
    assert_eq!(old.json(Method::POST, OTLP, &trace).await.unwrap().status, 401);
    app.stop().await.unwrap();
}

#[tokio::test]
async fn a_secret_that_another_node_made_is_accepted_and_an_expired_pair_has_a_code_of_its_own() {
    let app = TestApp::new().await.unwrap();
    app.clock.stop();
    let project = app.app.home_project.to_string();
    let organizer = app.organizer();
    let path = format!("/api/public/projects/{project}/apiKeys");
    let made = organizer.json(Method::POST, &path, &json!({})).await.unwrap().json();
    let text = |name: &str| made[name].as_str().unwrap().to_owned();
    let (id, public_key) = (text("id"), text("publicKey"));
    let pair = |secret: &str| Client::new(&app.origin).with_keys(&public_key, secret);
    let old = pair(&text("secretKey"));
    let key = perpend_domain::ids::PublicKey::new(&public_key).unwrap();
    let owner = perpend_catalog::KeyOwner::Project(app.app.home_project.clone());
    let secret_key = "sk-made-by-another-node".to_owned();
    let elsewhere = KeyPair { public_key: public_key.clone(), secret_key: secret_key.clone() };
    let (now, new) = (app.app.web.clock.now(), pair(&secret_key));
    let (catalog, secret) = (&app.app.store.catalog, elsewhere.to_secret(&RandomIds));
    assert_eq!(status(&old, SCORES).await, 200);
    catalog.rotate_key((&owner, &id), &secret, now.plus_millis(60_000), now).await.unwrap();
    app.clock.advance(Duration::from_secs(1));
    assert_eq!((status(&new, SCORES).await, status(&old, SCORES).await), (200, 200));
    app.clock.advance(Duration::from_secs(59));
    assert_eq!((status(&new, SCORES).await, status(&old, SCORES).await), (200, 401));

    let end = app.app.web.clock.now().plus_millis(1_000);
    let change = json!({ "expiresAt": end, "name": "checkout" });
    let place = format!("/api/v1/projects/{project}/api-keys/{id}");
    let changed = organizer.json(Method::PATCH, &place, &change).await.unwrap();
    assert_eq!((changed.status.as_u16(), &changed.json()["name"]), (200, &json!("checkout")));
    app.clock.advance(Duration::from_secs(1));
    for (client, has_expired) in [(&new, true), (&pair("sk-a-wrong-long-secret"), false)] {
        let refused = client.get(SCORES).await.unwrap();
        assert_eq!(refused.status, 401);
        assert_eq!(refused.text().contains("key_expired"), has_expired, "{}", refused.text());
    }
    assert!(catalog.is_public_key_used(&key).await.unwrap());

    // A start with the settings from before a rotation succeeds and changes nothing.
    let home = key_id(&app, &project).await;
    let rotate = format!("/api/v1/projects/{project}/api-keys/{home}/rotate");
    let rotated = organizer.json(Method::POST, &rotate, &json!({ "overlapHours": 0 })).await;
    assert_eq!(rotated.unwrap().status, 200);
    let (init, now) = (&app.app.web.config.init, app.app.web.clock.now());
    let started =
        first_start(&app.app.store, init, &RandomIds, now, |_| unreachable!("there is a project"));
    assert_eq!(started.await.unwrap().id, app.app.home_project);
    assert_eq!(status(&app.client, SCORES).await, 401);
    app.stop().await.unwrap();
}

#[tokio::test]
async fn a_session_of_a_key_pair_shows_the_keys_and_changes_none() {
    let app = TestApp::new().await.unwrap();
    let project = app.app.home_project.to_string();
    let keys = format!("/project/{project}/settings/keys");
    let visitor = async |public_key: &str, secret_key: &str| {
        let form = format!("public_key={public_key}&secret_key={secret_key}");
        app.anonymous().with_header("cookie", &log_in(&app, &form).await)
    };
    let full = visitor(KEYS.0, KEYS.1).await;
    let list = full.get(&keys).await.unwrap();
    assert_eq!(list.status, 200, "{}", list.text());
    assert!(list.text().contains(KEYS.0) && !list.text().contains("settings/keys/new"));
    assert!(!list.text().contains(KEYS.1), "no secret");
    let id = key_id(&app, &project).await;
    assert_eq!(status(&full, &format!("{keys}/{id}")).await, 200);
    assert_eq!(status(&full, &format!("{keys}/none")).await, 404);
    let headers = [crate::pages::FORM, crate::pages::OURS];
    for path in ["/new".to_owned(), format!("/{id}/rotate"), format!("/{id}/revoke")] {
        let path = format!("{keys}{path}");
        let refused = full.send(Method::POST, &path, &headers, "overlap=0").await.unwrap();
        assert_eq!(refused.status, 403, "{path}");
    }
    // A pair for reading opens the pages without those of the keys.
    let path = format!("/api/public/projects/{project}/apiKeys");
    let made = app.organizer().json(Method::POST, &path, &json!({ "scope": "read" })).await;
    let made = made.unwrap().json();
    let text = |name: &str| made[name].as_str().unwrap().to_owned();
    let read = visitor(&text("publicKey"), &text("secretKey")).await;
    assert_eq!(status(&read, &keys).await, 403);
    let traces = read.get(&format!("/project/{project}/traces")).await.unwrap();
    assert!(traces.status == 200 && !traces.text().contains("/settings/keys"), "{}", traces.text());
    app.stop().await.unwrap();
}
