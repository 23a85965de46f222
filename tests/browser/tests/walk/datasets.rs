//! Dataset items: created from a trace, edited with validation, restored, and imported from a file.

use std::fmt::Write as _;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use perpend_browser::{Shared, TestServer, Visitor};
use serde_json::{Value, json};

use crate::{data, pages};

const ROWS: &str = "document.querySelectorAll('main [data-rows] tr').length";

pub(crate) fn all(shared: &Arc<Shared>) -> Vec<Trial> {
    vec![
        shared.test(
            TestServer::Shared,
            "an_observation_that_breaks_the_schema_is_added_to_a_dataset_after_a_correction",
            adds_an_observation,
        ),
        shared.test(
            TestServer::Shared,
            "a_problem_is_at_its_place_while_an_item_is_typed_and_it_is_not_saved",
            checks_while_typing,
        ),
        shared.test(
            TestServer::Shared,
            "new_schemas_name_the_items_that_they_break_and_an_earlier_state_is_restored",
            restores,
        ),
        shared.test(
            TestServer::Shared,
            "of_a_thousand_pasted_rows_the_broken_ones_are_shown_and_the_others_imported",
            imports,
        ),
        shared.test(
            TestServer::Shared,
            "items_are_selected_by_keys_and_moved_to_a_chosen_dataset",
            moves_selected_items,
        ),
    ]
}

/// Creates a dataset whose inputs are objects with a text `q`; its id.
async fn dataset(visitor: &Visitor, name: &str) -> Result<String> {
    let schema = json!({
        "type": "object", "required": ["q"], "properties": { "q": { "type": "string" } },
    });
    let dataset = json!({ "name": name, "inputSchema": schema });
    let dataset = visitor.server.post("/api/public/v2/datasets", &dataset).await?;
    Ok(dataset["id"].as_str().context("an id")?.to_owned())
}

/// Sets a text area as typing does.
fn typing(field: &str, text: &str) -> String {
    let text = Value::from(text);
    format!(
        "void ((field) => {{ field.value = {text}; field.dispatchEvent(new Event('input', {{ bubbles: true }})); }})\
         (document.getElementById('field-{field}'))"
    )
}

async fn adds_an_observation(visitor: &Visitor) -> Result<()> {
    let Visitor { server, browser } = visitor;
    let id = dataset(visitor, "from a trace").await?;
    let trace = data::new_trace();
    let attributes = data::input_and_output("{\"q\": 1}", "\"two days\"");
    server.send(&[data::span(&trace, 1, None, "question", &attributes)]).await?;
    visitor.log_in().await?;
    visitor.open(&format!("/traces/{trace}?observation={}", data::span_id(1))).await?;
    browser.press("d").await?;
    browser.wait_for("document.getElementById('field-dataset') !== null").await?;
    let choose = format!("document.getElementById('field-dataset').value = '{id}'");
    browser.eval(&choose).await?;
    browser.click("form[method=get].card button").await?;
    browser.wait_for("document.getElementById('field-input') !== null").await?;
    let problem = "document.querySelector('#problems-input li') !== null";
    browser.expect(problem).await?;
    browser.click("button[name=act][value=save]").await?;
    browser.wait_for("document.querySelector('.problems') !== null").await?;
    browser.expect(problem).await?;
    let items = format!("/api/public/dataset-items?datasetName={}", "from%20a%20trace");
    ensure!(server.get(&items).await?["meta"]["totalItems"] == 0, "an invalid item is stored");
    browser.eval(&typing("input", "{\"q\": \"one\"}")).await?;
    browser.click("button[name=act][value=save]").await?;
    browser.wait_for("location.pathname.includes('/items/')").await?;
    let source = format!("document.querySelector('.actions a').href.includes('{trace}')");
    browser.expect(&source).await?;
    // The refused form is an error for the console.
    browser.console().await.map(drop)
}

async fn checks_while_typing(visitor: &Visitor) -> Result<()> {
    let Visitor { server, browser } = visitor;
    let id = dataset(visitor, "typed").await?;
    let item = json!({ "datasetName": "typed", "id": "typed-item", "input": { "q": "a" } });
    server.post("/api/public/dataset-items", &item).await?;
    visitor.log_in().await?;
    visitor.open(&format!("/datasets/{id}/items/typed-item")).await?;
    browser.eval(&typing("input", "{\"q\": 5}")).await?;
    let is_marked = "document.querySelector('#field-input[aria-invalid]') !== null && document.getElementById('problems-input').innerText.includes('/q')";
    browser.wait_for(is_marked).await?;
    browser.eval("document.getElementById('field-input').focus()").await?;
    browser.chord("\u{e009}\u{e007}").await?;
    browser.wait_for("document.querySelector('.problems') !== null").await?;
    browser.expect("JSON.parse(document.getElementById('field-input').value).q === 5").await?;
    let path = "/api/public/dataset-items/typed-item";
    ensure!(server.get(path).await?["input"]["q"] == "a", "an invalid item is stored");
    browser.eval(&typing("input", "{\"q\": \"b\"}")).await?;
    let is_clear = "document.querySelector('#field-input[aria-invalid]') === null";
    browser.wait_for(is_clear).await?;
    browser.click("button[name=act][value=save]").await?;
    browser.wait_for("document.querySelector('.problems') === null").await?;
    ensure!(server.get(path).await?["input"]["q"] == "b");
    // The refused form is an error for the console.
    browser.console().await.map(drop)
}

async fn restores(visitor: &Visitor) -> Result<()> {
    let Visitor { server, browser } = visitor;
    let dataset = json!({ "name": "restored" });
    let dataset = server.post("/api/public/v2/datasets", &dataset).await?;
    let id = dataset["id"].as_str().context("an id")?;
    let item = |n: usize, input: &str| json!({ "datasetName": "restored", "id": format!("r{n}"), "input": input });
    for n in 0..3 {
        server.post("/api/public/dataset-items", &item(n, "before")).await?;
    }
    let last = server.get("/api/public/dataset-items/r2").await?;
    let then = last["version"].as_str().context("a version")?;
    server.post("/api/public/dataset-items", &item(0, "after")).await?;
    server.post("/api/public/dataset-items", &item(3, "later")).await?;
    visitor.log_in().await?;
    visitor.open(&format!("/datasets/{id}?tab=schemas")).await?;
    browser.eval(&typing("input_schema", "{\"const\": \"before\"}")).await?;
    browser.click("button[value=impact]").await?;
    browser.wait_for("document.getElementById('impact') !== null").await?;
    let impact = browser.text("#impact").await?;
    ensure!(impact.contains("2 of 4 active items"), "{impact}");
    let stored = server.get("/api/public/v2/datasets/restored").await?;
    ensure!(stored["inputSchema"].is_null(), "the schema is stored");
    visitor.open(&format!("/datasets/{id}?asof={then}")).await?;
    browser.expect(&format!("{ROWS} === 3")).await?;
    browser.click("form[action$='/restore'] button").await?;
    browser.wait_for("!location.search.includes('asof')").await?;
    browser.expect(&format!("{ROWS} === 3")).await?;
    let restored = server.get("/api/public/dataset-items/r0").await?;
    ensure!(restored["input"] == "before", "{restored}");
    let versions = server.get("/api/v1/dataset-items/r0/versions").await?;
    ensure!(versions["meta"]["totalItems"] == 3, "{versions}");
    visitor.assert_console_empty().await
}

async fn imports(visitor: &Visitor) -> Result<()> {
    let Visitor { server, browser } = visitor;
    let id = dataset(visitor, "imported").await?;
    let mut rows = String::new();
    for n in 0..1_000 {
        let input = if n % 400 == 7 { json!(n) } else { json!({ "q": format!("question {n}") }) };
        let row = json!({ "id": format!("imported-{n}"), "input": input });
        writeln!(rows, "{row}")?;
    }
    visitor.log_in().await?;
    let base = pages::base(visitor).await?;
    visitor.open(&format!("{base}/datasets/{id}/import")).await?;
    browser.eval(&typing("text", &rows)).await?;
    browser.click("form:has(#field-text) button").await?;
    browser.wait_for("document.querySelector('[name=target]') !== null").await?;
    browser.click("button[value=import]").await?;
    browser.wait_for("document.getElementById('rejected') !== null && document.querySelector('.good') !== null").await?;
    browser
        .expect("document.querySelectorAll('#rejected ~ .scroll tbody tr').length === 3")
        .await?;
    let table = browser.text("#rejected ~ .scroll").await?;
    ensure!(table.contains("8") && table.contains("/input"), "{table}");
    let download = "fetch(document.querySelector('#rejected ~ p a').href).then((file) => file.text()).then((text) => { window.file = text; })";
    browser.eval(&format!("void ({download})")).await?;
    browser.wait_for("window.file?.trim().split('\\n').length === 4").await?;
    let items = server.get("/api/public/dataset-items?datasetName=imported&limit=1").await?;
    ensure!(items["meta"]["totalItems"] == 997, "{items}");
    visitor.assert_console_empty().await
}

async fn moves_selected_items(visitor: &Visitor) -> Result<()> {
    let Visitor { server, browser } = visitor;
    let (from, to) = (dataset(visitor, "moved from").await?, dataset(visitor, "moved to").await?);
    for n in 0..3 {
        let item = json!({ "datasetName": "moved from", "id": format!("moved-{n}"), "input": { "q": "a" } });
        server.post("/api/public/dataset-items", &item).await?;
    }
    visitor.log_in().await?;
    visitor.open(&format!("/datasets/{from}")).await?;
    let n_selected =
        |n: usize| format!("document.querySelectorAll('.choose :checked').length === {n}");
    browser.expect("!document.getElementById('choice').checkVisibility()").await?;
    browser.press("jx").await?;
    browser.expect(&n_selected(1)).await?;
    browser.press("jjX").await?;
    browser.expect(&n_selected(3)).await?;
    browser.press("a").await?;
    browser.expect(&n_selected(0)).await?;
    browser.press("ax").await?;
    browser.expect(&n_selected(2)).await?;
    // Without a dataset, the browser refuses the form.
    browser.click("button[value=move]").await?;
    browser.expect(&format!("location.pathname.endsWith('{from}') && {ROWS} === 3")).await?;
    browser.eval(&format!("document.getElementById('field-to').value = '{to}'")).await?;
    browser.click("button[value=move]").await?;
    browser.wait_for(&format!("{ROWS} === 1")).await?;
    let items = server.get("/api/public/dataset-items?datasetName=moved%20to").await?;
    ensure!(items["meta"]["totalItems"] == 2, "{items}");
    visitor.assert_console_empty().await
}
