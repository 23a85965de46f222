//! The main job: traces come in, a rule takes them, scores are there and explain themselves.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use axum::http::Method;
use perpend_db::DatabaseUrl;
use perpend_domain::evaluation::Pause;
use perpend_domain::ids::RuleId;
use perpend_it::{OTLP, PROCESSES, TestApp, Trace, count};
use perpend_storage::testing::TempDatabase;
use serde_json::{Value, json};

/// The main job on one server, from the rule to the score, and a repeat that changes nothing.
async fn main_story(app: TestApp) {
    let evaluator =
        app.evaluator("perpend/text", "contains-any", json!({ "terms": ["order"] })).await.unwrap();
    let filter = json!([{ "type": "stringOptions", "column": "type", "operator": "any of", "value": ["GENERATION"] }]);
    let rule = app.rule(&evaluator, json!({ "filter": filter })).await.unwrap();
    let trace = Trace::new(1, "ticket").generation("answer", "Your order is on its way.");
    app.ingest(&trace).await.unwrap();

    let scores = app.scores(1).await.unwrap();
    let score = &scores[0];
    assert_eq!(score["name"], "contains-any", "the evaluator's name");
    assert_eq!(score["value"], 1.0);
    assert_eq!(score["source"], "EVAL");
    assert_eq!(score["subject"]["traceId"], trace.id);
    let origin = &score["origin"];
    assert_eq!(origin["evaluatorId"], evaluator);
    assert_eq!(origin["evaluationRuleId"], rule);
    assert_eq!(origin["scoreName"], "contains_any");
    assert_eq!(origin["fingerprint"].as_str().unwrap().len(), 64);

    let executions =
        app.client.get(&format!("/api/v1/executions?traceId={}", trace.id)).await.unwrap().json();
    assert_eq!(count(&executions), 1);
    assert_eq!(executions["data"][0]["id"], origin["executionId"]);
    assert_eq!(executions["data"][0]["state"], "completed");

    app.ingest(&trace).await.unwrap();
    let later = Trace::new(2, "ticket").generation("answer", "We are sorry.");
    app.ingest(&later).await.unwrap();
    // The later trace is scored after everything before it was looked at.
    let scores = app.scores(2).await.unwrap();
    assert_eq!(scores.len(), 2, "{scores:?}");
    let value = |trace: &Trace| {
        let found = scores.iter().find(|score| score["subject"]["traceId"] == trace.id);
        found.unwrap()["value"].clone()
    };
    assert_eq!((value(&trace), value(&later)), (json!(1.0), json!(0.0)));
    app.stop().await.unwrap();
}

#[tokio::test]
async fn a_generation_is_scored_and_the_score_has_its_origin() {
    main_story(TestApp::new().await.unwrap()).await;
}

#[tokio::test]
async fn on_postgresql_a_generation_is_scored_as_on_sqlite() {
    let Some(database) = TempDatabase::postgres().await else {
        return;
    };
    let DatabaseUrl::Postgres(url) = database.url() else {
        unreachable!("a PostgreSQL database was created");
    };
    let settings = [("database.url", url.as_str())];
    main_story(TestApp::with(&settings).await.unwrap()).await;
}

#[tokio::test]
async fn in_worker_processes_a_generation_is_scored_as_in_the_server() {
    let app = TestApp::with(&[PROCESSES]).await.unwrap();
    main_story(app).await;
}

#[tokio::test]
async fn explain_names_the_step_that_kept_a_target_from_being_scored() {
    let app = TestApp::new().await.unwrap();
    let evaluator = app.evaluator("perpend/text", "length", json!({ "max": 1000 })).await.unwrap();
    let filter = json!([{ "type": "stringOptions", "column": "name", "operator": "any of", "value": ["other"] }]);
    let picky = app.rule(&evaluator, json!({ "filter": filter })).await.unwrap();
    let rare = app.rule(&evaluator, json!({ "sampling": 1e-12 })).await.unwrap();
    let off = app.rule(&evaluator, json!({ "enabled": false })).await.unwrap();
    let on_trace =
        app.rule(&evaluator, json!({ "target": "trace", "settleMs": 3_600_000 })).await.unwrap();
    let trace = Trace::new(2, "root").generation("answer", "x");
    app.ingest(&trace).await.unwrap();

    let observation = Trace::span_id(2);
    let explain = |rule: &str, more: &str| {
        let path = format!("/api/v1/evaluation-rules/{rule}/explain?traceId={}{more}", trace.id);
        let client = app.client.clone();
        async move { client.get(&path).await.unwrap() }
    };
    let on_it = format!("&observationId={observation}");
    let answer = explain(&picky, &on_it).await.json();
    assert_eq!(answer["step"], "not_matched", "{answer}");
    assert_eq!(answer["details"]["index"], 0);
    assert_eq!(answer["details"]["actual"], "answer");
    assert_eq!(explain(&rare, &on_it).await.json()["step"], "sampled_out");
    assert_eq!(explain(&off, &on_it).await.json()["step"], "rule_inactive");
    let answer = explain(&on_trace, "").await.json();
    assert_eq!(answer["step"], "not_complete", "{answer}");
    assert_eq!(
        explain(&rare, "&observationId=ffffffffffffffff").await.json()["step"],
        "no_such_target"
    );

    let bad = explain(&rare, "").await;
    assert_eq!(bad.status, 400);
    assert_eq!(bad.headers["content-type"], "application/problem+json");
    assert_eq!(bad.json()["code"], "invalid_query");
}

#[tokio::test]
async fn a_paused_rule_continues_when_it_is_enabled_again() {
    let app = TestApp::new().await.unwrap();
    let evaluator = app.evaluator("perpend/text", "length", json!({ "max": 1000 })).await.unwrap();
    let rule = app.rule(&evaluator, json!({})).await.unwrap();
    let pause = Pause {
        reason: "PLUGIN_FAILING".to_owned(),
        message: "20 failures in a row".to_owned(),
        at: app.app.web.clock.now(),
        until: None,
    };
    let id = RuleId::new(&rule).unwrap();
    let home = &app.app.home_project;
    let is_paused = app.app.store.catalog.pause_rule(home, &id, &pause, None).await.unwrap();
    assert!(is_paused.is_new());

    let path = format!("/api/public/v2/evaluation-rules/{rule}");
    let answer = app.client.get(&path).await.unwrap().json();
    assert_eq!(answer["status"], "paused", "{answer}");
    let renamed = json!({ "name": "still paused" });
    let answer = app.client.json(Method::PATCH, &path, &renamed).await;
    assert_eq!(answer.unwrap().json()["status"], "paused");
    let enabled = json!({ "enabled": true });
    let answer = app.client.json(Method::PATCH, &path, &enabled).await;
    assert_eq!(answer.unwrap().json()["status"], "active");

    let trace = Trace::new(3, "root").generation("answer", "x");
    app.ingest(&trace).await.unwrap();
    app.scores(1).await.unwrap();
}

#[tokio::test]
async fn explain_reports_that_a_target_arrived_before_its_rule() {
    let app = TestApp::new().await.unwrap();
    let evaluator = app.evaluator("perpend/text", "length", json!({ "max": 1000 })).await.unwrap();
    let generations = json!({ "filter": [{
        "type": "stringOptions", "column": "type", "operator": "any of", "value": ["GENERATION"],
    }] });
    app.rule(&evaluator, generations.clone()).await.unwrap();
    let older = Trace::new(4, "root").generation("answer", "x");
    app.ingest(&older).await.unwrap();
    // It has been looked at.
    app.scores(1).await.unwrap();
    app.clock.advance(std::time::Duration::from_secs(1));
    let rule = app.rule(&evaluator, generations).await.unwrap();
    let later = Trace::new(5, "root").generation("answer", "x");
    app.ingest(&later).await.unwrap();
    app.scores(3).await.unwrap();

    let explain = async |trace: &Trace| {
        let path = format!(
            "/api/v1/evaluation-rules/{rule}/explain?traceId={}&observationId={}",
            trace.id,
            Trace::span_id(2)
        );
        app.client.get(&path).await.unwrap().json()
    };
    let of_older = explain(&older).await;
    assert_eq!(of_older["executions"], json!([]), "{of_older}");
    assert_eq!(of_older["step"], "older_than_rule", "{of_older}");
    let explanation = of_older["explanation"].as_str().unwrap();
    assert!(explanation.contains("arrived before the rule existed"), "{of_older}");
    let (arrived, made) =
        (&of_older["details"]["arrivedAt"], &of_older["details"]["ruleCreatedAt"]);
    assert!(arrived.as_str() < made.as_str(), "{of_older}");
    let of_later = explain(&later).await;
    assert_eq!(count(&json!({ "data": of_later["executions"] })), 1);
    let explanation = of_later["explanation"].as_str().unwrap();
    assert!(explanation.contains("executions show the outcome"), "{of_later}");
}

#[tokio::test]
async fn failed_executions_are_listed_with_their_attempts_and_can_be_requeued() {
    let app = TestApp::new().await.unwrap();
    let evaluator = app.evaluator("perpend/text", "length", json!({ "max": 1000 })).await.unwrap();
    app.rule(&evaluator, json!({})).await.unwrap();
    // The roots have nothing whose length could be measured, the generation has.
    for n in 7..9 {
        let trace = Trace::new(n, "root").generation("answer", "x");
        app.ingest(&trace).await.unwrap();
    }
    let failed = "/api/v1/failed-executions";
    let all_failed = |answer: &Value| count(answer) == 2;
    let listed = app.wait_for(failed, all_failed).await.unwrap();
    let first = app.client.get(&format!("{failed}?limit=1")).await.unwrap();
    let first = first.json();
    let cursor = first["meta"]["cursor"].as_str().unwrap();
    let rest = format!("{failed}?limit=1&cursor={cursor}");
    let rest = app.client.get(&rest).await.unwrap().json();
    let pages = [&first["data"][0], &rest["data"][0]];
    assert_eq!(pages, [&listed["data"][0], &listed["data"][1]]);
    assert_eq!(rest["meta"], json!({}), "{rest}");

    let id = first["data"][0]["id"].as_str().unwrap();
    let one = format!("/api/v1/executions/{id}");
    let shown = app.client.get(&one).await.unwrap().json();
    let attempts = shown["failedAttempts"].as_array().unwrap();
    assert_eq!(attempts.len(), 1, "{shown}");
    assert_eq!(attempts[0]["errorClass"], shown["errorClass"]);
    let requeue = format!("{one}/requeue");
    let post = async |path: &str| {
        let answer = app.client.json(Method::POST, path, &json!({})).await;
        answer.unwrap()
    };
    assert_eq!(post(&requeue).await.status, 200);
    // It is tried once more, and fails for the same reason.
    let tried_again = |answer: &Value| {
        answer["state"] == "failed" && answer["failedAttempts"].as_array().unwrap().len() == 2
    };
    let shown = app.wait_for(&one, tried_again).await.unwrap();
    assert_eq!(shown["attempts"], 1, "counted anew");

    let path = format!("/api/v1/executions?traceId={}", Trace::new(7, "").id);
    let of_trace = app.client.get(&path).await.unwrap().json();
    let of_trace = of_trace["data"].as_array().unwrap().clone();
    let done = of_trace.iter().find(|each| each["state"] == "completed");
    let done = done.unwrap()["id"].as_str().unwrap();
    let answer = post(&format!("/api/v1/executions/{done}/requeue")).await;
    assert_eq!(answer.status, 409);
    assert_eq!(answer.json()["code"], "conflict");
    let other = app.other_project().await.unwrap();
    for id in [id, "none"] {
        let path = format!("/api/v1/executions/{id}");
        assert_eq!(other.get(&path).await.unwrap().status, 404);
        let path = format!("{path}/requeue");
        let answer = other.json(Method::POST, &path, &json!({})).await;
        assert_eq!(answer.unwrap().status, 404);
    }
    let foreign = other.get(failed).await.unwrap().json();
    assert_eq!(count(&foreign), 0, "{foreign}");
}

#[tokio::test]
async fn a_trace_rule_waits_for_the_settle_time_and_scores_the_whole_trace() {
    let app = TestApp::new().await.unwrap();
    let evaluator = app.evaluator("perpend/text", "length", json!({ "max": 1000 })).await.unwrap();
    let more = json!({ "target": "trace", "settleMs": 600_000, "onMissing": "empty" });
    app.rule(&evaluator, more).await.unwrap();
    let trace = Trace::new(3, "root").generation("answer", "x");
    app.ingest(&trace).await.unwrap();
    app.clock.advance(std::time::Duration::from_secs(601));
    let path = format!("/api/v1/executions?traceId={}", trace.id);
    let executions = app.wait_for(&path, |answer| count(answer) == 1).await.unwrap();
    assert_eq!(executions["data"][0]["completionReason"], "root_ended");
    assert_eq!(executions["data"][0]["observationId"], json!(null));
}

#[tokio::test]
async fn sending_a_trace_again_makes_no_second_score() {
    let app = TestApp::new().await.unwrap();
    let evaluator = app.evaluator("perpend/text", "length", json!({ "max": 5 })).await.unwrap();
    let filter = json!([{ "type": "stringOptions", "column": "type", "operator": "any of", "value": ["GENERATION"] }]);
    app.rule(&evaluator, json!({ "filter": filter })).await.unwrap();
    let trace = Trace::new(4, "root").generation("answer", "short");
    for _ in 0..3 {
        app.ingest(&trace).await.unwrap();
    }
    let first = app.scores(1).await.unwrap();
    app.ingest(&trace).await.unwrap();
    let marker = Trace::new(5, "root").generation("answer", "later");
    app.ingest(&marker).await.unwrap();
    // Once a later trace is scored, everything before it has been looked at.
    let scores = app.scores(2).await.unwrap();
    assert_eq!(scores.len(), 2, "one score for each of two traces: {scores:?}");
    assert!(scores.contains(&first[0]), "the first score did not change");
    let found = app.client.get(&format!("/api/public/traces/{}", trace.id)).await.unwrap().json();
    assert_eq!(found["observations"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn two_projects_do_not_see_each_other() {
    let app = TestApp::new().await.unwrap();
    let other = app.other_project().await.unwrap();
    let evaluator = app.evaluator("perpend/text", "length", json!({ "max": 1000 })).await.unwrap();
    let rule = app.rule(&evaluator, json!({})).await.unwrap();
    let trace = Trace::new(6, "secret").generation("answer", "x");
    app.ingest(&trace).await.unwrap();
    let scores = app.scores(1).await.unwrap();
    let score = scores[0]["id"].as_str().unwrap();
    for path in [
        format!("/api/public/traces/{}", trace.id),
        format!("/api/public/observations/{}", Trace::span_id(2)),
        format!("/api/public/v2/scores/{score}"),
        format!("/api/public/v2/evaluators/{evaluator}"),
        format!("/api/public/v2/evaluation-rules/{rule}"),
        format!("/api/v1/evaluation-rules/{rule}/explain?traceId={}&observationId=1", trace.id),
    ] {
        let foreign = other.get(&path).await.unwrap();
        assert_eq!(foreign.status, 404, "{path}");
        let kind = path.split('?').next().unwrap();
        let (head, _) = kind.rsplit_once('/').unwrap();
        if !kind.ends_with("explain") {
            let missing = other.get(&format!("{head}/none")).await.unwrap();
            assert_eq!(missing.body, foreign.body, "foreign and missing answer alike: {path}");
        }
    }
    for path in [
        "/api/public/traces",
        "/api/public/v2/observations",
        "/api/public/v3/scores",
        "/api/public/v2/evaluators",
        "/api/public/v2/evaluation-rules",
    ] {
        assert_eq!(count(&other.get(path).await.unwrap().json()), 0, "{path}");
    }
    // The same trace id in the other project is another trace.
    let answer = other.json(Method::POST, OTLP, &Trace::new(6, "mine").to_json()).await.unwrap();
    assert_eq!(answer.status, 200);
    let path = format!("/api/public/traces/{}", trace.id);
    assert_eq!(other.get(&path).await.unwrap().json()["name"], "mine");
    assert_eq!(app.client.get(&path).await.unwrap().json()["name"], "secret");
}

#[tokio::test]
async fn evaluators_of_one_function_give_series_of_their_own_and_a_rename_begins_another() {
    let app = TestApp::new().await.unwrap();
    let evaluators = "/api/public/v2/evaluators";
    let make = async |name: &str, term: &str| {
        let body = json!({
            "type": "plugin", "name": name, "plugin": "perpend/text", "evaluator": "contains-any",
            "config": { "terms": [term] },
        });
        let made = app.client.json(Method::POST, evaluators, &body).await.unwrap();
        made.json()["id"].as_str().unwrap().to_owned()
    };
    let generations = json!([{ "type": "stringOptions", "column": "type", "operator": "any of", "value": ["GENERATION"] }]);
    let polite = make("is polite", "please").await;
    let shipped = make("speaks of shipping", "ship").await;
    for evaluator in [&polite, &shipped] {
        let more = json!({ "filter": generations });
        app.rule(evaluator, more).await.unwrap();
    }
    let trace = Trace::new(1, "ticket").generation("answer", "It will ship today.");
    app.ingest(&trace).await.unwrap();
    app.scores(2).await.unwrap();

    let of_name = async |name: &str| {
        let path =
            format!("/api/public/v3/scores?fields=details&name={}", name.replace(' ', "%20"));
        let scores = app.client.get(&path).await.unwrap().json();
        scores["data"].as_array().unwrap().clone()
    };
    for (name, value, evaluator) in
        [("is polite", 0.0, &polite), ("speaks of shipping", 1.0, &shipped)]
    {
        let found = of_name(name).await;
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0]["value"], value);
        assert_eq!(found[0]["origin"]["evaluatorId"], *evaluator);
        assert_eq!(found[0]["origin"]["scoreName"], "contains_any");
    }
    assert!(of_name("contains_any").await.is_empty());
    let query = json!({
        "view": "scores-numeric", "dimensions": [{ "field": "name" }],
        "metrics": [{ "measure": "value", "aggregation": "avg" }],
        "fromTimestamp": "2020-01-01T00:00:00Z", "toTimestamp": "2100-01-01T00:00:00Z",
    });
    let query: String = form_urlencoded::byte_serialize(query.to_string().as_bytes()).collect();
    let metrics = app.client.get(&format!("/api/public/metrics?query={query}")).await;
    let metrics = metrics.unwrap().json();
    let mut by_name: Vec<(&str, f64)> = metrics["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (row["name"].as_str().unwrap(), row["avg_value"].as_f64().unwrap()))
        .collect();
    by_name.sort_by_key(|(name, _)| *name);
    assert_eq!(by_name, [("is polite", 0.0), ("speaks of shipping", 1.0)], "{metrics}");

    let before = app.client.get(&format!("{evaluators}/{polite}")).await.unwrap().json();
    let rename = json!({ "name": "is kind" });
    let path = format!("{evaluators}/{polite}");
    let renamed = app.client.json(Method::PATCH, &path, &rename).await.unwrap().json();
    assert_eq!(renamed["versionId"], before["versionId"]);
    assert_eq!(renamed["fingerprint"], before["fingerprint"]);
    let later = Trace::new(2, "ticket").generation("answer", "One moment please.");
    app.ingest(&later).await.unwrap();
    app.scores(4).await.unwrap();
    assert_eq!(of_name("is polite").await.len(), 1, "stored scores keep their names");
    assert_eq!(of_name("is kind").await[0]["value"], 1.0);
    assert_eq!(of_name("speaks of shipping").await.len(), 2);
}

#[tokio::test]
async fn a_rule_that_equals_another_one_is_a_conflict_of_names() {
    let app = TestApp::new().await.unwrap();
    let evaluator = app.evaluator("perpend/text", "length", json!({ "max": 9 })).await.unwrap();
    let rules = "/api/public/v2/evaluation-rules";
    let rule = |name: &str| json!({ "name": name, "enabled": true, "evaluatorAssignments": [{ "evaluatorId": evaluator }] });
    let send = async |method: Method, path: &str, body: Value| {
        let answer = app.client.json(method, path, &body).await.unwrap();
        (answer.status.as_u16(), answer.json())
    };
    let (status, made) = send(Method::POST, rules, rule("one")).await;
    assert_eq!(status, 200, "{made}");
    let refused = |(status, body): (u16, Value)| {
        assert_eq!((status, &body["code"]), (409, &json!("conflict")), "{body}");
        assert_eq!(body["details"]["reason"], "name_conflict", "{body}");
        assert_eq!(body["details"]["field"], "name", "{body}");
    };
    refused(send(Method::POST, rules, rule("one")).await);
    let (status, other) = send(Method::POST, rules, rule("other")).await;
    assert_eq!(status, 200, "{other}");
    let path = format!("{rules}/{}", other["id"].as_str().unwrap());
    refused(send(Method::PATCH, &path, json!({ "name": "one" })).await);
    let sampled = json!({ "name": "one", "sampling": 0.5, "target": "trace" });
    assert_eq!(send(Method::PATCH, &path, sampled).await.0, 200);
}
