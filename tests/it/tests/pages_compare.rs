//! The comparison of two traces over HTTP, and the list that traces are chosen and opened from.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use axum::http::Method;
use perpend_it::{TestApp, Trace, trace_id};
use perpend_views::{encode, without_volatile_parts};
use serde_json::json;

use crate::pages::Visitor;

/// The comparison of two traces by their ids; `more` is the end of its address.
async fn compared(visitor: &Visitor, a: &str, b: &str, more: &str) -> String {
    let path = format!("/traces/compare?a={}&b={}{more}", encode(a), encode(b));
    visitor.page(&path).await
}

/// The displayed difference of the second trace.
fn deltas(page: &str) -> Vec<String> {
    let marked = page.split("<td class=\"num\"").skip(1);
    let marked = marked.filter_map(|cell| cell.split_once("<b>")?.1.split_once("</b>"));
    let signed = marked.map(|(delta, _)| delta.to_owned());
    signed.filter(|delta| delta.starts_with(['+', '−'])).collect()
}

/// The addresses that links with this relation lead to.
fn related(page: &str, rel: &str) -> Option<String> {
    let (_, link) = page.split_once(&format!("rel=\"{rel}\" href=\""))?;
    let (address, _) = link.split_once('"')?;
    Some(address.replace("&#38;", "&"))
}

/// Asserts that a selection of other than two rows asks for two and keeps the list.
async fn assert_two_required(visitor: &Visitor, form: &str, id: &str) {
    let base = &visitor.base;
    for (chosen, text) in [
        (String::new(), "No traces selected"),
        (format!("&trace={id}"), "1 trace selected"),
        (format!("&trace={id}&trace=x&trace=y"), "3 traces selected"),
    ] {
        let page = visitor.client.get(&format!("{form}{chosen}")).await.unwrap().text();
        assert!(page.contains("Select two traces") && page.contains(text), "{page}");
        assert!(page.contains(&format!("href=\"{base}/traces?q=x\"")), "{page}");
    }
}

#[tokio::test]
async fn two_rows_of_the_list_are_compared_by_rows_and_by_words() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    let first = Trace::new(1, "ticket")
        .generation("answer", "The parcel arrives on Monday.")
        .generation("check", "fine");
    let second = Trace::new(2, "ticket")
        .generation("answer", "The parcel arrives on <b>Friday</b>.")
        .generation("check", "fine")
        .generation("translate", "Das Paket kommt am Freitag.");
    app.ingest(&first).await.unwrap();
    app.ingest(&second).await.unwrap();

    let list = visitor.page("/traces?q=name%3Aticket").await;
    for trace in [&first, &second] {
        let chosen = format!("name=\"trace\" form=\"choice\" value=\"{}\"", trace.id);
        assert!(list.contains(&chosen), "each row can be chosen: {list}");
    }
    let base = visitor.base.clone();
    let form = format!("{base}/traces/compare?choose=1&in=%2Ftraces%3Fq%3Dx");
    let there = visitor.leads_to(&format!("{form}&trace={}&trace={}", first.id, second.id)).await;
    let wanted =
        format!("{base}/traces/compare?a={}&b={}&in=%2Ftraces%3Fq%3Dx", first.id, second.id);
    assert_eq!(there, wanted);
    assert_two_required(&visitor, &form, &first.id).await;

    let page = compared(&visitor, &first.id, &second.id, "").await;
    assert!(
        page.contains("1 changed, 1 only in B, 2 equal")
            || page.contains("2 changed, 1 only in B, 1 equal"),
        "{page}"
    );
    assert!(page.contains("only in B</span>") && page.contains("equal observation"), "{page}");
    assert!(deltas(&page).iter().any(|delta| delta == "+1"), "one observation more: {page}");
    // The outputs of one row, by words.
    let pair = format!("&pair=a.{}", Trace::span_id(2));
    let page = compared(&visitor, &first.id, &second.id, &pair).await;
    assert!(page.contains("<del>The parcel arrives on <b>Monday</b>.</del>"), "{page}");
    assert!(page.contains("<b>&#60;b&#62;Friday&#60;/b&#62;</b>"), "{page}");
    assert!(page.contains("aria-current=\"true\""), "the row is marked: {page}");
    let inline =
        compared(&visitor, &first.id, &second.id, &format!("{pair}&diff=inline&space=ignore"))
            .await;
    assert!(inline.contains("class=\"diff inline\""), "{inline}");
    let unknown = compared(&visitor, &first.id, &second.id, "&pair=a.none&diff=odd").await;
    assert!(unknown.contains("`pair` must be") && unknown.contains("`diff` must be"), "{unknown}");
    app.stop().await.unwrap();
}

#[tokio::test]
async fn equal_traces_show_no_difference_and_swapping_mirrors_every_sign() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    let trace = |number| Trace::new(number, "ticket").generation("answer", "On Monday.");
    let (one, same) = (trace(1), trace(2));
    let more = trace(3).generation("check", "fine").generation("check", "fine");
    for trace in [&one, &same, &more] {
        app.ingest(trace).await.unwrap();
    }
    for (trace, value) in [(&one, 0.25), (&same, 0.25), (&more, 0.75)] {
        let score = json!({ "name": "tone", "value": value, "traceId": trace.id });
        let made = app.client.json(Method::POST, "/api/public/scores", &score);
        assert!(made.await.unwrap().status.is_success());
    }
    for other in [&one.id, &same.id] {
        let page = compared(&visitor, &one.id, other, "").await;
        assert!(page.contains("<p class=\"same-value\">No difference</p>"), "{page}");
        assert_eq!(deltas(&page), [""; 0], "{page}");
    }
    let there = compared(&visitor, &one.id, &more.id, "").await;
    let back = compared(&visitor, &more.id, &one.id, "").await;
    let swapped =
        format!("href=\"{}/traces/compare?a={}&#38;b={}\"", visitor.base, more.id, one.id);
    assert!(there.contains(&swapped), "{there}");
    let turned = |delta: &String| match delta.strip_prefix('+') {
        Some(amount) => format!("−{amount}"),
        None => delta.replacen('−', "+", 1),
    };
    let deltas_there = deltas(&there);
    assert!(
        deltas_there.contains(&"+0.5".to_owned()) && deltas_there.contains(&"+2".to_owned()),
        "{deltas_there:?}"
    );
    assert_eq!(deltas_there.iter().map(turned).collect::<Vec<_>>(), deltas(&back));
    assert!(there.contains("only in B") && !there.contains("only in A"), "{there}");
    assert!(back.contains("only in A") && !back.contains("only in B"), "{back}");
    app.stop().await.unwrap();
}

#[tokio::test]
async fn a_missing_side_of_a_comparison_is_reported_and_the_other_is_shown() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    let own = Trace::new(1, "ticket").generation("answer", "On Monday.");
    app.ingest(&own).await.unwrap();
    let foreign = Trace::new(2, "secret").generation("theirs", "Not yours.");
    let other = app.other_project().await.unwrap();
    let body = foreign.to_json();
    let sent = other.json(Method::POST, perpend_it::OTLP, &body);
    assert_eq!(sent.await.unwrap().status, 200);
    let unknown = trace_id(9);
    let of_foreign = compared(&visitor, &own.id, &foreign.id, "").await;
    let of_unknown = compared(&visitor, &own.id, &unknown, "").await;
    let bare = |page: &str, id: &str| {
        let page = page.replace(id, "ID");
        let parts: Vec<&[u8]> = without_volatile_parts(page.as_bytes()).collect();
        String::from_utf8(parts.concat()).unwrap()
    };
    assert_eq!(bare(&of_foreign, &foreign.id), bare(&of_unknown, &unknown));
    assert!(!of_foreign.contains("secret") && !of_foreign.contains("Not yours"), "{of_foreign}");
    assert!(of_foreign.contains("B: this project has no trace with the id"), "{of_foreign}");
    assert!(
        of_foreign.contains("role=\"region\" aria-label=\"Observations")
            && of_foreign.contains(">answer<"),
        "{of_foreign}"
    );
    let pair = format!("&pair=a.{}", Trace::span_id(2));
    let of_step = compared(&visitor, &own.id, &unknown, &pair).await;
    assert!(of_step.contains("On Monday.") && of_step.contains("Recorded only in A"), "{of_step}");
    let neither = compared(&visitor, "no\u{1}id", "", "").await;
    assert!(neither.contains("Select two traces"), "{neither}");
    let neither = compared(&visitor, "no\u{1}id", "none", "").await;
    assert!(
        neither.contains("A: this project has no trace")
            && neither.contains("B: this project has no trace"),
        "{neither}"
    );
    app.stop().await.unwrap();
}

#[tokio::test]
async fn a_trace_whose_id_is_the_name_of_the_page_is_opened_all_the_same() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    assert!(visitor.page("/traces/compare").await.contains("Select two traces"));
    let event = json!({ "batch": [{
        "id": "e1", "type": "trace-create", "timestamp": "2026-03-01T10:00:00Z",
        "body": { "id": "compare", "name": "odd one", "timestamp": "2026-03-01T10:00:00Z", "output": "here" },
    }] });
    let sent = app.client.json(Method::POST, "/api/public/ingestion", &event);
    assert!(sent.await.unwrap().status.is_success());
    let page = visitor.page("/traces/compare").await;
    assert!(
        page.contains("<h1><bdi>odd one</bdi></h1>") && page.contains("role=\"treegrid\""),
        "{page}"
    );
    let page = compared(&visitor, "compare", "compare", "").await;
    assert!(page.contains("No difference"), "{page}");
    app.stop().await.unwrap();
}

#[tokio::test]
async fn a_trace_opened_from_a_list_leads_to_its_neighbours_over_the_ends_of_pages() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    for number in 0..30 {
        app.ingest(&Trace::new(number, "walk")).await.unwrap();
    }
    let list = visitor.page("/traces?q=name%3Awalk&n=25").await;
    let open = "<a class=\"name\" href=\"";
    let links = list.split(open).skip(1).filter_map(|link| link.split_once('"'));
    let links: Vec<String> = links.map(|(href, _)| href.replace("&#38;", "&")).collect();
    assert_eq!(links.len(), 25);
    let within = |address: &str| {
        let (path, query) = address.split_once("?in=").unwrap();
        (path.to_owned(), query.to_owned())
    };
    assert_eq!(within(&links[0]).1, "%2Ftraces%3Fq%3Dname%253Awalk%26n%3D25");
    let page = |address: String| {
        let visitor = &visitor;
        async move {
            let answer = visitor.client.get(&address).await.unwrap();
            assert_eq!(answer.status, 200, "{address}");
            answer.text()
        }
    };
    let first = page(links[0].clone()).await;
    assert_eq!(related(&first, "prev"), None, "{first}");
    assert_eq!(related(&first, "next").as_deref(), Some(links[1].as_str()));
    // Every link within the trace keeps the list.
    assert!(first.contains("&amp;in=") || first.contains("&#38;in="), "{first}");
    let last = page(links[24].clone()).await;
    assert_eq!(related(&last, "prev").as_deref(), Some(links[23].as_str()));
    let over = related(&last, "next").unwrap();
    assert_eq!(within(&over).1, within(&links[24]).1, "the list is the same");
    let behind = page(over).await;
    let back = related(&behind, "prev").unwrap();
    assert_eq!(within(&back).0, within(&links[24]).0);
    // An address that is no list of this project leads nowhere.
    let (path, _) = within(&links[3]);
    let odd = page(format!("{path}?in=https%3A%2F%2Fa.example")).await;
    assert!(!odd.contains("href=\"https://a.example") && related(&odd, "next").is_none(), "{odd}");
    app.stop().await.unwrap();
}

#[tokio::test]
async fn values_of_a_row_filter_the_list_and_exclude_others() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    let trace = Trace::new(1, "ticket").attribute("langfuse.user.id", "ada");
    app.ingest(&trace).await.unwrap();
    let page = visitor.page("/traces?q=level%3ADEFAULT&sort=latency").await;
    let only = "q=level%3ADEFAULT%20userId%3Aada&#38;sort=latency\" aria-label=\"Only user ada\"";
    let not =
        "q=level%3ADEFAULT%20-userId%3Aada&#38;sort=latency\" aria-label=\"Exclude user ada\"";
    assert!(page.contains(only) && page.contains(not), "{page}");
    assert!(page.contains("data-text=\"ada\""), "{page}");
    app.stop().await.unwrap();
}

#[tokio::test]
async fn changes_after_a_comparison_are_in_the_next_one() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    let [one, same] = [1, 2].map(|number| {
        Trace::new(number, "ticket").generation("answer", "On Monday.").generation("check", "fine")
    });
    for trace in [&one, &same] {
        app.ingest(trace).await.unwrap();
    }
    for _ in 0..2 {
        let page = compared(&visitor, &one.id, &same.id, "").await;
        assert!(page.contains("No difference</p>"), "{page}");
    }
    let change = json!({ "batch": [{
        "id": "change", "type": "generation-update", "timestamp": "2026-01-01T00:00:00Z",
        "body": { "id": Trace::span_id(2), "traceId": same.id, "output": "On Friday." },
    }] });
    let sent = app.client.json(Method::POST, "/api/public/ingestion", &change);
    assert!(sent.await.unwrap().status.is_success());
    let page = compared(&visitor, &one.id, &same.id, "").await;
    assert!(page.contains("1 changed"), "{page}");
    app.stop().await.unwrap();
}
