//! Changes from pages over HTTP: access to forms, repeated submissions, and effects.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use axum::http::Method;
use perpend_it::{OTLP, TestApp, Trace, count};
use perpend_server::client::Answer;
use serde_json::{Value, json};

use crate::pages::{FORM, OURS, Visitor};

fn location(answer: &Answer) -> &str {
    assert_eq!(answer.status, 303, "{}", answer.text());
    answer.headers["location"].to_str().unwrap()
}

/// The page that a form leads to, as the browser that sent it opens it.
async fn followed(visitor: &Visitor, answer: &Answer) -> String {
    let cookie = answer.headers["set-cookie"].to_str().unwrap();
    let cookie = cookie.split(';').next().unwrap();
    let client = visitor.client.clone().with_header("cookie", cookie);
    let page = client.get(location(answer)).await.unwrap();
    assert_eq!(page.status, 200, "{}", page.text());
    page.text()
}

async fn stored(app: &TestApp, id: &str) -> Value {
    let path = format!("/api/public/traces/{id}?fields=core");
    app.client.get(&path).await.unwrap().json()
}

#[tokio::test]
async fn a_form_that_no_page_of_the_session_sent_changes_nothing() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    let trace = Trace::new(1, "ticket");
    app.ingest(&trace).await.unwrap();
    let page = format!("{}/traces/{}", visitor.base, trace.id);
    let token = visitor.token(&page).await;
    let other_session = {
        let pair = "public_key=pk-test&secret_key=sk-test".to_owned();
        let anybody = app.anonymous();
        let sent = anybody.send(Method::POST, "/login", &[FORM, OURS], pair);
        let answer = sent.await.unwrap();
        let cookie = answer.headers["set-cookie"].to_str().unwrap();
        let cookie = cookie.split(';').next().unwrap();
        let client = app.anonymous().with_header("cookie", cookie);
        let other = Visitor {
            client: client.with_header("accept", "text/html"),
            base: visitor.base.clone(),
        };
        other.token(&page).await
    };
    let forged = token.replacen(&token[..4], "AAAA", 1);
    let bookmarks = format!("{}/bookmarks", visitor.base);
    let tags = page.clone();
    let requeue = format!("{}/executions/none/requeue", visitor.base);
    for (path, fields) in [
        (bookmarks.as_str(), format!("set={}", trace.id)),
        (&tags, "add=kept".to_owned()),
        (&requeue, String::new()),
        ("/preferences", "theme=dark".to_owned()),
        ("/logout", String::new()),
    ] {
        let origin = |origin| [FORM, ("origin", origin)];
        let site = |site| [FORM, ("sec-fetch-site", site)];
        let right = format!("form={token}&{fields}");
        for (headers, body) in [
            (vec![FORM], right.clone()),
            (site("cross-site").to_vec(), right.clone()),
            (site("same-site").to_vec(), right.clone()),
            (origin("https://other.example").to_vec(), right.clone()),
            (origin("null").to_vec(), right.clone()),
            (vec![FORM, OURS], fields.clone()),
            (vec![FORM, OURS], format!("form=&{fields}")),
            (vec![FORM, OURS], format!("form={forged}&{fields}")),
            (vec![FORM, OURS], format!("form={other_session}&{fields}")),
        ] {
            let text = format!("{path} {headers:?} {body}");
            let answer = visitor.client.send(Method::POST, path, &headers, body);
            let answer = answer.await.unwrap();
            assert_eq!(answer.status, 403, "{text}");
            assert!(!answer.headers.contains_key("set-cookie"), "{text}");
        }
        let anybody = app.anonymous();
        let nobody = anybody.send(Method::POST, path, &[FORM, OURS], right);
        let nobody = nobody.await.unwrap();
        assert!([303, 413].contains(&nobody.status.as_u16()), "{path}");
    }
    let kept = stored(&app, &trace.id).await;
    assert_eq!((&kept["bookmarked"], &kept["tags"]), (&json!(false), &json!([])));
    // Browsers that say nothing of the site say the origin.
    let body = format!("form={token}&set={}", trace.id);
    let headers = [FORM, ("origin", app.origin.as_str())];
    let sent = visitor.client.send(Method::POST, &bookmarks, &headers, body);
    assert_eq!(sent.await.unwrap().status, 303);
    assert_eq!(stored(&app, &trace.id).await["bookmarked"], true);
    app.stop().await.unwrap();
}

#[tokio::test]
async fn no_two_pages_have_the_same_token_and_a_page_with_a_used_one_is_sent_again() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    let trace = Trace::new(1, "ticket");
    app.ingest(&trace).await.unwrap();
    let page = format!("{}/traces/{}", visitor.base, trace.id);
    let first = visitor.client.get(&page).await.unwrap();
    let (one, other) = (visitor.token(&page).await, visitor.token(&page).await);
    assert_ne!(one, other);
    let tag = first.headers["etag"].to_str().unwrap().to_owned();
    let vary = first.headers.get_all("vary").iter();
    let vary: Vec<_> = vary.filter_map(|vary| vary.to_str().ok()).collect();
    assert!(vary.join(",").to_lowercase().contains("cookie"), "{vary:?}");
    let again = async || {
        let known = [("if-none-match", tag.as_str())];
        let answer = visitor.client.send(Method::GET, &page, &known, "");
        answer.await.unwrap().status.as_u16()
    };
    assert_eq!(again().await, 304, "the token alone is no other page");
    // Sessions that begin in one second are one.
    app.clock.advance(Duration::from_secs(2));
    let another = Visitor::of(&app).await;
    let known = [("if-none-match", tag.as_str())];
    let of_another = another.client.send(Method::GET, &page, &known, "");
    let status = of_another.await.unwrap().status;
    assert_eq!(status, 200, "a session does not get the tokens of the one before");
    let tags = page.clone();
    // Does nothing: the trace has no such tag. The page is the same, and its token is used.
    let sent = visitor.send(&tags, format!("form={one}&remove=none")).await;
    assert_eq!(sent.status, 303);
    assert_eq!(again().await, 200);
    app.stop().await.unwrap();
}

/// An invalid tag is refused at its field, which keeps the typed text.
async fn assert_refused(visitor: &Visitor, (tags, page, token): (&str, &str, &str)) {
    let long = "x".repeat(201);
    for (typed, wrong) in [("%20", "must not be blank"), (long.as_str(), "at most 200")] {
        let body = format!("form={token}&back={}&add={typed}", perpend_views::encode(page));
        let refused = visitor.send(tags, body).await;
        let html = refused.text();
        assert_eq!(refused.status, 422, "{html}");
        assert!(
            html.contains("aria-describedby=\"problem-add\"") && html.contains(wrong),
            "{html}"
        );
        assert!(html.contains("autofocus") && html.contains("<h1><bdi>ticket"), "{html}");
        assert!(typed == "%20" || html.contains(&format!("value=\"{long}\"")), "{html}");
    }
    for outside in ["https://evil.example/", "//evil.example", "x"] {
        let body = format!("form={token}&back={outside}&add=y");
        assert_eq!(location(&visitor.send(tags, body).await), visitor.base);
    }
}

#[tokio::test]
async fn a_form_that_is_sent_twice_acts_once_and_can_be_undone() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    let trace = Trace::new(1, "ticket").attribute("langfuse.tags", "[\"sent & kept\"]");
    app.ingest(&trace).await.unwrap();
    let page = format!("{}/traces/{}", visitor.base, trace.id);
    let list = format!("{}/traces?q=bookmarked%3Atrue", visitor.base);
    let bookmarks = format!("{}/bookmarks", visitor.base);
    let token = visitor.token(&page).await;
    let back = perpend_views::encode(&list);
    let set = format!("form={token}&back={back}&set={}", trace.id);
    let done = visitor.send(&bookmarks, set.clone()).await;
    assert_eq!(location(&done), list);
    let shown = followed(&visitor, &done).await;
    assert!(shown.contains("Bookmark set.") && shown.contains("name=\"clear\""), "{shown}");
    assert!(shown.contains("ticket"), "the filter finds it: {shown}");
    // Another one clears it; the first form, sent once more, is answered as before and changes nothing.
    let token = visitor.token(&page).await;
    let clear = format!("form={token}&clear={}", trace.id);
    assert_eq!(location(&visitor.send(&bookmarks, clear).await), visitor.base);
    let replayed = visitor.send(&bookmarks, set.clone()).await;
    assert_eq!(location(&replayed), list);
    assert_eq!(stored(&app, &trace.id).await["bookmarked"], false);
    app.clock.advance(std::time::Duration::from_secs(601));
    assert_eq!(visitor.send(&bookmarks, set).await.status, 303);
    assert_eq!(
        stored(&app, &trace.id).await["bookmarked"],
        true,
        "a form is remembered 10 minutes"
    );

    // Tags: one that came with a span goes, and comes back by undoing.
    let tags = page.clone();
    let token = visitor.token(&page).await;
    let removed = perpend_views::encode(&perpend_views::encode("sent & kept"));
    let done = visitor.send(&tags, format!("form={token}&remove={removed}")).await;
    assert_eq!(stored(&app, &trace.id).await["tags"], json!([]));
    let shown = followed(&visitor, &done).await;
    assert!(shown.contains("Tag sent &#38; kept removed."), "{shown}");
    assert!(shown.contains("name=\"again\" value=\"sent%20%26%20kept\""), "{shown}");
    let token = visitor.token(&page).await;
    let undone = visitor.send(&tags, format!("form={token}&again={removed}")).await;
    assert_eq!(undone.status, 303);
    assert_eq!(stored(&app, &trace.id).await["tags"], json!(["sent & kept"]));
    // The message is shown for a minute.
    app.clock.advance(std::time::Duration::from_secs(61));
    let later = followed(&visitor, &undone).await;
    assert!(!later.contains("id=\"told\""), "{later}");

    assert_refused(&visitor, (&tags, &page, &token)).await;
    app.stop().await.unwrap();
}

#[tokio::test]
async fn resources_of_another_project_are_not_found_by_forms() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    app.ingest(&Trace::new(1, "ticket")).await.unwrap();
    let token = visitor.token(&format!("{}/traces", visitor.base)).await;
    let other = app.other_project().await.unwrap();
    let theirs = Trace::new(7, "theirs");
    let sent = other.json(Method::POST, OTLP, &theirs.to_json()).await.unwrap();
    assert_eq!(sent.status, 200);
    let evaluator = json!({
        "type": "plugin", "name": "length", "plugin": "perpend/text", "evaluator": "length", "config": { "max": 9 },
    });
    let made = other.json(Method::POST, "/api/public/v2/evaluators", &evaluator);
    let evaluator = made.await.unwrap().json()["id"].as_str().unwrap().to_owned();
    let rule = json!({
        "name": "all", "enabled": true, "settleMs": 0, "evaluatorAssignments": [{ "evaluatorId": evaluator }],
    });
    let made = other.json(Method::POST, "/api/public/v2/evaluation-rules", &rule);
    assert_eq!(made.await.unwrap().status, 200);
    let later = Trace::new(8, "theirs");
    let sent = other.json(Method::POST, OTLP, &later.to_json()).await.unwrap();
    assert_eq!(sent.status, 200);
    let failed =
        perpend_it::wait_for(&other, "/api/v1/failed-executions", |answer| count(answer) == 1);
    let failed = failed.await.unwrap()["data"][0]["id"].as_str().unwrap().to_owned();

    let answer_to = async |path: String, fields: String| {
        let body = format!("form={token}&{fields}");
        let answer = visitor.send(&path, body).await;
        assert_eq!(answer.status, 404, "{path} {fields}");
        answer.text()
    };
    let own = &visitor.base;
    let bookmarks = format!("{own}/bookmarks");
    let unknown = answer_to(bookmarks.clone(), "set=none".to_owned()).await;
    assert_eq!(answer_to(bookmarks, format!("set={}", theirs.id)).await, unknown);
    let tags = |id: &str| format!("{own}/traces/{id}");
    let add = || "add=x".to_owned();
    assert_eq!(answer_to(tags(&theirs.id), add()).await, answer_to(tags("none"), add()).await);
    let requeue = |id: &str| format!("{own}/executions/{id}/requeue");
    let none = answer_to(requeue("00000000-0000-0000-0000-000000000000"), String::new()).await;
    assert_eq!(answer_to(requeue(&failed), String::new()).await, none);
    // The URL of the other project does not lead there either.
    let foreign = format!("/project/other/executions/{failed}/requeue");
    assert_eq!(answer_to(foreign, String::new()).await, none);
    let kept = other.get(&format!("/api/v1/executions/{failed}")).await.unwrap();
    assert_eq!(kept.json()["failedAttempts"].as_array().unwrap().len(), 1);
    app.stop().await.unwrap();
}

#[tokio::test]
async fn a_failed_execution_is_shown_with_its_reason_and_requeued_by_its_form() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    let evaluator = app.evaluator("perpend/text", "length", json!({ "max": 1000 }));
    app.rule(&evaluator.await.unwrap(), json!({})).await.unwrap();
    let trace = Trace::new(7, "root");
    app.ingest(&trace).await.unwrap();
    let failed = app.wait_for("/api/v1/failed-executions", |answer| count(answer) == 1);
    let failed = failed.await.unwrap()["data"][0].clone();
    let id = failed["id"].as_str().unwrap();
    let step = format!("{}/traces/{}?observation={}", visitor.base, trace.id, Trace::span_id(1));
    let page = visitor.client.get(&step).await.unwrap().text();
    let action = format!("action=\"{}/executions/{id}/requeue\"", visitor.base);
    for part in [
        action.as_str(),
        failed["errorClass"].as_str().unwrap(),
        "<dt>Attempts</dt><dd><bdi>1</bdi>",
        "title=\"1 failed in 24 hours\">1<",
        ">Requeue</button>",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    let token = visitor.token(&step).await;
    let requeue = format!("{}/executions/{id}/requeue", visitor.base);
    let body = format!("form={token}&back={}", perpend_views::encode(&step));
    let done = visitor.send(&requeue, body.clone()).await;
    assert_eq!(location(&done), step);
    let twice = visitor.send(&requeue, body).await;
    assert_eq!(location(&twice), step);
    let one = format!("/api/v1/executions/{id}");
    let tried_again = |answer: &Value| {
        answer["state"] == "failed" && answer["failedAttempts"].as_array().unwrap().len() == 2
    };
    app.wait_for(&one, tried_again).await.unwrap();
    let shown = followed(&visitor, &done).await;
    assert!(shown.contains("Requeued") && !shown.contains("data-undo"), "{shown}");
    app.stop().await.unwrap();
}

#[tokio::test]
async fn only_the_project_of_a_key_shows_that_its_secret_was_wrong() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    let waits = async || {
        let page = visitor.page("").await;
        let (_, rest) = page.split_once("id=\"waits\"").unwrap();
        rest.split_once("</p>").unwrap().0.to_owned()
    };
    let body = Trace::new(1, "x").to_json();
    for (public, secret) in [("pk-unknown", "sk-test"), ("sk-test", "pk-test")] {
        let stranger = app.anonymous().with_keys(public, secret);
        assert_eq!(stranger.json(Method::POST, OTLP, &body).await.unwrap().status, 401);
    }
    app.other_project().await.unwrap();
    let other = app.anonymous().with_keys("pk-other", "wrong");
    assert_eq!(other.json(Method::POST, OTLP, &body).await.unwrap().status, 401);
    assert!(!waits().await.contains("rejected"));
    let wrong = app.anonymous().with_keys("pk-test", "not <the> secret");
    assert_eq!(wrong.json(Method::POST, OTLP, &body).await.unwrap().status, 401);
    let text = waits().await;
    assert!(text.contains("last rejected request") && text.contains("401 wrong secret"), "{text}");
    assert!(!text.contains("not"), "{text}");
    // An authorized but rejected request is the last one then.
    let broken = json!("no spans");
    let broken = app.client.json(Method::POST, OTLP, &broken).await;
    assert_eq!(broken.unwrap().status, 400);
    let text = waits().await;
    assert!(text.contains("400 malformed request"), "{text}");
    app.stop().await.unwrap();
}

#[tokio::test]
async fn a_repeated_parameter_is_refused_on_a_page_with_its_frame() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    let trace = Trace::new(1, "x").attribute("langfuse.session.id", "..");
    app.ingest(&trace.attribute("langfuse.user.id", ".")).await.unwrap();
    let own = &visitor.base;
    for (path, name) in [
        (format!("{own}?from=-1h&from=-7d"), "from"),
        (format!("{own}/sessions?after=1&after=2"), "after"),
        (format!("{own}/sessions/~..?turn=1&turn=2"), "turn"),
        (format!("{own}/search?q=a&q=b"), "q"),
        (format!("{own}/traces/{}/find?q=a&q=b", Trace::new(1, "").id), "q"),
        ("/preferences?saved=1&saved=1".to_owned(), "saved"),
        ("/api/reference?q=a&q=b".to_owned(), "q"),
        ("/login?next=a&next=b".to_owned(), "next"),
    ] {
        let answer = visitor.client.get(&path).await.unwrap();
        let html = answer.text();
        assert_eq!(answer.status, 400, "{path}: {html}");
        assert!(html.contains(&format!("{name}: must not be repeated")), "{path}: {html}");
        assert!(html.contains("class=\"rail\""), "{path}: {html}");
    }
    // Two ids that browsers would take for steps in the path.
    let sessions = visitor.page("/sessions").await;
    assert!(sessions.contains("/sessions/~..\""), "{sessions}");
    assert!(visitor.page("/sessions/~..").await.contains("<h1><bdi>..</bdi></h1>"));
    assert!(visitor.page("/users/~.").await.contains("<h1><bdi>.</bdi></h1>"));
    app.stop().await.unwrap();
}

#[tokio::test]
async fn errors_are_pages_with_their_frame_and_a_trailing_slash_redirects() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    for (path, body, status) in [
        ("/logout", "form=stale".to_owned(), 403),
        ("/preferences", "form=stale".to_owned(), 403),
        ("/login", format!("token={}", "x".repeat(20 << 10)), 413),
    ] {
        let answer = visitor.send(path, body).await;
        let html = answer.text();
        assert_eq!(answer.status, status, "{path}: {html}");
        assert!(html.contains("class=\"rail\""), "{path}: {html}");
    }
    let list = format!("{}/traces", visitor.base);
    let odd = visitor.client.get(&format!("{list}/%ff")).await.unwrap();
    assert_eq!(odd.status, 404, "{}", odd.text());
    assert!(odd.text().contains("class=\"rail\""), "{}", odd.text());
    for method in [Method::POST, Method::PUT, Method::DELETE, Method::PATCH] {
        let page = visitor.client.send(method.clone(), &list, &[], "").await;
        let page = page.unwrap();
        assert_eq!(page.status, 405, "{method}");
        assert!(page.headers.contains_key("allow"), "{method}");
        assert!(page.text().contains("class=\"rail\""), "{}", page.text());
        let program = app.client.send(method.clone(), &list, &[], "").await;
        let program = program.unwrap();
        assert_eq!(program.status, 405, "{method}");
        assert!(program.json()["message"].is_string(), "{}", program.text());
    }
    for (path, there) in [
        (format!("{list}/?q=a"), format!("{list}?q=a")),
        ("/api/reference/".to_owned(), "/api/reference".to_owned()),
    ] {
        let answer = visitor.client.get(&path).await.unwrap();
        assert_eq!(answer.status, 308, "{path}");
        assert_eq!(answer.headers["location"], there, "{path}");
    }
    app.stop().await.unwrap();
}

#[tokio::test]
async fn a_session_of_many_turns_opens_in_its_budget_and_jumps_by_number_and_by_time() {
    const N: u64 = 20_000;
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    let started = 1_770_000_000_u64;
    for first in (0..N).step_by(2_000) {
        let spans = (first..first + 2_000).map(|n| {
            json!({
                "traceId": perpend_it::trace_id(n), "spanId": Trace::span_id(1), "name": format!("turn {}", n + 1),
                "startTimeUnixNano": format!("{}000000000", started + n), "endTimeUnixNano": format!("{}500000000", started + n),
                "attributes": [{ "key": "session.id", "value": { "stringValue": "long" } },
                    { "key": "input.value", "value": { "stringValue": "And then?" } }],
            })
        });
        let body = json!({ "resourceSpans": [{ "scopeSpans": [{ "spans": spans.collect::<Vec<_>>() }] }] });
        let sent = app.client.json(Method::POST, OTLP, &body).await.unwrap();
        assert_eq!(sent.status, 200, "{}", sent.text());
    }
    let turns = |page: &str| {
        let parts = page.split("id=\"turn-").skip(1);
        let numbers = parts.filter_map(|part| part.split('"').next()?.parse::<u64>().ok());
        numbers.collect::<Vec<_>>()
    };
    let first = visitor.page("/sessions/long").await;
    assert_eq!(turns(&first), (1..=20).collect::<Vec<_>>());
    assert!(first.len() < 200 << 10 && first.contains("of 20,000"), "{}", first.len());
    // 2026-02-02 07:56:39 UTC is 18,999 seconds after the beginning.
    for query in [
        "turn=19000",
        "turn=19%2C000",
        "turn=2026-02-02+07%3A56%3A39",
        "turn=1&at=2026-02-02+07%3A56%3A39",
    ] {
        let there = visitor.page(&format!("/sessions/long?{query}")).await;
        assert_eq!(turns(&there), (19_000..19_020).collect::<Vec<_>>(), "{query}");
        let (_, wanted) = there.split_once("id=\"turn-19000\"").unwrap();
        let wanted = wanted.split('>').next().unwrap();
        assert!(wanted.contains("autofocus"), "{wanted}");
        assert!(
            there.contains("rel=\"next\" href=\"") && there.contains("turn=19020\""),
            "{query}"
        );
    }
    let last = visitor.page("/sessions/long?turn=99999").await;
    assert_eq!(turns(&last), [20_000]);
    assert!(last.contains("The session has fewer turns"), "{last}");
    let near = visitor.page("/sessions/long?turn=19996").await;
    assert_eq!(turns(&near), (19_996..=20_000).collect::<Vec<_>>());
    assert!(!near.contains("rel=\"next\""), "{near}");
    for wrong in ["turn=x", "at=yesterday"] {
        let page = visitor.page(&format!("/sessions/long?{wrong}")).await;
        assert!(
            page.contains("Must be the number of a turn") && turns(&page).len() == 20,
            "{wrong}"
        );
    }
    app.stop().await.unwrap();
}
