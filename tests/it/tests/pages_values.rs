//! Values on pages, over HTTP: formats, windows, nodes, content, and access.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use axum::http::Method;
use axum::http::header::CONTENT_DISPOSITION;
use perpend_domain::mapping::{JsonPath, MappingBudget, extract, open};
use perpend_it::{OTLP, TestApp, Trace};
use perpend_views::encode;
use serde_json::{Value, json};

use crate::pages::Visitor;

/// The address of the input of the first step, with these parameters behind.
fn value(trace: &str, more: &str) -> String {
    format!("/value?trace={trace}&observation={}&part=input{more}", Trace::span_id(1))
}

async fn recorded(app: &TestApp, n: u64, input: &str) -> String {
    let trace = Trace::new(n, "values")
        .attribute("perpend.observation.input", input)
        .attribute("perpend.observation.output", "**bold** & done");
    app.ingest(&trace).await.unwrap();
    trace.id
}

#[tokio::test]
async fn a_value_has_forms_that_links_choose_and_keep() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    let inner = json!({ "city": "Oslo" }).to_string();
    let input = json!({ "a": [1, { "b": "two" }], "arguments": inner }).to_string();
    let trace = recorded(&app, 7, &input).await;
    let step = format!("/traces/{trace}?observation={}", Trace::span_id(1));
    let page = visitor.page(&step).await;
    assert!(page.contains("class=\"tree\""), "{page}");
    assert!(page.contains("<strong>bold</strong> &amp; done"), "{page}");
    assert!(page.contains(">parsed<"), "{page}");
    let raw = visitor.page(&format!("{step}&as.input=raw&as.output=raw")).await;
    // The metadata keep theirs.
    let n_trees = |html: &str| html.matches("class=\"tree\"").count();
    assert_eq!(n_trees(&raw) + 1, n_trees(&page), "{raw}");
    assert!(raw.contains("**bold** &amp; done"), "{raw}");
    // The other links of the page keep them.
    let kept = raw.matches("as.input=raw").count();
    assert!(10 < kept, "{kept} links: {raw}");
    let text = visitor.page(&format!("{step}&as.input=text")).await;
    assert!(text.contains("<span class=\"jk\">&quot;a&quot;</span>"), "{text}");
    let unknown = visitor.page(&format!("{step}&as.input=cloud")).await;
    assert!(unknown.contains("one of conversation, text, tree, raw"), "{unknown}");
    app.stop().await.unwrap();
}

#[tokio::test]
async fn the_form_that_was_chosen_last_is_that_of_the_next_step() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    let trace = recorded(&app, 7, &json!({ "a": [1] }).to_string()).await;
    let step = format!("{}/traces/{trace}?observation={}", visitor.base, Trace::span_id(1));
    let kept = async |cookie: &str, address: &str| {
        let client = visitor.client.clone().with_header("cookie", cookie);
        let answer = client.get(address).await.unwrap();
        let set = answer.headers.get("set-cookie");
        let set = set.map(|set| set.to_str().unwrap().split(';').next().unwrap().to_owned());
        (set, answer.headers["etag"].clone(), answer.text())
    };
    let n_trees = |html: &str| html.matches("class=\"tree\"").count();
    let (none, usual_tag, usual) = kept("a=b", &step).await;
    assert_eq!(none, None);
    let (set, _, raw) = kept("a=b", &format!("{step}&as.input=raw")).await;
    assert_eq!(set.as_deref(), Some("perpend_forms=as.input=raw"));
    assert_eq!(n_trees(&raw) + 1, n_trees(&usual), "{raw}");
    // The same address is another page now, which the tag tells.
    let raw_now = "perpend_forms=as.input=raw";
    let (none, tag, again) = kept(raw_now, &step).await;
    assert_eq!((none, n_trees(&again)), (None, n_trees(&raw)));
    assert_ne!(tag, usual_tag);
    // The URL parameter wins, and is kept by links to the other formats; the fragment of the pane does the same.
    let fragment = step.replace("/traces/", "/_/traces/");
    let fragment = fragment.replace('?', "/detail?");
    for address in [&step, &fragment] {
        let (set, _, tree) = kept(raw_now, &format!("{address}&as.input=tree")).await;
        assert_eq!(set.as_deref(), Some("perpend_forms=as.input=tree"));
        assert_eq!(n_trees(&tree), n_trees(&usual), "{tree}");
        let (set, ..) = kept(raw_now, &format!("{address}&as.output=raw")).await;
        let both = "perpend_forms=as.input=raw&as.output=raw";
        assert_eq!(set.as_deref(), Some(both));
    }
    // An unsupported format, or an invalid value of the cookie, has no effect.
    let (_, _, odd) = kept("perpend_forms=as.input=conversation", &step).await;
    assert_eq!(n_trees(&odd), n_trees(&usual), "{odd}");
    let (none, _, odd) = kept("perpend_forms=as.input=<b>&x", &step).await;
    assert_eq!((none, n_trees(&odd)), (None, n_trees(&usual)));
    app.stop().await.unwrap();
}

#[tokio::test]
async fn a_node_opens_at_its_path_which_a_mapping_takes() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    let inner = json!({ "it's \"here\"": ["no", { "deep": "found" }] }).to_string();
    let input = json!({ "list": [0, { "arguments": inner }] });
    let trace = recorded(&app, 7, &input.to_string()).await;
    let path = "$['list'][1]['arguments']['it\\'s \"here\"'][1]['deep']";
    let mut budget = MappingBudget::default();
    let opened = open(input, &mut budget).unwrap();
    let mapped = extract(&opened, Some(&JsonPath::parse(path).unwrap()), &mut budget);
    assert_eq!(mapped.unwrap(), Some(json!("found")));
    let at = format!("&path={}", encode(path));
    let page = visitor.page(&value(&trace, &at)).await;
    assert!(page.contains("found</pre>") && page.contains("<html"), "{page}");
    let fragment = visitor.page(&format!("/_{}", value(&trace, &at))).await;
    assert!(fragment.contains("found</pre>") && !fragment.contains("<html"), "{fragment}");
    let raw = format!(
        "/traces/{trace}/observations/{}/raw/input?path={}",
        Trace::span_id(1),
        encode(path)
    );
    assert_eq!(visitor.page(&raw).await, "found");
    for (more, status) in
        [("&path=%24%5B%27nowhere%27%5D", 404), ("&path=list", 400), ("&path=%24..a", 400)]
    {
        let answer =
            visitor.client.get(&format!("{}{}", visitor.base, value(&trace, more))).await.unwrap();
        assert_eq!(answer.status, status, "{more}");
    }
    app.stop().await.unwrap();
}

#[tokio::test]
async fn a_large_value_comes_in_windows_is_searched_whole_and_downloaded_whole() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    let items: Vec<Value> = (0..20_000)
        .map(|n| json!({ "n": n, "text": format!("item number {n} of many, with words") }))
        .collect();
    let input = json!({ "items": items, "long": "é".repeat(100_000) }).to_string();
    let trace = recorded(&app, 7, &input).await;
    let fragment = |more: String| format!("/_{}", value(&trace, &more));
    let first = visitor.page(&value(&trace, "")).await;
    assert!(first.len() < 400_000 && first.contains("20,000 items"), "{}", first.len());
    let items = format!("&path={}", encode("$['items']"));
    let far = visitor.page(&fragment(format!("{items}&from=19900&depth=1"))).await;
    assert!(far.contains(">19999<") && !far.contains(">19899<"), "{far}");
    let long = format!("&path={}", encode("$['long']"));
    let part = visitor.page(&fragment(format!("{long}&from=65537"))).await;
    assert!(
        part.contains("64 KB of 195 KB, from byte 65,536") && part.contains("from=131072"),
        "{:.2000}",
        part
    );
    let last = visitor.page(&fragment(format!("{long}&from=196608"))).await;
    assert!(!last.contains("data-more"), "{:.2000}", last);
    let found = visitor.page(&fragment("&find=NUMBER+19876+".to_owned())).await;
    assert!(found.contains("1 match") && found.contains("$[&#39;items&#39;][19876]"), "{found}");
    let raw = format!(
        "{}/traces/{trace}/observations/{}/raw/input?download=1",
        visitor.base,
        Trace::span_id(1)
    );
    let whole = visitor.client.get(&raw).await.unwrap();
    assert_eq!(whole.text(), input);
    assert_eq!(whole.headers[CONTENT_DISPOSITION], "attachment; filename=\"input.json\"");
    app.stop().await.unwrap();
}

#[tokio::test]
async fn hostile_and_deep_values_are_inert_and_bounded() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    let script = "<script>alert(1)</script>";
    let deep = format!("{{\"{script}\":{}1{}}}", "[".repeat(10_000), "]".repeat(10_000));
    let trace = recorded(&app, 7, &deep).await;
    for form in ["conversation", "text", "tree", "raw"] {
        for page in ["", "&depth=10", "&from=9", "&from=99999999999"] {
            let html = visitor.page(&value(&trace, &format!("&as={form}{page}"))).await;
            assert!(!html.contains("<script>alert"), "{form}{page}: {html}");
            assert!(html.len() < 2_000_000, "{form}{page}: {}", html.len());
        }
    }
    let table = "| a |\n|---|\n| b |";
    let markdown =
        format!("x {script} ![x](https://evil.example/x.png) [y](javascript:alert(1))\n\n{table}");
    let trace = recorded(&app, 8, &markdown).await;
    let html = visitor.page(&value(&trace, "&as=text")).await;
    assert!(!html.contains("src=\"http") && !html.contains("href=\"javascript"), "{html}");
    assert!(html.contains("<td>b</td>") && html.contains(">image: x</a>"), "{html}");
    let message = json!([{ "role": "user", "content": markdown }]).to_string();
    let trace = recorded(&app, 9, &message).await;
    let html = visitor.page(&value(&trace, "&as=conversation")).await;
    assert!(html.contains("<td>b</td>") && !html.contains("src=\"http"), "{html}");
    app.stop().await.unwrap();
}

#[tokio::test]
async fn invalid_parameters_of_a_value_are_reported_and_the_others_apply() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    let trace = recorded(&app, 7, "{\"a\": 1}").await;
    let long = format!("path=$['{}']", "a".repeat(5_000));
    for (name, odd) in [
        ("as", "as=cloud"),
        ("from", "from=two"),
        ("n", "n=-1"),
        ("depth", "depth=1e3"),
        ("path", "path=a.b"),
        ("path", &long),
    ] {
        for part in ["", "/_"] {
            let address = format!("{}{part}{}", visitor.base, value(&trace, &format!("&{odd}")));
            let answer = visitor.client.get(&address).await.unwrap();
            let text = answer.text();
            assert_eq!(answer.status, 400, "{address}: {text}");
            assert!(text.contains(&format!("{name}: ")), "{name}: {text}");
            assert!(text.contains("class=\"rail\""), "{name}: {text}");
            assert!(text.len() < 100_000, "{name}: {}", text.len());
            // The page shows the value all the same; a part of a page is refused.
            let has_value = text.contains("class=\"tree\"");
            assert_eq!(has_value, part.is_empty(), "{name}: {text}");
        }
    }
    app.stop().await.unwrap();
}

#[tokio::test]
async fn values_of_another_project_are_not_found() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    let other = app.other_project().await.unwrap();
    let body = json!({ "id": "theirs", "name": "theirs", "input": "secret" });
    let event = json!({ "batch": [{ "id": "e", "type": "trace-create", "timestamp": "2026-01-01T00:00:00Z", "body": body }] });
    let sent = other.json(Method::POST, "/api/public/ingestion", &event).await.unwrap();
    assert!(sent.status.is_success(), "{}", sent.text());
    for part in ["/value", "/_/value"] {
        let theirs = visitor
            .client
            .get(&format!("{}{part}?trace=theirs&part=input", visitor.base))
            .await
            .unwrap();
        let none = visitor
            .client
            .get(&format!("{}{part}?trace=nobodys&part=input", visitor.base))
            .await
            .unwrap();
        assert_eq!((theirs.status.as_u16(), none.status.as_u16()), (404, 404));
        assert_eq!(theirs.text(), none.text());
    }
    app.stop().await.unwrap();
}

#[tokio::test]
async fn a_picture_in_an_attribute_of_an_event_is_shown_and_served() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    let image = format!("data:image/png;base64,iVBORw0KGgo{}", "A".repeat(101));
    let trace = Trace::new(8, "looks");
    let mut request = trace.to_json();
    request["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["events"] = json!([{
        "name": "seen",
        "attributes": [{ "key": "it's", "value": { "stringValue": format!("see {image}") } }],
    }]);
    let sent = app.client.json(Method::POST, OTLP, &request).await.unwrap();
    assert_eq!(sent.status, 200, "{}", sent.text());
    let step = format!("/traces/{}?observation={}", trace.id, Trace::span_id(1));
    let page = visitor.page(&step).await;
    let (_, events) = page.split_once("<h3>Events</h3>").unwrap();
    let (_, address) = events.split_once("<img src=\"").unwrap();
    let address = address.split('"').next().unwrap();
    let answer = visitor.client.get(address).await.unwrap();
    assert_eq!(answer.status, 200, "{address}");
    assert_eq!(answer.headers["content-type"], "image/png");
    assert!(answer.body.starts_with(b"\x89PNG"), "{address}");
    app.stop().await.unwrap();
}
