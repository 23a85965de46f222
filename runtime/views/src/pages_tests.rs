//! Renders every template with sample views: usual, empty, hostile and large.

use crate::openapi::{ErrorCode, ErrorScope, OperationParameter, Reference};
use perpend_domain::cost::CostSum;
use perpend_domain::evaluation::{
    Attempt, AttemptFailure, CompletionReason, Execution, ExecutionOrigin, ExecutionState,
    NewExecution, Target,
};
use perpend_domain::metrics::Granularity;
use perpend_domain::model_call::ModelCall;
use perpend_domain::observation::Observation;
use perpend_domain::outline::{FoldTarget, Folds, Outline};
use perpend_domain::payload::Payload;
use perpend_domain::plugin::{FailureClass, LogLine};
use perpend_domain::text_search::{HitObservation, SearchHit, TextPattern, TraceSearchPage};
use perpend_domain::time::Timestamp;
use serde_json::json;

pub(crate) use crate::samples_tests::*;
use crate::trace::sample_observations::observation;
use crate::*;

#[test]
fn hostile_text_is_inert_on_a_trace() {
    let odd = |id, parent| observation(id, Some(parent), 10, 10);
    let observations = [
        hostile_observation(),
        odd("orphan", "gone"),
        odd("x", "y"),
        odd("y", "x"),
        odd("\u{202e}\"><script>", "x"),
    ];
    let outline = outline(&observations);
    let mut folds = Folds::default();
    folds.set(FoldTarget::Row(HOSTILE.to_owned()), false);
    let of_step = checked(&trace_page(
        &outline,
        Shown { folds, selected: Some(hostile_observation()), ..Shown::default() },
    ));
    assert!(of_step.contains("?observation=a%3Cb%3E%22%27%26"));
    assert!(of_step.contains("&fold=%3C%2Fpre%3E%3Cscript%3E"));
    assert!(of_step.contains("parent missing") && of_step.contains("in a cycle"));
    assert!(of_step.contains("version 3") && of_step.contains(&"ab".repeat(32)));
    assert!(of_step.contains("not sampled") && of_step.contains("12.5 %"));
    let scores = |value: &str| of_step.contains(&format!("{value}</span></span>"));
    assert!(scores("2<span class=\"unit\"> scores") && scores("1<span class=\"unit\"> score"));
    let of_trace = checked(&trace_page(&outline, Shown::default()));
    assert!(of_trace.contains("[U+202E]txt\u{2401}[U+007F]"));
    assert!(of_trace.contains("href=\"?trace\""));
    checked(&trace_page(&Outline::default(), Shown::default()));
}

#[test]
fn the_detail_pane_alone_is_inert_too() {
    let input = || DetailInput {
        base: "/project/p".to_owned(),
        form_context: forms(),
        scores: vec![score(HOSTILE)],
        outcomes: vec![outcome(HOSTILE)],
        ..DetailInput::default()
    };
    checked(&DetailPage::of_trace(&trace(HOSTILE), input()));
    checked(&DetailPage::of_observation(&hostile_observation(), input()));
    let bare =
        checked(&DetailPage::of_observation(&observation("a", None, 0, 1), DetailInput::default()));
    assert!(bare.contains("Not recorded") && bare.contains("No scores"));
}

#[test]
fn images_of_an_observation_link_to_its_raw_value() {
    let mut observation = observation("a", None, 0, 1);
    let picture = json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,AP8="}});
    let elsewhere = json!({"type": "image_url", "image_url": {"url": "https://a.example/b.png"}});
    observation.content.input =
        Some(Payload::from_value(json!([{"role": "user", "content": [picture, elsewhere]}])));
    observation.content.tool_definitions = Some(json!([{"name": "look"}, {"name": "write"}]));
    observation.called_tools = vec!["look".to_owned()];
    let html = checked(&DetailPage::of_observation(&observation, DetailInput::default()));
    assert_eq!(html.matches("<img").count(), 1);
    let address = format!("/observations/{}/raw/input/media/0\"", observation.id);
    assert!(html.contains(&address), "{html}");
    assert!(html.contains("on <bdi>a.example</bdi> <a href=\"https://a.example/b.png\" rel=\"noreferrer noopener nofollow\""));
    assert!(html.contains("2 tools offered, 1 called") && !html.contains("data:"));
}

#[test]
fn hits_in_a_trace_are_inert_and_counted_across_pages() {
    let mut observation = hostile_observation();
    observation.content.input = Some(Payload::Text(format!("before {HOSTILE} behind")));
    let matches = TextPattern::new(HOSTILE).unwrap().field_matches(&observation);
    let own = HitObservation {
        id: observation.id.clone(),
        kind: observation.kind,
        name: observation.name.clone(),
        start: observation.start,
    };
    let hit = |observation| SearchHit { observation, matches: matches.clone() };
    let page = |n_before, part| {
        checked(&FindPage::new(FindInput {
            shell: shell(),
            trace: (HOSTILE.to_owned(), Some(text(HOSTILE))),
            text: typed(),
            notice: Some(text(HOSTILE)),
            n_before,
            part,
        }))
    };
    let html = page(
        0,
        TraceSearchPage {
            hits: vec![hit(None), hit(Some(own.clone()))],
            n_searched: 30_000,
            n_observations: 50_000,
            next: Some((observation.start, observation.id.clone())),
        },
    );
    for part in [
        "<mark>",
        "1 observation and the trace",
        "30,000 of 50,000 observations searched",
        "&after=2.",
        "data-step=\"\"",
    ] {
        assert!(html.contains(part), "{part} in {html}");
    }
    let html = page(
        100,
        TraceSearchPage {
            hits: vec![hit(Some(own))],
            n_searched: 50_000,
            n_observations: 50_000,
            next: None,
        },
    );
    assert!(html.contains("101 found, 101–101 on this page"), "{html}");
    assert!(!html.contains("Continue") && !html.contains("observations searched"));
}

#[test]
fn links_of_a_trace_keep_the_search_until_it_is_cleared() {
    let outline = outline(&[observation("root", None, 0, 9)]);
    let view_params = ViewParams { find: Some(typed()), ..ViewParams::default() };
    let shown = Shown { view_params, ..Shown::default() };
    let html = checked(&trace_page(&outline, shown));
    let find = encode(&typed());
    for part in [
        format!("?observation=root&find={find}\""),
        format!("?trace&v=log&find={find}\""),
        format!("/find?q={find}\""),
        "<a href=\"?trace\" data-keeps>Clear search</a>".to_owned(),
    ] {
        assert!(html.contains(&part), "{part} in {html}");
    }
}

/// A chart with an incomplete day and an empty one.
fn chart(title: &'static str, part: ChartPart) -> Chart {
    let bar = |value, part| ChartBar {
        time: (Timestamp::from_millis(0), Timestamp::from_millis(86_400_000)),
        value,
        part,
        partial: (part > 0.0).then_some(SO_FAR),
        href: typed(),
    };
    let bars = [bar(4.0, 1.0), bar(0.0, 0.0)];
    let shown = |value: f64| value.to_string();
    Chart::new((title, part), Granularity::Day, &bars, shown)
}

#[test]
fn the_overview_is_inert() {
    let value = ScoreAggregate::Share(text(HOSTILE), 0.5, [0.25, 0.75]);
    let figure =
        Figure { label: "Users", value: "2".to_owned(), rows: Some(typed()), ..Figure::default() };
    let means = [1.0, 0.5, 0.0].map(|mean| (typed(), Some(mean)));
    let score = ScoreTrend::new(HOSTILE, (value, 4), &means, [typed(), typed()]);
    let trends = [
        Trend::Latency(figure.clone(), Some(chart("Latency", ChartPart::Median))),
        Trend::Models(vec![ModelLine::new(HOSTILE, (CostSum::default(), 2.0, 3), 1.0)]),
        Trend::Scores(vec![score], Some(("1 more name".to_owned(), typed()))),
        Trend::Charts(vec![chart("Cost", ChartPart::Errors)]),
        Trend::Error(text(HOSTILE)),
    ];
    let parts = trends.clone().map(|trend| checked(&TrendPage { trend }));
    assert!(parts[0].contains("1 median"), "{}", parts[0]);
    assert!(parts[2].contains("(25–75)"), "{}", parts[2]);
    let later = trends.map(|trend| DeferredTrend {
        label: "Scores",
        fragment_href: typed(),
        page_href: typed(),
        trend: Some(trend),
    });
    let overview = checked(&OverviewPage {
        shell: shell(),
        newest: Some(Timestamp::from_millis(0)),
        has_only_evaluations: true,
        focus: focus(),
        notices: vec![Text::from(HOSTILE)],
        figures: vec![Figure {
            label: "Traces",
            value: "41".to_owned(),
            of: Some("2 of 41".to_owned()),
            is_bad: true,
            change: percent_change(3.0, 2.0),
            rows: Some("/traces".to_owned()),
        }],
        is_compared: true,
        quantiles: Some(DeferredTrend {
            label: "Latency and users",
            fragment_href: typed(),
            page_href: typed(),
            trend: Some(Trend::Figures(vec![figure])),
        }),
        cost: Some(chart("Cost", ChartPart::Errors)),
        trends: later.into(),
        attention: vec![AttentionItem {
            name: text(HOSTILE),
            href: "/project/p/rules".to_owned(),
            state: "paused",
            reason: text(HOSTILE),
        }],
        failed: vec![hostile_line()],
        runs: vec![RunLine {
            name: text(HOSTILE),
            href: typed(),
            dataset: text(HOSTILE),
            at: Timestamp::from_millis(0),
        }],
        evaluations_href: Some(typed()),
        setup: None,
    });
    assert!(overview.contains("+50 %") && overview.contains("Needs attention"));
    assert_eq!(overview.matches("<rect").count(), 10, "{overview}");
    assert!(overview.contains("4, 1 with errors") && overview.contains("today so far"));
    assert!(overview.contains("leads bad\"><dt>") && overview.contains("2 of 41"));
}

/// An execution with hostile ids and message.
fn execution(state: ExecutionState) -> Execution {
    let at = Timestamp::from_millis(0);
    Execution {
        seq: 1,
        made: NewExecution {
            id: "0af7651916cd43dd8448eb211c80319c".parse().unwrap(),
            origin: ExecutionOrigin::Rule,
            rule_id: typed().parse().unwrap(),
            assignment_id: "a".parse().unwrap(),
            evaluator_id: typed().parse().unwrap(),
            target: Target::Session(typed().parse().unwrap()),
            shadow: None,
            generation: 0,
            inclusion_probability: 0.5,
            completion: CompletionReason::Ended,
            n_observations: 1,
            is_audit: false,
        },
        project: "p".parse().unwrap(),
        state,
        attempts: 2,
        evaluator_version_id: None,
        error_class: Some(FailureClass::PluginTrap.into()),
        error_message: Some(HOSTILE.to_owned()),
        due_at: at,
        created_at: at,
        first_attempt_at: Some(at),
        finished_at: Some(at),
        n_late: 0,
        firing_at: None,
    }
}

pub(crate) fn execution_line(state: ExecutionState) -> ExecutionLine {
    let names = ExecutionNames {
        rule: ResourceLink::new(HOSTILE, HOSTILE),
        evaluator: ResourceLink::deleted(HOSTILE),
        version: Some(3),
    };
    ExecutionLine::new(&execution(state), names, Some(None), "/project/p").requeueable()
}

#[test]
fn a_list_of_executions_is_inert_and_only_failed_ones_have_a_form() {
    let list = &EXECUTION_ROWS;
    let (columns, _) = list.choose("");
    let row = |state| {
        let (execution, line) = (execution(state), execution_line(state));
        ExecutionRow { execution, line, cost: Some(None) }
    };
    let (forms, focus) = (forms(), Focus::default());
    let context = CellContext::new("/project/p", &focus, &forms);
    let table = |rows: &[ExecutionRow]| list.table(&columns, rows, &context);
    let view = ListView {
        shell: shell(),
        texts: &list.texts,
        focus: None,
        filter: None,
        selects: vec![SelectFilter {
            name: "rule",
            label: "Rule",
            options: vec![(typed(), text(HOSTILE), true)],
        }],
        path: "/project/p/executions".to_owned(),
        other_parameters: vec![("env".into(), typed())],
        notices: vec![text(HOSTILE)],
        stopped: Some(StoppedSearch { n_tested: 10_000, n_found: 2, next_href: Some(typed()) }),
        action: Some(ListAction {
            action: typed(),
            fields: vec![("rule", typed())],
            label: "Requeue all".to_owned(),
        }),
        choice: None,
        score_href: None,
        table: table(&[row(ExecutionState::Failed), row(ExecutionState::Completed)]),
        picker: list.picker("/project/p/executions", &[], (columns.as_slice(), 50)),
        page_links: PageLinks::default(),
        position: String::new(),
        is_later: false,
        has_news: false,
        narrowed: Vec::new(),
        notes: Vec::new(),
        open_by_id: None,
        setup: None,
        exports: [("Export CSV", typed()), ("Export JSONL", typed())],
        parts: ListParts::default(),
    };
    let html = checked(&view);
    assert_eq!(html.matches(">Requeue</button>").count(), 1, "{html}");
    assert!(html.contains("10,000 executions searched"), "{html}");
    let none = ListView { table: table(&[]), stopped: None, ..view };
    assert!(checked(&none).contains("No executions match"));
    let empty = checked(&ListView { selects: Vec::new(), ..none });
    assert!(empty.contains("No executions yet"), "{empty}");
}

#[test]
fn an_execution_is_inert() {
    let at = Timestamp::from_millis(0);
    let call = ModelCall {
        provider: HOSTILE.to_owned(),
        model: HOSTILE.to_owned(),
        model_answered: None,
        method: "none".to_owned(),
        started_at: at,
        latency_ms: 1_500,
        input_tokens: 1_000,
        cached_tokens: 0,
        output_tokens: 10,
        reasoning_tokens: 0,
        is_estimated: true,
        cost: None,
        is_from_cache: false,
        saved: None,
        error: Some((HOSTILE.to_owned(), HOSTILE.to_owned())),
    };
    let attempt = Attempt {
        number: 1,
        ended_at: at,
        failure: AttemptFailure::new(FailureClass::PluginTrap, HOSTILE),
        version: None,
        cpu_us: 1_500,
    };
    let line = LogLine {
        level: HOSTILE.to_owned(),
        message: HOSTILE.to_owned(),
        fields: Some(HOSTILE.to_owned()),
    };
    let html = checked(&ExecutionPage {
        shell: shell(),
        line: execution_line(ExecutionState::Failed),
        message: Some(Text::lines(HOSTILE)),
        explanation: Some(text(HOSTILE)),
        facts: vec![("Origin", text(HOSTILE).into())],
        own_trace: Some("/project/p/traces/t".to_owned()),
        try_href: Some(typed()),
        fingerprint: Some("ab".repeat(32)),
        attempts: vec![attempt.into()],
        log: vec![line.into()],
        calls: vec![CallLine::new(0, call)],
        scores: vec![score(HOSTILE)],
        superseded: vec![(score(HOSTILE), text(HOSTILE), typed())],
    });
    for part in ["about 1,000", "unknown price", "plugin_trap", "/requeue\"", "superseded"] {
        assert!(html.contains(part), "{part}: {html}");
    }
}

#[test]
fn suggestions_of_a_filter_are_inert() {
    let suggestion = Suggestion { title: text(HOSTILE), note: text(HOSTILE), whole: typed() };
    let html = checked(&SuggestPage { suggestions: vec![suggestion] });
    assert_eq!(html.matches("role=\"option\"").count(), 1);
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
    let blocked = checked(&LoginPage { retry_after_s: Some(34), ..login });
    assert!(blocked.contains("<b class=\"num\">34</b> s."), "{blocked}");
    let leave = checked(&LogoutPage { shell: shell() });
    assert_eq!(leave.matches("action=\"/logout\"").count(), 2);
    let error = ErrorPage {
        shell: shell(),
        status: 500,
        title: "Something broke here",
        message: text(HOSTILE),
        retry_after_s: Some(7),
        request_id: Some(text(HOSTILE)),
    };
    assert!(checked(&error).contains("500"));
    let rules = RulesPage {
        shell: shell(),
        rules: vec![RuleRow {
            id: text(HOSTILE),
            name: text(HOSTILE),
            target: "observation",
            state: "paused",
            tone: Tone::Waiting,
            reason: Some(text(HOSTILE)),
            schedule: Some(text(HOSTILE)),
            next_firing: Some("Sun 2026-03-29 03:00 +02:00".to_owned()),
            sampling: "10 %".to_owned(),
            conditions: vec![text(HOSTILE)],
            evaluators: vec![ResourceLink::new(HOSTILE, HOSTILE), ResourceLink::deleted(HOSTILE)],
            href: rule_href("/p", HOSTILE),
            day: vec![("arrived", "1,200".to_owned())],
            failed: Some("3 failed executions".to_owned()),
            held: Some("2".to_owned()),
            cost: "$1.15".to_owned(),
            is_enabled: true,
        }],
        may_write: true,
        enabled: Some(("1".to_owned(), "500".to_owned())),
        setup: None,
        newest_evaluator: Some(ExampleEvaluator { id: text(HOSTILE), name: text(HOSTILE) }),
        has_more: true,
    };
    let html = checked(&rules);
    assert!(html.contains("Showing the newest 200"));
    assert!(html.contains("/evaluators/"), "{html}");
    assert!(html.contains(">same name</a>"), "the name is not repeated");
    let empty = checked(&RulesPage {
        shell: shell(),
        setup: Some(Setup {
            origin: "http://127.0.0.1:4717".to_owned(),
            project: "p".to_owned(),
            public_key: typed(),
            refused: None,
        }),
        ..RulesPage::default()
    });
    let command = "\"http://127.0.0.1:4717/api/public/v2/evaluation-rules\"";
    assert!(empty.contains(command), "{empty}");
}

#[test]
fn the_reference_is_inert() {
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
    let error = ErrorCode {
        code: "conflict",
        status: 409,
        title: "It collides",
        scope: ErrorScope::Always,
    };
    let reference = Reference::of(&document, vec![error]);
    assert_eq!(reference.n_operations(), 1);
    for reference in [&reference, &Reference::default()] {
        checked(&ReferencePage { shell: shell(), reference, q: typed() });
        for path in reference.paths() {
            let html = checked(&ReferenceGroupPage::new(reference, path, shell()).unwrap());
            assert!(html.contains("error-conflict") && html.contains("$HOST"), "{html}");
        }
    }
    let name = typed();
    let field = |is_list: bool| OperationParameter {
        name: &name,
        location: "query",
        is_required: !is_list,
        is_list,
    };
    let attempt = |answer| {
        checked(&TryPage {
            shell: shell(),
            path: typed(),
            fields: vec![
                (field(false), typed()),
                (field(false), String::new()),
                (field(true), typed()),
            ],
            response: answer,
        })
    };
    let html = attempt(None);
    assert!(html.contains("Required: <code>") && html.contains(", one per line <textarea name="));
    let value = "64 KB of 3.2 MB".to_owned();
    let answer = (Text::from(HOSTILE), 200, value, Text::lines(HOSTILE));
    assert!(attempt(Some(answer)).contains("64 KB of 3.2 MB"));
    assert!(
        checked(&RulesPage { shell: shell(), ..RulesPage::default() }).contains("No rules yet")
    );
}

#[test]
fn search_results_are_inert_and_name_omitted_data() {
    let hit = SearchEntry {
        title: text(HOSTILE),
        note: text(HOSTILE),
        href: format!("/project/p/traces/{}", encode(HOSTILE)),
    };
    let answer = SearchResults {
        text_matches: Some(hit.clone()),
        groups: vec![SearchEntryGroup::new("Sessions", vec![hit; 9])],
        notes: vec!["Older ones were not searched."],
        older_href: Some("/project/p/search?q=x&below=7".to_owned()),
        no_hits: text(HOSTILE),
        no_text_matches: Some(text(HOSTILE)),
        text_matches_href: Some(typed()),
        has_help: true,
    };
    let page = |answer: &SearchResults| {
        checked(&SearchPage { shell: shell(), q: typed(), answer: answer.clone() })
    };
    let html = page(&answer);
    let names = html.matches("<a class=\"name\"").count();
    assert_eq!(names, SearchEntryGroup::LIMIT + 1, "and where contents are");
    for part in ["Showing the first 8", "Older ones", "&below=7", "Exact ids only"] {
        assert!(html.contains(part), "{part} in {html}");
    }
    let hits = checked(&SearchFragment { answer });
    let options = hits.matches("role=\"option\"").count();
    assert_eq!(options, SearchEntryGroup::LIMIT + 1, "and where contents are searched");
    assert!(!hits.contains("<html"));
    let none = SearchResults {
        no_hits: text("No session begins with “x”"),
        ..SearchResults::default()
    };
    assert!(page(&none).contains("No session begins with “x”"));
}

#[test]
fn a_megabyte_of_text_is_collapsed_and_bounded() {
    for value in ["x".repeat(1 << 20), "<".repeat(1 << 20), "\u{1}".repeat(1 << 20)] {
        let mut observation = observation("a", None, 0, 1);
        observation.content.input = Some(Payload::Text(value.clone()));
        observation.content.output = Some(Payload::from_value(json!({"k": value})));
        let html = checked(&DetailPage::of_observation(&observation, DetailInput::default()));
        assert_eq!(html.matches("<details class=\"long\">").count(), 1);
        assert_eq!(html.matches("<details class=\"node\">").count(), 1);
        assert!(html.len() < 1 << 20, "{}", html.len());
    }
}

/// A root with 10,000 children of four observations each, and a chain of 1,000.
fn fifty_thousand() -> Vec<Observation> {
    let mut observations: Vec<_> = (0..49_000)
        .map(|i| {
            let parent = (i > 0).then(|| format!("o{}", if i % 5 == 0 { 0 } else { i / 5 * 5 }));
            observation(&format!("o{i}"), parent.as_deref(), i, 1_000)
        })
        .collect();
    observations.extend((0..1_000).map(|i| {
        let parent = (i > 0).then(|| format!("deep{}", i - 1));
        observation(&format!("deep{i}"), parent.as_deref(), 60_000 + i, 1)
    }));
    observations
}

#[test]
fn a_page_of_fifty_thousand_observations_renders_one_window() {
    let outline = outline(&fifty_thousand());
    let n_rows = |html: &str| html.matches("role=\"row\"").count();
    let html = checked(&trace_page(&outline, Shown::default()));
    assert!(n_rows(&html) <= 600 && html.len() < 400 << 10, "{}", html.len());
    assert_eq!(n_rows(&html), ROW_WINDOW + 2);
    assert!(html.contains("Rows 1–200 of ") && html.contains("?trace&at=200\""));
    assert!(!html.contains("Earlier rows") && html.contains("class=\"map\""));
    assert_eq!(html.matches("aria-selected=\"true\"").count(), 1);

    // The last of a chain of 1,000, with its ancestors expanded.
    let last = outline.rows().len() - 1;
    let selected = Some(observation("deep999", Some("deep998"), 0, 1));
    let at = outline.view(&Folds::default(), Some(last)).len() - 150;
    let html = checked(&trace_page(&outline, Shown { at, selected, ..Shown::default() }));
    assert_eq!(n_rows(&html), 150 + 2);
    assert!(html.contains("aria-level=\"1001\"") && html.contains("class=\"row d20\""));
    let chosen = html.split("role=\"row\"").find(|row| row.contains("aria-selected=\"true\""));
    assert!(chosen.unwrap().contains("data-step=\"deep999\" data-parent="));
    assert!(html.contains("Earlier rows") && !html.contains("Later rows"));
    assert!(html.len() < 400 << 10);
}
