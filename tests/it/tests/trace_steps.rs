//! The steps of a trace over the REST API: in reading order, and those that contain a text.

use anyhow::Context as _;
use perpend_it::{TestApp, Trace, trace_id};
use serde_json::{Value, json};

/// A root with so many generations, of which the first 250 contain the text.
fn trace_of_answers(n: u32) -> Trace {
    (0..n).fold(Trace::new(1, "ticket"), |trace, n| {
        let text = if n < 250 { "Say \"ÄPFEL\"" } else { "No." };
        trace.generation(&format!("answer {n}"), text)
    })
}

async fn ingest(app: &TestApp) -> anyhow::Result<()> {
    app.ingest(&trace_of_answers(300)).await
}

fn path(rest: &str) -> String {
    format!("/api/v1/traces/{}/{rest}", trace_id(1))
}

async fn get(app: &TestApp, rest: &str) -> anyhow::Result<Value> {
    let answer = app.client.get(&path(rest)).await?;
    anyhow::ensure!(answer.status == 200, "{rest}: {}", answer.text());
    Ok(answer.json())
}

fn texts<'v>(part: &'v Value, member: &str) -> anyhow::Result<Vec<&'v str>> {
    let rows = part["data"].as_array().context("no data")?;
    let texts = rows.iter().map(|row| row[member].as_str());
    texts.map(|text| text.context("no text")).collect()
}

#[tokio::test]
async fn a_search_over_the_api_continues_after_each_part_without_repeats() -> anyhow::Result<()> {
    let app = TestApp::new().await?;
    ingest(&app).await?;
    let find = "find?text=say+%22%C3%A4pfel%22";
    let mut part = get(&app, find).await?;
    assert_eq!(part["meta"]["searched"], 101, "{part}");
    assert_eq!(part["meta"]["total"], 301, "{part}");
    let first = json!({
        "observationId": Trace::span_id(2), "type": "GENERATION", "name": "answer 0",
        "startTime": part["data"][0]["startTime"],
        "places": [{ "part": "output", "before": "", "found": "Say \"ÄPFEL\"", "behind": "", "count": 1 }],
    });
    assert_eq!(part["data"][0], first);
    let mut names = Vec::new();
    loop {
        names.extend(texts(&part, "name")?.into_iter().map(str::to_owned));
        let Some(after) = part["meta"]["after"].as_str() else {
            break;
        };
        part = get(&app, &format!("{find}&after={after}")).await?;
    }
    assert_eq!(part["meta"]["searched"], 301, "{part}");
    let all: Vec<String> = (0..250).map(|n| format!("answer {n}")).collect();
    assert_eq!(names, all);

    let of_trace = get(&app, &format!("find?text={}", trace_id(1))).await?;
    assert_eq!(of_trace["data"][0]["observationId"], Value::Null);
    assert_eq!(of_trace["data"][0]["places"][0]["part"], "id");
    let too_long = format!("find?text={}", "a".repeat(1_001));
    for wrong in ["find", "find?text=", too_long.as_str(), "find?text=a&after=b"] {
        let answer = app.client.get(&path(wrong)).await?;
        assert_eq!(answer.status, 400, "{wrong}: {}", answer.text());
    }
    let other = format!("/api/v1/traces/{}/find?text=a", trace_id(2));
    assert_eq!(app.client.get(&other).await?.status, 404);
    app.stop().await
}

#[tokio::test]
async fn the_outline_of_a_trace_is_read_in_windows_of_rows_in_reading_order() -> anyhow::Result<()>
{
    let app = TestApp::new().await?;
    ingest(&app).await?;
    let window = get(&app, "outline?n=2").await?;
    assert_eq!(window["meta"], json!({ "at": 0, "total": 301 }));
    let [root, answer] = [&window["data"][0], &window["data"][1]];
    assert_eq!(root["id"], json!(Trace::span_id(1)));
    assert_eq!(root["parentObservationId"], Value::Null);
    assert_eq!((&root["depth"], &root["descendants"]), (&json!(0), &json!(300)));
    assert_eq!(answer["parentObservationId"], root["id"]);
    assert_eq!((&answer["depth"], &answer["descendants"]), (&json!(1), &json!(0)));
    assert_eq!((&answer["type"], &answer["name"]), (&json!("GENERATION"), &json!("answer 0")));
    // An unknown value is not zero.
    assert_eq!((&answer["totalTokens"], &answer["totalCost"]), (&Value::Null, &Value::Null));
    let mut ids = Vec::new();
    for at in [0, 150, 300, 450] {
        let window = get(&app, &format!("outline?at={at}&n=150")).await?;
        ids.extend(texts(&window, "id")?.into_iter().map(str::to_owned));
    }
    let all: Vec<String> = (1..=301).map(Trace::span_id).collect();
    assert_eq!(ids, all);
    for wrong in ["outline?n=0", "outline?n=1001", "outline?at=-1"] {
        assert_eq!(app.client.get(&path(wrong)).await?.status, 400, "{wrong}");
    }
    // The cache holds only the newest state of a trace.
    app.ingest(&trace_of_answers(301)).await?;
    let window = get(&app, "outline?at=301").await?;
    assert_eq!(window["meta"], json!({ "at": 301, "total": 302 }));
    assert_eq!(window["data"][0]["name"], json!("answer 300"));
    let other = format!("/api/v1/traces/{}/outline", trace_id(2));
    assert_eq!(app.client.get(&other).await?.status, 404);
    app.stop().await
}
