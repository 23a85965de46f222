//! Each page that there is, and where it is on this server.

use anyhow::{Context, Result};
use perpend_browser::{Browser, Visitor};
use serde_json::{Value, json};

/// A page: its name in messages and pictures, and its path.
pub(crate) type Page = (&'static str, String);

/// The path that an expression gives, such as the `pathname` of a link.
pub(crate) async fn path_of(visitor: &Visitor, expression: &str) -> Result<String> {
    let found = visitor.browser.eval(expression).await?;
    let path = found.as_str().context("no path")?;
    Ok(path.to_owned())
}

/// The path of the project of the session.
pub(crate) async fn base(visitor: &Visitor) -> Result<String> {
    let link = "new URL(document.querySelector('.rail a').href).pathname";
    path_of(visitor, link).await
}

/// Opens it and expands the first few collapsed elements: the others have the same templates. Of many similar elements a
/// few are kept.
pub(crate) async fn open(visitor: &Visitor, (name, path): &Page) -> Result<()> {
    visitor.open(path).await?;
    let browser = &visitor.browser;
    if name.starts_with("reference") {
        let drop = |all: &str, n: usize| {
            format!(
                "Array.from(document.querySelectorAll('{all}')).slice({n}).forEach((one) => one.remove())"
            )
        };
        browser.eval(&drop(".group:has(.bare)", 4)).await?;
        browser.eval(&drop(".operation:has(.facts)", 12)).await?;
        let open =
            "document.querySelectorAll('.operation').forEach((one, at) => { one.open = at < 3; })";
        browser.eval(open).await?;
    }
    if ["traces", "chosen-columns", "overview"].contains(name) {
        let open = "document.querySelectorAll('main details:not(.values)').forEach((one) => { one.open = true; }); \
            Array.from(document.querySelectorAll('.values')).slice(0, 3).forEach((one) => { one.open = true; })";
        browser.eval(open).await?;
    }
    if *name == "suggestions" {
        browser.press("/name:").await?;
        let is_open = "!document.getElementById('suggestions').hidden";
        browser.wait_for(is_open).await?;
    }
    // Parts that are loaded when they are visible, one after the other.
    let missing = "Array.from(document.querySelectorAll('[data-later]'))
        .find((place) => place.dataset.later !== '' && place.checkVisibility())";
    while browser.eval(&format!("{missing} !== undefined")).await? == Value::Bool(true) {
        browser.eval(&format!("void (window.next = {missing})?.scrollIntoView()")).await?;
        browser.wait_for("window.next === undefined || window.next.dataset.later === ''").await?;
    }
    browser.eval("scrollTo(0, 0)").await?;
    Ok(())
}

/// Removes rows that have the same elements as `n` rows before them.
pub(crate) async fn drop_alike(browser: &Browser, rows: &str, n: usize) -> Result<()> {
    let drop = format!(
        "(() => {{ const seen = {{}}; \
         document.querySelectorAll('{rows}').forEach((row) => {{ \
             const parts = [row, ...row.querySelectorAll('*')].map((one) => `${{one.tagName}}.${{one.getAttribute('class')}}`); \
             const shape = [...new Set(parts)].sort().join(); \
             seen[shape] = (seen[shape] ?? 0) + 1; \
             if (seen[shape] > {n}) row.remove(); \
         }}); }})()"
    );
    browser.eval(&drop).await.map(std::mem::drop)
}

/// The pages of the demonstration, for a visitor who is logged in.
pub(crate) async fn of_demo(visitor: &Visitor) -> Result<Vec<Page>> {
    let base = base(visitor).await?;
    let first =
        "(({ pathname }) => pathname)(new URL(document.querySelector('.traces .name').href))";
    visitor.open(&format!("{base}/traces?q=name%3A%22support+ticket%22")).await?;
    let ticket = path_of(visitor, first).await?;
    let second =
        first.replace("querySelector('.traces .name')", "querySelectorAll('.traces .name')[1]");
    let other = path_of(visitor, &second).await?;
    visitor.open(&ticket).await?;
    let scored = "document.querySelector('.window .row .tag.score').closest('.row').dataset.step";
    let scored = path_of(visitor, scored).await?;
    let [id, other] = [&ticket, &other].map(|path| path.rsplit('/').next().unwrap_or_default());
    let of_agent = format!("{base}/traces?q=name%3A%22compare+suppliers%22");
    visitor.open(&of_agent).await?;
    let agent = path_of(visitor, first).await?;
    let mut pages = of_lists(&base);
    pages.extend(of_traces(&base, (&ticket, &agent), (id, other), &scored));
    pages.extend(of_experiments(visitor, &base).await?);
    for (name, list) in [
        ("connection", "/settings/connections"),
        ("plugin", "/plugins"),
        ("backfill", "/backfills"),
        ("backtest", "/backtests"),
        ("evaluator", "/evaluators"),
    ] {
        visitor.open(&format!("{base}{list}")).await?;
        let first = first.replace(".traces .name", "main [data-rows] .name");
        let path = path_of(visitor, &first).await?;
        if name == "evaluator" {
            pages.push(("try-evaluator", format!("{path}/try")));
        }
        pages.push((name, path));
    }
    Ok(pages)
}

/// The pages of the experiments of the demonstration: the newest run, compared with the oldest.
async fn of_experiments(visitor: &Visitor, base: &str) -> Result<Vec<Page>> {
    let list = format!("{base}/experiments");
    visitor.open(&list).await?;
    let address = "(({ pathname, search }) => pathname + search)";
    let run =
        path_of(visitor, &format!("{address}(document.querySelector('.runs .name'))")).await?;
    let ids = "Array.from(document.querySelectorAll('.choose input'), (box) => box.value)";
    let newest = path_of(visitor, &format!("{ids}.at(0)")).await?;
    let oldest = path_of(visitor, &format!("{ids}.at(-1)")).await?;
    let comparison = format!("{list}/compare?runs={oldest},{newest}");
    visitor.open(&comparison).await?;
    let item = format!("{address}(document.querySelector('.item-outputs .name'))");
    let item = path_of(visitor, &item).await?;
    Ok(vec![
        ("experiments", list.clone()),
        ("run", run.clone()),
        ("gate", format!("{run}/gate")),
        ("delete-run", format!("{run}/delete")),
        ("compare-runs", comparison),
        ("compare-segments", format!("{list}/compare?runs={oldest},{newest}&segment=language")),
        ("choose-runs", format!("{list}/compare")),
        ("item-of-runs", item),
    ])
}

/// Those that name no trace.
fn of_lists(base: &str) -> Vec<Page> {
    let one_word = "a".repeat(300);
    let own = [
        ("overview", ""),
        ("traces", "/traces"),
        ("suggestions", "/traces"),
        ("no-trace", "/traces?q=userId%3Anobody-at-all"),
        ("nothing-fits", "/traces?q=level%3AERROR&env=nowhere&from=-1h"),
        ("bad-filter", "/traces?q=latncy%3A%3E2+level%3AERROR"),
        ("observations", "/observations"),
        ("observations-without-match", "/observations?q=level%3AERROR&to=2020-01-01"),
        ("sessions", "/sessions"),
        ("session", "/sessions/chat-noor"),
        ("users", "/users"),
        ("user", "/users/noor"),
        ("rules", "/rules"),
        ("new-rule", "/rules/new?target=trace&q=level%3AERROR"),
        ("run-rule", "/rule-runs?trace=none&in=%2Ftraces"),
        ("evaluators", "/evaluators"),
        ("new-evaluator", "/evaluators/new"),
        ("new-evaluator-of-code", "/evaluators/new/code?language=PYTHON"),
        (
            "new-evaluator-of-plugin",
            "/evaluators/new/plugin?plugin=perpend%2Ftext&function=exact-match",
        ),
        ("new-judge", "/evaluators/new/judge?preset=faithfulness-simple"),
        ("backfills", "/backfills"),
        ("backtests", "/backtests"),
        ("executions", "/executions"),
        ("scores", "/scores"),
        ("score-analytics", "/scores/analytics"),
        ("score-distribution", "/scores/analytics?a=no+refusal"),
        ("score-thresholds", "/scores/thresholds?name=no+refusal"),
        ("connections", "/settings/connections"),
        ("new-connection", "/settings/connections/new"),
        ("keys", "/settings/keys"),
        ("plugins", "/plugins"),
        ("new-plugin", "/plugins/new"),
        ("values", "/traces?facets=1"),
        ("chosen-columns", "/traces?cols=trace&cols=score.no+refusal&cols=tags&n=25"),
        ("search", "/search?q=support"),
        ("search-one-word", &format!("/search?q={one_word}")),
        ("not-found", "/traces/none"),
    ]
    .map(|(name, path)| (name, format!("{base}{path}")));
    let others = [
        ("preferences", "/preferences"),
        ("instance", "/instance"),
        ("reference", "/api/reference"),
        ("reference-group", "/api/reference/scores"),
    ]
    .map(|(name, path)| (name, path.to_owned()));
    own.into_iter().chain(others).collect()
}

/// Those of a support ticket, which is compared with another one, and of an agent's trace.
fn of_traces(
    base: &str,
    (ticket, agent): (&str, &str),
    (id, other): (&str, &str),
    scored: &str,
) -> Vec<Page> {
    let value = format!("{base}/value?trace={id}");
    let of_input = format!("{value}&observation={scored}&part=input");
    vec![
        ("trace", ticket.to_owned()),
        ("step", format!("{ticket}?observation={scored}")),
        (
            "forms",
            format!("{ticket}?observation={scored}&as.input=tree&as.output=raw&as.metadata=text"),
        ),
        ("value", format!("{of_input}&as=tree")),
        ("places", format!("{of_input}&find=a")),
        ("value", format!("{value}&part=metadata&as=tree")),
        ("large-trace", agent.to_owned()),
        ("find", format!("{agent}/find?q=supplier+18")),
        ("peek", format!("{base}/traces?peek={id}")),
        ("compare", format!("{base}/traces/compare?a={id}&b={other}&equal=show")),
        ("choose-two", format!("{base}/traces/compare?a={id}")),
        ("timeline", format!("{agent}?v=time")),
        ("thread", format!("{agent}?v=thread")),
        ("log", format!("{agent}?v=log")),
    ]
}

/// The pages of a dataset with an item and a run, on a server of the tests.
pub(crate) async fn of_dataset(visitor: &Visitor) -> Result<Vec<Page>> {
    let server = &visitor.server;
    let dataset = json!({ "name": "questions", "description": "What people ask" });
    let dataset = server.post("/api/public/v2/datasets", &dataset).await?;
    let item = json!({ "datasetName": "questions", "input": "Where is it?" });
    let item = server.post("/api/public/dataset-items", &item).await?;
    let run = json!({
        "runName": "first", "datasetItemId": item["id"], "traceId": "0123456789abcdef0123456789abcdef",
    });
    let run = server.post("/api/public/dataset-run-items", &run).await?;
    let base = base(visitor).await?;
    let id = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let dataset = format!("{base}/datasets/{}", id(&dataset["id"]));
    let experiments = format!("{base}/experiments");
    let run = format!("{experiments}/{}", id(&run["datasetRunId"]));
    let new = format!("{experiments}/new");
    let item = format!("{dataset}/items/{}", id(&item["id"]));
    Ok(vec![
        ("datasets", format!("{base}/datasets")),
        ("dataset-schemas", format!("{dataset}?tab=schemas")),
        ("dataset-versions", format!("{dataset}?tab=versions")),
        ("dataset-use", format!("{dataset}?tab=use")),
        ("dataset-edit", format!("{dataset}/edit")),
        ("dataset-import", format!("{dataset}/import")),
        ("new-item", format!("{dataset}/new-item")),
        ("item", item),
        ("dataset", dataset),
        ("experiments", experiments),
        ("run", run),
        ("new-experiment", new),
    ])
}
