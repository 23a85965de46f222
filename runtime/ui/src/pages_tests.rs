//! Every template rendered with sample views: usual, empty, hostile and large.

use perpend_domain::ids::{ObservationId, TraceId};
use perpend_domain::observation::{Level, Observation, ObservationKind};
use perpend_domain::payload::Payload;
use perpend_domain::score::{ScoreSource, ScoreValue};
use perpend_domain::time::Timestamp;
use perpend_domain::trace::Trace;
use serde_json::json;

use crate::timeline::tests::observation;
use crate::*;

/// Everything that has broken a page somewhere: markup, quotes, direction and control characters.
const HOSTILE: &str = "</pre><script>alert(1)</script><img src=x onerror=\"alert(2)\">' \" & \u{202e}txt\u{1}\u{7f} ﷽ שלום";

fn text(raw: &str) -> Text {
    Text::from(raw)
}

fn shell() -> Shell {
    Shell {
        project: Some(Opened::new(HOSTILE, HOSTILE)),
        section: Section::Traces,
    }
}

fn trace(name: &str) -> Trace {
    let at = Timestamp::from_millis(1_772_359_200_000);
    Trace {
        id: TraceId::new("0af7651916cd43dd8448eb211c80319c").unwrap(),
        name: Some(name.to_owned()),
        input: Some(Payload::Text(name.to_owned())),
        output: Some(Payload::from_value(
            json!([{"role": "assistant", "content": name}]),
        )),
        timestamp: at,
        user_id: Some(name.chars().filter(|c| !c.is_control()).collect()),
        session_id: Some(name.to_owned()),
        release: Some(name.to_owned()),
        version: None,
        environment: "production".to_owned(),
        public: false,
        tags: vec![name.to_owned(), "billing".to_owned()],
        metadata: json!({name: name}).as_object().unwrap().clone(),
        root: None,
        root_is_provisional: false,
        duplicates: Vec::new(),
        usage: [("input".to_owned(), 900), ("output".to_owned(), 100)].into(),
        total_cost: 0.0123,
        latency_us: 1_500_000,
        n_observations: 3,
        n_by_level: [0, 1, 1, 1],
        first_start: at,
        last_end: at.plus_millis(1_500),
    }
}

fn verdict(name: &str) -> Verdict {
    Verdict {
        rule: text(name),
        evaluator: Some(text(name)),
        state: "not sampled",
        tone: Tone::Plain,
        sentence: text(name),
        facts: vec![("Sampling number", text(name))],
    }
}

fn score(name: &str) -> ScoreView {
    let at = Timestamp::from_millis(0);
    let origin = Origin {
        evaluator: text(name),
        version: Some(3),
        plugin: Some(text(name)),
        rule: text(name),
        fingerprint: "ab".repeat(32),
        execution: text("5d1f0c"),
        sampling: 0.125,
    };
    ScoreView::new(
        name,
        &ScoreValue::Categorical(name.to_owned()),
        ScoreSource::Eval,
        at,
    )
    .comment(Some(name))
    .origin(Some(origin))
}

fn hostile_observation() -> Observation {
    let mut step = observation("a<b>\"'&", None, 0, 500);
    step.kind = ObservationKind::Generation;
    step.level = Level::Error;
    for field in [
        &mut step.status_message,
        &mut step.model,
        &mut step.user_id,
        &mut step.release,
    ] {
        *field = Some(HOSTILE.to_owned());
    }
    step.name = HOSTILE.to_owned();
    step.scope_name = HOSTILE.to_owned();
    step.called_tools = vec![HOSTILE.to_owned()];
    step.model_parameters = json!({HOSTILE: HOSTILE}).as_object().unwrap().clone();
    step.usage = [(HOSTILE.to_owned(), 7)].into();
    step.content.input = Some(Payload::from_value(json!([
        {"role": HOSTILE, "name": HOSTILE, "content": HOSTILE},
        {"role": "assistant", "content": [{"type": "tool_use", "name": HOSTILE, "input": {HOSTILE: HOSTILE}}]},
    ])));
    step.content.output = Some(Payload::from_value(json!({HOSTILE: [HOSTILE]})));
    step.content.metadata = json!({HOSTILE: HOSTILE}).as_object().unwrap().clone();
    step.content.tool_definitions = Some(json!([{HOSTILE: HOSTILE}]));
    step
}

fn trace_page(observations: Vec<Observation>, selected: Option<&str>) -> TracePage {
    TracePage::new(TraceInput {
        shell: shell(),
        trace: trace(HOSTILE),
        observations,
        selected: selected.map(|id| ObservationId::new(id).unwrap()),
        detail: DetailInput {
            base: "/project/p".to_owned(),
            scores: vec![score(HOSTILE)],
            verdicts: vec![verdict(HOSTILE)],
        },
        scored: vec![None, selected.map(|id| ObservationId::new(id).unwrap())],
        show_all: false,
    })
}

/// Panics when the page holds active content, or an attribute or tag that came out of trace text.
fn assert_inert(page: &str) {
    let lower = page.to_lowercase();
    assert_eq!(
        lower.matches("<script").count(),
        lower.matches("<script src=\"/assets/").count()
    );
    let own = ["/assets/", "/traces/", "/media/"];
    let own = own.map(|path| lower.matches(&format!("<img src=\"{path}")).count());
    assert_eq!(lower.matches("<img").count(), own.iter().sum::<usize>());
    for bad in [" style=", "<style", "<iframe", "javascript:"] {
        assert!(!lower.contains(bad), "{bad}");
    }
    // `onerror="..."` of the hostile text must only be there with its quotes escaped.
    assert!(!lower.contains("onerror=\"") && !lower.contains("onerror='"));
    let is_control = |c: char| c.is_control() && c != '\n';
    assert!(!page.contains(is_control) && !page.contains('\u{202e}'));
}

/// Panics when tags do not pair up.
fn assert_well_formed(page: &str) {
    const VOID: [&str; 8] = [
        "!doctype", "meta", "link", "img", "input", "rect", "br", "hr",
    ];
    let mut open = Vec::new();
    for piece in page.split('<').skip(1) {
        let tag = piece.split('>').next().unwrap();
        let name = tag.split([' ', '\n', '/']).next().unwrap();
        if let Some(closed) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(closed), "closing {closed}");
        } else if !VOID.contains(&name) {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "left open: {open:?}");
}

fn checked(page: &impl askama::Template) -> String {
    checked_html(render(page).unwrap())
}

fn checked_html(html: String) -> String {
    assert_inert(&html);
    assert_well_formed(&html);
    html
}

#[test]
fn hostile_text_is_inert_on_a_trace() {
    let odd = |id, parent| observation(id, Some(parent), 10, 10);
    let steps = || {
        vec![
            hostile_observation(),
            odd("orphan", "gone"),
            odd("x", "y"),
            odd("y", "x"),
        ]
    };
    let of_step = checked(&trace_page(steps(), Some("a<b>\"'&")));
    assert!(of_step.contains("?observation=a%3Cb%3E%22%27%26"));
    assert!(of_step.contains("parent missing") && of_step.contains("in a cycle"));
    assert!(of_step.contains("version 3") && of_step.contains(&"ab".repeat(32)));
    assert!(of_step.contains("not sampled") && of_step.contains("12.5 %"));
    let of_trace = checked(&trace_page(steps(), None));
    assert!(of_trace.contains("[U+202E]txt\u{2401}[U+007F]"));
    assert!(of_trace.contains("href=\"?trace\""));
}

#[test]
fn the_detail_pane_alone_is_inert_too() {
    let input = || DetailInput {
        base: "/project/p".to_owned(),
        scores: vec![score(HOSTILE)],
        verdicts: vec![verdict(HOSTILE)],
    };
    checked(&DetailPage::of_trace(&trace(HOSTILE), input()));
    checked(&DetailPage::of_observation(&hostile_observation(), input()));
    let bare = checked(&DetailPage::of_observation(
        &observation("a", None, 0, 1),
        DetailInput::default(),
    ));
    assert!(bare.contains("nothing recorded") && bare.contains("No score"));
}

#[test]
fn pictures_of_a_step_are_below_its_raw_value() {
    let mut step = observation("a", None, 0, 1);
    let picture = json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,AP8="}});
    let elsewhere = json!({"type": "image_url", "image_url": {"url": "https://a.example/b.png"}});
    step.content.input = Some(Payload::from_value(
        json!([{"role": "user", "content": [picture, elsewhere]}]),
    ));
    step.content.tool_definitions = Some(json!([{"name": "look"}, {"name": "write"}]));
    step.called_tools = vec!["look".to_owned()];
    let html = checked(&DetailPage::of_observation(&step, DetailInput::default()));
    assert_eq!(html.matches("<img").count(), 1);
    let address = format!("/observations/{}/raw/input/media/0\"", step.id);
    assert!(html.contains(&address), "{html}");
    assert!(html.contains("on <bdi>a.example</bdi> <a href=\"https://a.example/b.png\" rel=\"noreferrer noopener nofollow\""));
    assert!(html.contains("2 tools offered, 1 called") && !html.contains("data:"));
}

#[test]
fn hostile_text_is_inert_in_the_list() {
    let line = TraceLine {
        id: HOSTILE.to_owned(),
        name: Some(text(HOSTILE)),
        at: Timestamp::from_millis(0),
        environment: text(HOSTILE),
        user: Some(text(HOSTILE)),
        session: Some(text(HOSTILE)),
        tags: vec![text(HOSTILE); 5],
        latency_us: 1_000,
        tokens: 12,
        cost: 0.5,
        n_observations: 3,
        n_errors: 1,
        n_warnings: 2,
        scores: vec![Chip::new(HOSTILE, &ScoreValue::Text(HOSTILE.to_owned())); 6],
    };
    let typed: String = HOSTILE
        .chars()
        .filter(|c| !c.is_control() && *c != '\u{202e}')
        .collect();
    let query = TracesQuery {
        name: typed.clone(),
        score: typed,
        ..TracesQuery::default()
    };
    let next = Some(query.address("/project/p", 2));
    let html = checked(&TracesPage {
        shell: shell(),
        problem: Some(text(HOSTILE)),
        lines: vec![line],
        pager: Pager {
            first: 1,
            last: 1,
            total: Some(1_000),
            previous: None,
            next,
        },
        query,
        ..TracesPage::default()
    });
    assert!(html.contains("1–1 of 1,000") && html.contains("+1"));
}

#[test]
fn an_empty_list_says_how_to_fill_it_and_a_filtered_one_how_to_widen() {
    let page = |query| TracesPage {
        shell: shell(),
        query,
        setup: Some(Setup {
            origin: "http://127.0.0.1:4717".to_owned(),
            public_key: "pk-<1>".to_owned(),
            refused: Some(text(HOSTILE)),
        }),
        ..TracesPage::default()
    };
    let html = checked(&page(TracesQuery::default()));
    assert!(html.contains("OTEL_EXPORTER_OTLP_ENDPOINT=\"http://127.0.0.1:4717/api/public/otel\""));
    let filtered = checked(&page(TracesQuery {
        user: "x".to_owned(),
        ..TracesQuery::default()
    }));
    assert!(filtered.contains("No trace fits"));
}

#[test]
fn the_other_pages_are_inert() {
    let login = LoginPage {
        problem: Some("The token is not the one of this server."),
        next: "/traces?name=\"><script>".to_owned(),
        public_key: "\"><img src=x onerror=alert(1)>".to_owned(),
        ..LoginPage::default()
    };
    assert!(checked(&login).contains("role=\"alert\""));
    let error = ErrorPage {
        shell: shell(),
        status: 500,
        title: "Something broke here",
        message: text(HOSTILE),
        request_id: Some(text(HOSTILE)),
    };
    assert!(checked(&error).contains("500"));
    let rules = RulesPage {
        shell: shell(),
        rules: vec![RuleRow {
            name: text(HOSTILE),
            target: "observation",
            state: "paused",
            tone: Tone::Waiting,
            reason: Some(text(HOSTILE)),
            sampling: "10 %".to_owned(),
            conditions: vec![text(HOSTILE)],
            evaluators: vec![text(HOSTILE)],
        }],
        evaluators: vec![EvaluatorRow {
            name: text(HOSTILE),
            version: 1,
            plugin: text(HOSTILE),
            function: text(HOSTILE),
            fingerprint: "ab".repeat(32),
            paused: Some(text(HOSTILE)),
        }],
        has_more: true,
    };
    assert!(checked(&rules).contains("The newest 200 of each"));
    let schema = json!({
        "description": HOSTILE,
        "required": [HOSTILE],
        "properties": { HOSTILE: { "type": HOSTILE, "description": HOSTILE, "enum": [HOSTILE] } },
    });
    let body =
        json!({ "content": { "application/json": { "schema": schema } }, "description": HOSTILE });
    let document = json!({
        "info": { "version": HOSTILE },
        "paths": { HOSTILE: { "post": {
            "tags": [HOSTILE], "summary": HOSTILE, "requestBody": body, "responses": { HOSTILE: body },
            "security": [{ HOSTILE: [] }],
            "parameters": [{ "name": HOSTILE, "in": HOSTILE, "schema": { "$ref": HOSTILE } }],
        } } },
        "components": { "schemas": { HOSTILE: { "oneOf": [schema, { "type": "array", "items": schema }] } } },
    });
    let reference = Reference::of(&document);
    assert_eq!(reference.n_operations(), 1);
    for reference in [&reference, &Reference::default()] {
        checked(&ReferencePage {
            shell: shell(),
            reference,
        });
    }
    assert!(
        checked(&RulesPage {
            shell: shell(),
            ..RulesPage::default()
        })
        .contains("No rules yet")
    );
}

#[test]
fn a_megabyte_of_anything_is_folded_away_and_bounded() {
    for value in [
        "x".repeat(1 << 20),
        "<".repeat(1 << 20),
        "\u{1}".repeat(1 << 20),
    ] {
        let mut step = observation("a", None, 0, 1);
        step.content.input = Some(Payload::Text(value.clone()));
        step.content.output = Some(Payload::from_value(json!({"k": value})));
        let html = checked(&DetailPage::of_observation(&step, DetailInput::default()));
        assert_eq!(html.matches("<details class=\"long\">").count(), 2);
        assert!(html.len() < 8 << 20, "{}", html.len());
    }
}

#[test]
fn five_thousand_steps_show_the_first_thousand_and_lead_to_all() {
    let steps: Vec<_> = (0..5_000)
        .map(|i| observation(&format!("o{i}"), (i > 0).then_some("o0"), i, 1_000))
        .collect();
    let page = trace_page(steps.clone(), None);
    assert!(!page.is_long());
    let html = checked(&page);
    assert_eq!(html.matches("role=\"treeitem\"").count(), VISIBLE_ROWS + 1);
    assert!(html.contains("Show all 5000 observations"));
    // A step beyond the limit brings all rows with it, so that it is always in its place.
    let page = trace_page(steps, Some("o4999"));
    assert!(page.is_long());
    let pieces: Result<Vec<String>, _> = page.into_pieces().unwrap().collect();
    let pieces = pieces.unwrap();
    let n_rows = pieces
        .iter()
        .map(|piece| piece.matches("role=\"treeitem\"").count());
    assert_eq!(
        n_rows.collect::<Vec<_>>(),
        [1_001, 1_000, 1_000, 1_000, 1_000, 0]
    );
    let html = checked_html(pieces.concat());
    let place = |step: &str| html.find(&format!("observation={step}\"")).unwrap();
    assert!(place("o999") < place("o1000") && place("o4998") < place("o4999"));
    assert_eq!(html.matches("aria-selected=\"true\"").count(), 1);
    assert!(html.trim_end().ends_with("</html>") && !html.contains("<!--"));
    assert!(
        html.contains("?all=1&#38;observation=o1\"")
            || html.contains("?all=1&amp;observation=o1\"")
    );
}
