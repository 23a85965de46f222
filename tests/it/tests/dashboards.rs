//! Widgets, dashboards and their grids.

use axum::http::Method;
use perpend_it::{TestApp, count};
use serde_json::{Value, json};

const WIDGETS: &str = "/api/public/unstable/dashboard-widgets";
const DASHBOARDS: &str = "/api/public/unstable/dashboards";

async fn call(
    app: &TestApp,
    method: Method,
    path: &str,
    body: Value,
) -> anyhow::Result<(u16, Value)> {
    let answer = app.client.json(method, path, &body).await?;
    Ok((answer.status.as_u16(), answer.json()))
}

async fn post(app: &TestApp, path: &str, body: Value) -> anyhow::Result<Value> {
    let (status, body) = call(app, Method::POST, path, body).await?;
    anyhow::ensure!(status == 200, "{path}: {status} {body}");
    Ok(body)
}

fn cost_by_model() -> Value {
    json!({
        "name": "Cost by model",
        "view": "observations",
        "dimensions": [{ "field": "providedModelName" }],
        "metrics": [{ "measure": "totalCost", "agg": "sum" }],
        "filters": [{ "type": "stringOptions", "column": "environment", "operator": "any of", "value": ["production"] }],
        "chartType": "HORIZONTAL_BAR",
        "chartConfig": { "row_limit": 20, "show_value_labels": null },
    })
}

/// With other members.
fn but(mut body: Value, more: Value) -> Value {
    if let (Value::Object(body), Value::Object(more)) = (&mut body, more) {
        body.extend(more);
    }
    body
}

#[tokio::test]
async fn a_widget_is_made_read_changed_and_deleted() -> anyhow::Result<()> {
    let app = TestApp::new().await?;
    let made = post(&app, WIDGETS, cost_by_model()).await?;
    let path = format!("{WIDGETS}/{}", made["id"].as_str().unwrap_or_default());
    assert_eq!(made["description"], "");
    assert_eq!(made["chartConfig"], json!({ "type": "HORIZONTAL_BAR", "row_limit": 20 }));
    assert_eq!(app.client.get(&path).await?.json(), made);
    let list = app.client.get(WIDGETS).await?.json();
    assert_eq!(list["data"], json!([made]));
    assert_eq!(list["meta"], json!({ "page": 1, "limit": 50, "totalItems": 1, "totalPages": 1 }));

    // Another type without particulars begins with the plain ones; null changes nothing.
    let change = json!({ "chartType": "PIE", "name": "Share", "description": null });
    let (status, changed) = call(&app, Method::PATCH, &path, change).await?;
    assert_eq!((status, &changed["name"]), (200, &json!("Share")));
    assert_eq!(changed["chartConfig"], json!({ "type": "PIE" }));
    assert_eq!(changed["metrics"], made["metrics"]);
    let (status, _) = call(&app, Method::PATCH, &path, json!({})).await?;
    assert_eq!(status, 400, "a change has to change something");

    let (status, deleted) = call(&app, Method::DELETE, &path, Value::Null).await?;
    assert_eq!((status, deleted["message"].is_string()), (200, true));
    for method in [Method::GET, Method::DELETE] {
        let (status, body) = call(&app, method, &path, json!({})).await?;
        assert_eq!((status, &body["code"]), (404, &json!("resource_not_found")));
    }
    app.stop().await
}

#[tokio::test]
async fn a_widget_with_an_unsupported_query_is_refused_with_its_field() -> anyhow::Result<()> {
    let app = TestApp::new().await?;
    let metric =
        |measure: &str, agg: &str| json!({ "metrics": [{ "measure": measure, "agg": agg }] });
    let config = |config: Value| json!({ "chartConfig": config });
    for (more, field) in [
        (json!({ "name": " " }), "name"),
        (json!({ "name": null }), "name"),
        (json!({ "view": "traces" }), "view"),
        (json!({ "view": "scores-numeric" }), "dimensions[0].field"),
        (json!({ "dimensions": [{ "field": "model" }] }), "dimensions[0].field"),
        (metric("tokens", "sum"), "metrics[0].measure"),
        (metric("totalCost", "median"), "metrics[0].agg"),
        (metric("uniqueUserIds", "sum"), "metrics[0].agg"),
        (metric("costByType", "sum"), "metrics[0].measure"),
        (json!({ "metrics": [] }), "metrics"),
        (
            json!({ "filters": [{ "type": "string", "column": "nothing", "operator": "=", "value": "x" }] }),
            "filters[0].column",
        ),
        (json!({ "chartType": "DONUT" }), "chartType"),
        (config(json!({ "type": "PIE" })), "chartConfig.type"),
        (config(json!({ "row_limit": 0 })), "chartConfig.row_limit"),
        (config(json!({ "bins": 101 })), "chartConfig.bins"),
        (
            config(json!({ "defaultSort": { "column": "", "order": "ASC" } })),
            "chartConfig.defaultSort.column",
        ),
    ] {
        let (status, body) =
            call(&app, Method::POST, WIDGETS, but(cost_by_model(), more.clone())).await?;
        assert_eq!(status, 400, "{more}: {body}");
        let text = body.to_string().replace("\",\"", ".");
        assert!(text.contains(field), "{more} should name {field}: {body}");
    }
    // A change is validated together with the unchanged members.
    let made = post(&app, WIDGETS, cost_by_model()).await?;
    let path = format!("{WIDGETS}/{}", made["id"].as_str().unwrap_or_default());
    let (status, body) =
        call(&app, Method::PATCH, &path, json!({ "view": "scores-boolean" })).await?;
    assert_eq!(status, 400, "{body}");
    assert_eq!(app.client.get(&path).await?.json(), made);
    app.stop().await
}

#[tokio::test]
async fn tiles_stand_on_a_grid_of_twelve_columns() -> anyhow::Result<()> {
    let app = TestApp::new().await?;
    let widget = post(&app, WIDGETS, cost_by_model()).await?;
    let widget_id = widget["id"].clone();
    let board = post(&app, DASHBOARDS, json!({ "name": "Overview" })).await?;
    assert_eq!(board["definition"], json!({ "widgets": [] }));
    let board = format!("{DASHBOARDS}/{}", board["id"].as_str().unwrap_or_default());
    let tiles = format!("{board}/placements");
    let shows = json!({ "type": "widget", "widgetId": widget_id });
    let first = post(&app, &tiles, shows.clone()).await?;
    let position = |tile: &Value| json!([tile["x"], tile["y"], tile["width"], tile["height"]]);
    assert_eq!(position(&first), json!([0, 0, 6, 6]));
    let preset = json!({ "type": "preset", "id": "p", "presetId": "latency", "x": 6, "height": 2 });
    let second = post(&app, &tiles, preset).await?;
    assert_eq!(
        second,
        json!({ "type": "preset", "id": "p", "presetId": "latency", "x": 6, "y": 6, "width": 6, "height": 2 })
    );
    assert_eq!(position(&post(&app, &tiles, shows.clone()).await?), json!([0, 8, 6, 6]));

    for (more, status, named) in [
        (json!({ "id": "p" }), 409, "this id"),
        (json!({ "widgetId": "nothing" }), 404, "dashboard widget"),
        (json!({ "widgetId": null }), 400, "widgetId"),
        (json!({ "type": "note" }), 400, "type"),
        (json!({ "x": 12 }), 400, "x"),
        (json!({ "x": 7 }), 400, "width"),
        (json!({ "width": 0 }), 400, "width"),
        (json!({ "y": -1 }), 400, "y"),
        (json!({ "y": 0.5 }), 400, "y"),
        (json!({ "height": i64::MAX }), 400, "height"),
        (json!({ "id": "" }), 400, "id"),
    ] {
        let (found, body) =
            call(&app, Method::POST, &tiles, but(shows.clone(), more.clone())).await?;
        assert_eq!(found, status, "{more}: {body}");
        assert!(body["message"].as_str().unwrap_or_default().contains(named), "{more}: {body}");
    }

    let tile = format!("{tiles}/p");
    let (status, moved) = call(&app, Method::PATCH, &tile, json!({ "x": 0, "width": 12 })).await?;
    assert_eq!((status, position(&moved)), (200, json!([0, 6, 12, 2])));
    for body in [json!({}), json!({ "x": 1 })] {
        let (status, answer) = call(&app, Method::PATCH, &tile, body).await?;
        assert_eq!(status, 400, "{answer}");
    }
    let widget = format!("{WIDGETS}/{}", widget_id.as_str().unwrap_or_default());
    let (status, body) = call(&app, Method::DELETE, &widget, Value::Null).await?;
    assert_eq!((status, &body["code"]), (409, &json!("conflict")), "{body}");
    let (status, _) = call(&app, Method::DELETE, &tile, Value::Null).await?;
    assert_eq!(status, 200);
    let (status, _) = call(&app, Method::DELETE, &tile, Value::Null).await?;
    assert_eq!(status, 404);
    let left = app.client.get(&board).await?.json();
    assert_eq!(left["definition"]["widgets"].as_array().map(Vec::len), Some(2));
    let (status, _) = call(&app, Method::DELETE, &board, Value::Null).await?;
    assert_eq!(status, 200);
    let (status, _) = call(&app, Method::DELETE, &widget, Value::Null).await?;
    assert_eq!(status, 200, "nothing shows it any more");
    app.stop().await
}

#[tokio::test]
async fn a_dashboard_is_changed_in_parts_and_its_lists_whole() -> anyhow::Result<()> {
    let app = TestApp::new().await?;
    let tile = |id: &str| json!({ "type": "preset", "id": id, "presetId": "cost", "x": 0, "y": 0, "width": 6, "height": 6 });
    let filter = json!({ "type": "datetime", "column": "startTime", "operator": ">", "value": "2026-01-01T00:00:00Z" });
    let body = json!({ "name": "Team", "description": "ours", "definition": { "widgets": [tile("a"), tile("b")] }, "filters": [filter] });
    let made = post(&app, DASHBOARDS, body).await?;
    let path = format!("{DASHBOARDS}/{}", made["id"].as_str().unwrap_or_default());
    assert_eq!(made["definition"], json!({ "widgets": [tile("a"), tile("b")] }));
    assert_eq!(app.client.get(&path).await?.json(), made);
    let change =
        json!({ "name": "Everybody", "definition": { "widgets": [tile("c")] }, "filters": null });
    let (status, changed) = call(&app, Method::PATCH, &path, change).await?;
    assert_eq!(
        (status, &changed["name"], &changed["description"]),
        (200, &json!("Everybody"), &json!("ours"))
    );
    assert_eq!(changed["definition"], json!({ "widgets": [tile("c")] }));
    assert_eq!(changed["filters"], made["filters"]);
    for (bad, named) in [
        (json!({}), "at least one"),
        (json!({ "name": "" }), "name"),
        (json!({ "definition": {} }), "definition"),
        (
            json!({ "definition": { "widgets": [tile("a"), tile("a")] } }),
            "definition.widgets[1].id",
        ),
        (
            json!({ "filters": [{ "type": "string", "column": "nothing", "operator": "=", "value": "" }] }),
            "filters[0].column",
        ),
    ] {
        let (status, body) = call(&app, Method::PATCH, &path, bad.clone()).await?;
        assert_eq!(status, 400, "{bad}: {body}");
        assert!(body["message"].as_str().unwrap_or_default().contains(named), "{bad}: {body}");
    }
    assert_eq!(app.client.get(&path).await?.json(), changed);
    let other = app.other_project().await?;
    assert_eq!(other.get(&path).await?.status, 404);
    assert_eq!(count(&other.get(DASHBOARDS).await?.json()), 0);
    app.stop().await
}
