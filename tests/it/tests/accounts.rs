//! Accounts of people: the first one, sign-in, sessions, and what each role opens.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use axum::http::Method;
use perpend_catalog::{AcceptingAccount, LinkPurpose, NewAccount, NewLink};
use perpend_domain::access::{Permission, Role};
use perpend_domain::ids::UserId;
use perpend_domain::time::Clock as _;
use perpend_it::{KEYS, OTLP, TestApp, Trace};
use perpend_server::client::{Answer, Client};

use crate::pages::{FORM, OURS, Visitor};

const PASSWORD: &str = "violet kettle 42 sails";

async fn post(client: &Client, path: &str, fields: &[(&str, &str)]) -> Answer {
    let pairs = fields.iter().map(|(name, value)| (*name, (*value).to_owned()));
    let body = perpend_views::with_query("", &pairs.collect::<Vec<_>>());
    let body = body.trim_start_matches('?').to_owned();
    let client = client.clone().with_header("accept", "text/html");
    client.send(Method::POST, path, &[FORM, OURS], body).await.unwrap()
}

/// A browser with the session of a response.
fn browser(app: &TestApp, answer: &Answer) -> Client {
    assert_eq!(answer.status, 303, "{}", answer.text());
    let set = answer.headers.get_all("set-cookie").iter();
    let cookies = set.map(|value| value.to_str().unwrap().split(';').next().unwrap());
    let cookies = cookies.collect::<Vec<_>>().join("; ");
    app.anonymous().with_header("cookie", &cookies).with_header("accept", "text/html")
}

async fn sign_in(app: &TestApp, email: &str, password: &str) -> Answer {
    post(&app.anonymous(), "/login", &[("email", email), ("password", password)]).await
}

/// Creates the first account by the setup link, and returns the browser that did.
async fn owner(app: &TestApp) -> Client {
    let path = format!("/setup/{}", app.app.web.setup_token.text());
    let fields = [("email", "Ada@Example.com "), ("name", "Ada"), ("password", PASSWORD)];
    browser(app, &post(&app.anonymous(), &path, &fields).await)
}

/// Adds a member of the organization with an account.
async fn member(app: &TestApp, name: &str, role: Role) -> Client {
    let (catalog, now) = (&app.app.store.catalog, app.clock.now());
    let home = catalog.project(&app.app.home_project).await.unwrap().unwrap();
    let email = format!("{name}@example.com");
    let first = catalog.account_by_email("ada@example.com").await.unwrap().unwrap();
    let link = NewLink {
        digest: [u8::try_from(name.len()).unwrap(); 32],
        id: name.to_owned(),
        purpose: LinkPurpose::Invitation { organization: home.organization.id, role },
        email: email.clone(),
        created_by: "ada".to_owned(),
        expires_at: now.plus_millis(60_000),
    };
    catalog.create_link(&link, now).await.unwrap();
    let account = NewAccount {
        id: name.to_owned(),
        email: email.clone(),
        name: name.to_owned(),
        password_hash: first.password_hash.unwrap(),
    };
    let user = UserId::new(name).unwrap();
    let accepting = AcceptingAccount::New(account);
    catalog.accept_invitation(&link, &accepting, (&user, now)).await.unwrap();
    browser(app, &sign_in(app, &email, PASSWORD).await)
}

#[tokio::test]
async fn the_first_account_ends_sign_in_with_keys_and_its_sessions_can_be_ended() {
    let app = TestApp::new().await.unwrap();
    let by_key = Visitor::of(&app).await;
    let base = by_key.base.clone();
    assert_eq!(by_key.client.get("/account").await.unwrap().status, 403);
    let wrong = app.anonymous().with_header("accept", "text/html");
    assert_eq!(wrong.get("/setup/0123456789abcdef").await.unwrap().status, 410);
    let path = format!("/setup/{}", app.app.web.setup_token.text());
    for (email, name, password) in [
        ("ada", "Ada", PASSWORD),
        ("ada@example.com", " ", PASSWORD),
        ("ada@example.com", "Ada", "too short"),
        ("ada@example.com", "Ada", "ada@example.com"),
    ] {
        let fields = [("email", email), ("name", name), ("password", password)];
        let refused = post(&app.anonymous(), &path, &fields).await;
        assert_eq!(refused.status, 422, "{}", refused.text());
        assert!(!refused.text().contains(PASSWORD), "a password is not sent back");
    }
    let anybody = app.anonymous();
    let cross_site = anybody.send(Method::POST, &path, &[FORM], String::new()).await.unwrap();
    assert_eq!(cross_site.status, 403);
    let first = owner(&app).await;
    assert_eq!(app.anonymous().get(&path).await.unwrap().status, 410, "used");
    assert_eq!(by_key.client.get(&base).await.unwrap().status, 303, "sessions of keys end");
    let (public_key, secret_key) = KEYS;
    let keys = [("public_key", public_key), ("secret_key", secret_key)];
    let by_key = post(&app.anonymous(), "/login", &keys).await;
    assert!(by_key.status == 401 && by_key.text().contains("has accounts"), "{}", by_key.text());
    let traces = app.client.get("/api/public/traces").await.unwrap();
    assert_eq!(traces.status, 200, "the API still takes keys");

    let page = first.get("/account").await.unwrap();
    assert!(page.status == 200 && page.text().contains("ada@example.com"), "{}", page.text());
    let second = browser(&app, &sign_in(&app, "ADA@example.com", PASSWORD).await);
    assert_eq!(second.get(&base).await.unwrap().status, 200);
    let token = token_of(&second).await;
    let foreign = post(&first, "/account/sessions/end", &[("form", &token)]).await;
    assert_eq!(foreign.status, 403, "a token of another session");
    let ended = post(&second, "/account/sessions/end", &[("form", &token)]).await;
    assert_eq!(ended.status, 303);
    assert_eq!(first.get(&base).await.unwrap().status, 303, "ended");
    assert_eq!(second.get(&base).await.unwrap().status, 200);

    let other = "seven quiet otters ride";
    let change = |current: &'static str, form: String| {
        let second = second.clone();
        async move {
            let fields = [("form", form.as_str()), ("current", current), ("password", other)];
            post(&second, "/account/password", &fields).await
        }
    };
    assert_eq!(change("not the password", token_of(&second).await).await.status, 422);
    let third = browser(&app, &change(PASSWORD, token_of(&second).await).await);
    assert_eq!(second.get(&base).await.unwrap().status, 303, "another reference");
    assert_eq!(third.get(&base).await.unwrap().status, 200);
    assert_eq!(sign_in(&app, "ada@example.com", PASSWORD).await.status, 401);
    assert_eq!(sign_in(&app, "ada@example.com", other).await.status, 303);
    app.stop().await.unwrap();
}

/// The token in the forms of the account page.
async fn token_of(client: &Client) -> String {
    let page = client.get("/account").await.unwrap().text();
    let (_, rest) = page.split_once("name=\"form\" value=\"").unwrap();
    rest.split('"').next().unwrap().to_owned()
}

#[tokio::test]
async fn unknown_wrong_and_delayed_attempts_look_the_same_for_every_address() {
    let app = TestApp::new().await.unwrap();
    app.clock.stop();
    owner(&app).await;
    let mut answers = Vec::new();
    for email in ["ada@example.com", "bob@example.com"] {
        let mut of_email = Vec::new();
        for _ in 0..6 {
            let answer = sign_in(&app, email, "not the password").await;
            let mut headers = answer.headers.clone();
            headers.remove("date");
            headers.remove("x-request-id");
            let names: Vec<String> = headers.keys().map(ToString::to_string).collect();
            of_email.push((answer.status, answer.text().replace(email, ""), names));
        }
        answers.push(of_email);
    }
    assert_eq!(answers[0], answers[1]);
    let statuses: Vec<u16> = answers[0].iter().map(|(status, ..)| status.as_u16()).collect();
    assert_eq!(statuses, [401, 401, 401, 401, 401, 429]);
    let elsewhere =
        [("email", "ada@example.com"), ("password", PASSWORD), ("next", "//evil.example")];
    app.clock.advance(std::time::Duration::from_secs(2));
    let signed_in = post(&app.anonymous(), "/login", &elsewhere).await;
    assert_eq!(signed_in.headers["location"], "/", "{}", signed_in.text());
    let cookie = signed_in.headers["set-cookie"].to_str().unwrap();
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Lax"), "{cookie}");
    app.stop().await.unwrap();
}

#[tokio::test]
async fn each_page_opens_to_the_lowest_role_that_holds_its_permission_and_not_to_the_one_below() {
    let app = TestApp::new().await.unwrap();
    let first = owner(&app).await;
    let mut browsers = vec![(Role::Owner, first)];
    for (name, role) in [("b", Role::Admin), ("bo", Role::Member), ("bob", Role::Viewer)] {
        browsers.push((role, member(&app, name, role).await));
    }
    let of = |role: Role| browsers.iter().find(|(one, _)| *one == role).map(|(_, client)| client);
    let project = app.app.home_project.to_string();
    let mut n_refused = 0;
    for route in perpend_server::served() {
        let is_page = !route.path.starts_with("/api/") && !route.path.starts_with("/v1/");
        let named = |name: &str| Permission::ALL.iter().find(|one| one.name() == name);
        let Some(permission) = named(&route.permission).filter(|_| is_page) else {
            continue;
        };
        let mut path = String::new();
        for part in route.path.replace("{project}", &project).split_inclusive('}') {
            let (before, _) = part.split_once('{').unwrap_or((part, ""));
            path.push_str(before);
            path.push_str(if part.contains('{') { "none" } else { "" });
        }
        let roles = Role::ALL.iter().copied();
        let lowest = roles.clone().rfind(|role| role.holds(*permission));
        let highest_without = roles.clone().find(|role| !role.holds(*permission));
        for (role, is_open) in [(lowest, true), (highest_without, false)] {
            // Without a role in a project no page is there.
            let Some(client) = role.and_then(of) else {
                continue;
            };
            let method = Method::from_bytes(route.method.as_bytes()).unwrap();
            let answer = client.send(method, &path, &[FORM, OURS], String::new()).await.unwrap();
            let is_refused = answer.status == 403 && answer.text().contains("lacks the permission");
            assert_eq!(is_refused, !is_open, "{} {path}: {}", route.method, answer.text());
            assert!(answer.status.as_u16() < 500, "{} {path}", route.method);
            n_refused += usize::from(is_refused);
        }
    }
    assert!(30 <= n_refused, "{n_refused} pages were refused");

    // A changed role applies to the open session at its next request.
    let (catalog, home) = (&app.app.store.catalog, format!("/project/{project}"));
    let viewer = of(Role::Viewer).unwrap();
    let place = catalog.project(&app.app.home_project).await.unwrap().unwrap();
    let user = UserId::new("bob").unwrap();
    let settings = format!("{home}/settings/connections/new");
    assert_eq!(viewer.get(&settings).await.unwrap().status, 403);
    let own = (&user, Role::Admin);
    let (organization, now) = (&place.organization.id, app.clock.now());
    catalog.set_project_member(organization, &place.id, own, now).await.unwrap();
    assert_eq!(viewer.get(&settings).await.unwrap().status, 200);
    let none = (&user, Role::None);
    catalog.set_project_member(organization, &place.id, none, now).await.unwrap();
    assert_eq!(viewer.get(&home).await.unwrap().status, 303, "the project is not there");
    app.stop().await.unwrap();
}

/// A half of a key pair on the page that shows it once.
fn shown_half(answer: &Answer, name: &str) -> String {
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.headers["cache-control"], "no-store");
    let page = answer.text();
    let (_, rest) = page.split_once(&format!("id=\"new-{name}-key\" tabindex=\"0\">")).unwrap();
    rest.split('<').next().unwrap().to_owned()
}

#[tokio::test]
async fn an_owner_creates_rotates_and_revokes_a_key_pair_on_pages_that_show_a_secret_once() {
    let app = TestApp::new().await.unwrap();
    let base = format!("/project/{}", app.app.home_project);
    let visitor = Visitor { client: owner(&app).await, base };
    let (list, new) = ("/settings/keys", "/settings/keys/new");
    let past = [("name", "shop"), ("scope", "ingest"), ("expires", "2001-01-01")];
    let refused = visitor.submit(new, new, &past).await;
    assert!(
        refused.status == 422 && refused.text().contains("in the future"),
        "{}",
        refused.text()
    );
    let path = format!("{}{new}", visitor.base);
    let form = format!("form={}&name=shop&scope=ingest&expires=", visitor.token(&path).await);
    let created = visitor.send(&path, form.clone()).await;
    let public_key = shown_half(&created, "public");
    assert_eq!(visitor.send(&path, form).await.status, 303, "a repeated form creates no key pair");
    let page = visitor.page(list).await;
    assert_eq!(page.matches(public_key.as_str()).count(), 1, "{page}");
    assert!(!page.contains(&shown_half(&created, "secret")), "{page}");

    let sends = async |answer: &Answer| {
        let pair = Client::new(&app.origin).with_keys(&public_key, &shown_half(answer, "secret"));
        let sent = pair.json(Method::POST, OTLP, &Trace::new(1, "a").to_json()).await;
        sent.unwrap().status.as_u16()
    };
    let stored = app.app.store.catalog.api_keys(&app.app.home_project).await.unwrap();
    let stored = stored.iter().find(|key| key.made.note.as_deref() == Some("shop")).unwrap();
    let key = format!("{list}/{}", stored.made.id);
    let rotated = visitor.submit(&key, &format!("{key}/rotate"), &[("overlap", "24")]).await;
    assert_eq!((sends(&created).await, sends(&rotated).await), (200, 200));
    let ended = visitor.submit(&key, &format!("{key}/end-previous-secret"), &[]).await;
    assert_eq!(ended.status, 303, "{}", ended.text());
    assert_eq!((sends(&created).await, sends(&rotated).await), (401, 200));
    let changed = [("name", "checkout"), ("expires", "2999-01-01"), ("public_scores", "1")];
    assert_eq!(visitor.submit(&key, &key, &changed).await.status, 303);
    let page = visitor.page(&key).await;
    assert!(page.contains("checkout") && page.contains("value=\"2999-01-01\""), "{page}");
    let revoke = format!("{key}/revoke");
    assert_eq!(visitor.submit(&revoke, &revoke, &[]).await.status, 303);
    assert_eq!(sends(&rotated).await, 401);
    app.stop().await.unwrap();
}

/// Sends a form of the page of members.
async fn submit(client: &Client, base: &str, form: &str, fields: &[(&str, &str)]) -> Answer {
    let token = token_of(client).await;
    let all: Vec<(&str, &str)> =
        [("form", token.as_str())].into_iter().chain(fields.iter().copied()).collect();
    post(client, &format!("{base}/settings/members/{form}"), &all).await
}

/// The path of the one-time link on a page.
fn link_on(page: &Answer, kind: &str) -> String {
    assert_eq!(page.status, 200, "{}", page.text());
    let text = page.text();
    let (_, rest) = text.split_once(&format!("/{kind}/")).unwrap();
    let token: String =
        rest.chars().take_while(|c| c.is_alphanumeric() || "-_".contains(*c)).collect();
    format!("/{kind}/{token}")
}

#[tokio::test]
async fn people_come_in_by_invitation_and_nobody_acts_above_their_own_role() {
    let app = TestApp::new().await.unwrap();
    let first = owner(&app).await;
    let base = format!("/project/{}", app.app.home_project);
    let fields = [("email", "Bob@example.com"), ("role", "ADMIN")];
    let invited = submit(&first, &base, "invite", &fields).await;
    let invitation = link_on(&invited, "invite");
    let bob = [("name", "Bob"), ("password", PASSWORD)];
    let shown = app.anonymous().get(&invitation).await.unwrap();
    assert!(shown.status == 200 && shown.text().contains("bob@example.com"), "{}", shown.text());
    let weak = [("name", "Bob"), ("password", "password1234")];
    assert_eq!(post(&app.anonymous(), &invitation, &weak).await.status, 422);
    let admin = browser(&app, &post(&app.anonymous(), &invitation, &bob).await);
    assert_eq!(admin.get(&base).await.unwrap().status, 200);
    assert_eq!(post(&app.anonymous(), &invitation, &bob).await.status, 410, "used");

    let members = admin.get(&format!("{base}/settings/members")).await.unwrap().text();
    assert!(
        members.contains("ada@example.com") && !members.contains(">OWNER</option>"),
        "{members}"
    );
    let (catalog, now) = (&app.app.store.catalog, app.clock.now());
    let place = catalog.project(&app.app.home_project).await.unwrap().unwrap();
    let organization = &place.organization.id;
    let user = catalog.user_by_name(organization, "ada@example.com").await.unwrap().unwrap();
    let ada = user.made.id.to_string();
    for (form, fields) in [
        ("invite", vec![("email", "cy@example.com"), ("role", "OWNER")]),
        ("role", vec![("member", ada.as_str()), ("role", "VIEWER")]),
        ("remove", vec![("member", ada.as_str())]),
        ("project-role", vec![("member", ada.as_str()), ("role", "NONE")]),
        ("reset", vec![("member", ada.as_str())]),
    ] {
        let refused = submit(&admin, &base, form, &fields).await;
        assert_eq!(refused.status, 403, "{form}: {}", refused.text());
    }
    app.clock.advance(std::time::Duration::from_secs(601));
    let stale = submit(&first, &base, "remove", &[("member", &ada)]).await;
    let location = stale.headers["location"].to_str().unwrap();
    assert!(location.starts_with("/account/confirm?next="), "{location}");
    let confirm = [("form", token_of(&first).await), ("next", format!("{base}/settings/members"))];
    let confirmed = |password: &'static str| {
        let [(_, form), (_, next)] = confirm.clone();
        let first = first.clone();
        async move {
            let fields = [("form", form.as_str()), ("next", next.as_str()), ("password", password)];
            post(&first, "/account/confirm", &fields).await
        }
    };
    assert_eq!(confirmed("not the password").await.status, 401);
    let answer = confirmed(PASSWORD).await;
    assert_eq!(answer.headers["location"], format!("{base}/settings/members"));
    let stolen = first.get(&base).await.unwrap();
    assert_eq!(stolen.status, 303, "the reference changed");
    let first = browser(&app, &answer);
    let last = submit(&first, &base, "remove", &[("member", &ada)]).await;
    assert_eq!(last.status, 422, "the last owner stays: {}", last.text());

    // An account is invited to another role only through its own session.
    let user = catalog.user_by_name(organization, "bob@example.com").await.unwrap().unwrap();
    let bob = user.made.id.to_string();
    let reset = submit(&first, &base, "reset", &[("member", &bob)]).await;
    let reset = link_on(&reset, "reset");
    let other = [("password", "seven quiet otters ride")];
    assert_eq!(app.anonymous().get(&reset).await.unwrap().status, 200);
    assert_eq!(post(&app.anonymous(), &reset, &other).await.status, 303);
    assert_eq!(admin.get(&base).await.unwrap().status, 303, "sessions end");
    assert_eq!(post(&app.anonymous(), &reset, &other).await.status, 410);
    assert_eq!(sign_in(&app, "bob@example.com", other[0].1).await.status, 303);
    catalog.remove_member(organization, &user.made.id, now).await.unwrap();
    let again =
        submit(&first, &base, "invite", &[("email", "bob@example.com"), ("role", "VIEWER")]);
    let invitation = link_on(&again.await, "invite");
    let taken = [("name", "Mallory"), ("password", PASSWORD)];
    let refused = post(&app.anonymous(), &invitation, &taken).await;
    let location = refused.headers["location"].to_str().unwrap();
    assert!(location.starts_with("/login?next="), "{location}");
    let bob = browser(&app, &sign_in(&app, "bob@example.com", other[0].1).await);
    assert_eq!(bob.get(&base).await.unwrap().status, 303, "no project before");
    assert_eq!(post(&bob, &invitation, &[]).await.status, 303);
    assert_eq!(bob.get(&base).await.unwrap().status, 200);
    app.stop().await.unwrap();
}

#[tokio::test]
async fn a_start_without_accounts_creates_the_configured_one_and_later_starts_change_nothing() {
    let settings = [("init.user_email", "Ada@example.com"), ("init.user_password", PASSWORD)];
    let app = TestApp::with(&settings).await.unwrap();
    assert_eq!(sign_in(&app, "ada@example.com", PASSWORD).await.status, 303);
    let path = format!("/setup/{}", app.app.web.setup_token.text());
    assert_eq!(app.anonymous().get(&path).await.unwrap().status, 410);
    app.stop().await.unwrap();
}
