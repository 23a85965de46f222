//! Lists of traces, sessions, users and scores.

use perpend_domain::cost::CostSum;
use perpend_domain::metrics::Granularity;
use perpend_domain::score::{ScoreSource, ScoreValue};
use perpend_domain::telemetry::{GroupKey, TraceGroup};
use perpend_domain::text_search::BoundedCount;
use perpend_domain::time::Timestamp;

use crate::pages_tests::{HOSTILE, checked, focus, hostile_line, score, shell, text, trace, typed};
use crate::*;

pub(crate) fn hostile_group(by: GroupKey) -> GroupLine {
    let group = TraceGroup {
        id: HOSTILE.to_owned(),
        first: Timestamp::from_millis(0),
        last: Timestamp::from_millis(60_000),
        end: Timestamp::from_millis(61_000),
        environment: HOSTILE.to_owned(),
        n_traces: 12,
        n_others: 3,
        other: Some(HOSTILE.to_owned()),
        n_observations: 40,
        n_errors: 2,
        total_tokens: 12_345,
        cost: CostSum::of_observation(Some(1.15), true),
    };
    let days = [("2026-03-01".to_owned(), 3), ("2026-03-02".to_owned(), 0)];
    let mut line = GroupLine::new(by, group).with_days(&days, 6);
    line.scores = vec![GroupChip {
        name: text(HOSTILE),
        value: text(HOSTILE),
        title: "2 scores of its newest 100 traces".to_owned(),
        share: Some(50.0),
        href: format!("/p/traces?q={}", encode(HOSTILE)),
    }];
    line
}

/// A filter of sessions.
fn filter(terms: Vec<TermChip>) -> FilterView {
    FilterView {
        of: &SESSION_LIST,
        base: "/p".to_owned(),
        q: "errorCount:>0".to_owned(),
        terms,
        other_parameters: vec![("from".into(), "-7d".to_owned())],
        sorts: Vec::new(),
        empty_counts: EmptyListCounts::default(),
    }
}

/// The list of traces with this filter.
fn traces_view(q: &str, lines: &[TraceLine]) -> ListView {
    traces_view_with(q, lines, "")
}

fn traces_view_with(q: &str, lines: &[TraceLine], columns: &str) -> ListView {
    let list = &TRACE_ROWS;
    let (columns, _) = list.choose(columns);
    let (shell, time) = (shell(), Focus::default());
    let base = shell.base().to_owned();
    let forms = FormContext::default();
    let context = CellContext::new(&base, &time, &forms);
    let filter = FilterView {
        of: &TRACE_LIST,
        base: base.clone(),
        q: q.to_owned(),
        terms: Vec::new(),
        other_parameters: Vec::new(),
        sorts: Vec::new(),
        empty_counts: EmptyListCounts::default(),
    };
    let path = format!("{base}/traces");
    let page = PageActions { url: path.clone(), ..PageActions::default() };
    let table = list.table(&columns, lines, &context).with_choice("trace");
    ListView {
        table: table.with_actions((list, lines), &filter, &page),
        picker: list.picker(&path, &[], (columns.as_slice(), 50)),
        path,
        notices: Vec::new(),
        open_by_id: None,
        page_links: PageLinks {
            first: Some(TracesQuery::of(q).first(&base)),
            ..PageLinks::default()
        },
        parts: ListParts {
            peek: Some(PeekPanel { fragments: format!("{base}/_/traces"), peek: None }),
            ..ListParts::default()
        },
        ..list_view(list, (&[], filter))
    }
}

fn with_terms(view: ListView, terms: Vec<TermChip>) -> ListView {
    let filter = view.filter.map(|filter| FilterView { terms, ..filter });
    ListView { filter, ..view }
}

#[test]
fn hostile_text_is_inert_in_the_list() {
    let line = hostile_line();
    // Every column, and two with a hostile name.
    let key = serde_json::Value::from(HOSTILE);
    let all = TRACE_ROWS.column_names().replace("KEY", &key.to_string());
    let all = all.replace("NAME", &key.to_string());
    let (_, unknown) = TRACE_ROWS.choose(&all);
    assert!(unknown.is_empty(), "{unknown:?}");
    let terms = vec![TermChip {
        text: text(HOSTILE),
        problem: Some(text(HOSTILE)),
        without: typed(),
        corrected: None,
        alone: None,
    }];
    let view = traces_view_with(&typed(), &[line], &all);
    let total = BoundedCount { n: 1_000, is_more: true };
    let html = checked(&ListView {
        position: position_text(Some(0), 1, Some(total)),
        parts: ListParts { count_href: Some("/p?count=exact".to_owned()), ..view.parts.clone() },
        ..with_terms(view, terms)
    });
    assert!(html.contains("1–1 of 1,000") && html.contains("+4"));
    let n_cells = html.split("<tr").nth(2).unwrap().matches("<td").count();
    assert_eq!(n_cells, 28, "a cell for each column, and the box");
    assert!(html.contains("cols=") && html.contains("Move Output left"));
}

#[test]
fn hostile_text_is_inert_in_the_peek() {
    let peek = Peek::new(PeekInput {
        base: "/project/p".to_owned(),
        close: "/project/p/traces?q=a".to_owned(),
        line: hostile_line(),
        trace: &trace(HOSTILE),
        scores: vec![score(HOSTILE)],
        n_observation_scores: 2,
        may_mark: true,
        forms: FormContext::default(),
        rejected_form: RejectedForm {
            values: vec![("add", typed())],
            problems: vec![("add", text(HOSTILE))],
        },
    });
    let alone = checked(&PeekPage { peek: peek.clone() });
    assert!(alone.contains("Open the trace") && alone.contains("2 scores of its observations"));
    assert!(alone.contains("name=\"add\"") && alone.contains("aria-invalid"));
    let view = traces_view("", &[hostile_line()]);
    let fragments = "/project/p/_/traces".to_owned();
    let panel = Some(PeekPanel { fragments, peek: Some(peek) });
    let filter = view.filter.clone().unwrap();
    let page = PageActions { peeked_id: Some(HOSTILE.to_owned()), ..PageActions::default() };
    let rows = [hostile_line()];
    let rows = (&TRACE_ROWS, rows.as_slice());
    let html = checked(&ListView {
        table: view.table.clone().with_actions(rows, &filter, &page),
        parts: ListParts { peek: panel, ..ListParts::default() },
        ..view
    });
    assert!(html.contains("aria-current=\"true\"") && html.contains("Open the trace"));
    assert!(
        html.contains("Not saved") && html.contains("data-swaps=\"tags rows\""),
        "the list says what was wrong with a tag"
    );
    let unknown = Peek::unknown("/project/p".to_owned(), "/project/p/traces".to_owned());
    assert!(checked(&PeekPage { peek: unknown }).contains("no trace with this id"));
}

#[test]
fn the_chart_above_the_list_has_notes() {
    let bar = |value, part| ChartBar {
        time: (Timestamp::from_millis(0), Timestamp::from_millis(86_400_000)),
        value,
        part,
        partial: (part > 0.0).then_some(SO_FAR),
        href: typed(),
    };
    let bars = [bar(4.0, 1.0), bar(0.0, 0.0)];
    let shown = |value: f64| value.to_string();
    let chart = Chart::new(("Traces", ChartPart::Errors), Granularity::Day, &bars, shown);
    let trend = Trend::Chart(chart.noting(vec!["the last 7 days"]).unfiltered());
    let alone = checked(&TrendPage { trend: trend.clone() });
    let page = |content| {
        let [page_href, fragment_href] =
            ["/p/traces?bars=1", "/p/_/traces/bars?"].map(str::to_owned);
        let chart = Some(DeferredPart { page_href, fragment_href, content });
        let parts = ListParts { chart, ..ListParts::default() };
        checked(&ListView { parts, ..traces_view("", &[]) })
    };
    let list = page(Some(trend));
    for html in [&alone, &list] {
        assert!(html.contains(">the last 7 days<") && html.contains(">Not filtered<"));
        assert!(html.contains("4, 1 with errors"));
    }
    let later = page(None);
    assert!(later.contains("/_/traces/bars?") && later.contains("?bars=1"), "{later}");
}

fn setup() -> Setup {
    Setup {
        refused: Some(RejectedRequest {
            at: "2026-03-01 10:00:00".to_owned(),
            status: 401,
            reason: "wrong secret",
        }),
        origin: "http://127.0.0.1:4717".to_owned(),
        project: "p".to_owned(),
        public_key: "pk-<1>".to_owned(),
    }
}

/// The page of a list with hostile text.
fn list_view<R: 'static>(
    list: &'static ListDeclaration<R>,
    (rows, filter): (&[R], FilterView),
) -> ListView {
    let (columns, _) = list.choose("");
    let (shell, time) = (shell(), Focus::default());
    let base = shell.base().to_owned();
    let forms = FormContext::default();
    let context = CellContext::new(&base, &time, &forms);
    ListView {
        texts: &list.texts,
        focus: Some(focus()),
        filter: Some(filter),
        selects: Vec::new(),
        path: format!("{base}/{}", list.texts.name),
        other_parameters: Vec::new(),
        notices: vec![text(HOSTILE)],
        stopped: None,
        action: None,
        choice: None,
        score_href: None,
        table: list.table(&columns, rows, &context),
        picker: list.picker("/p/list", &[], (columns.as_slice(), 50)),
        page_links: PageLinks::default(),
        position: "1–50 of 1,234".to_owned(),
        is_later: false,
        has_news: true,
        narrowed: Vec::new(),
        open_by_id: Some(("Id", text(HOSTILE))),
        notes: Vec::new(),
        setup: None,
        exports: [("Export CSV", typed()), ("Export JSONL", typed())],
        parts: ListParts::default(),
        shell,
    }
}

/// The list of sessions or users.
fn groups_view(by: GroupKey, rows: &[GroupRow], terms: Vec<TermChip>) -> ListView {
    match by {
        GroupKey::Session => list_view(&SESSION_ROWS, (rows, filter(terms))),
        GroupKey::User => list_view(&USER_ROWS, (rows, filter(terms))),
    }
}

/// The list of scores with a hostile filter, or without conditions.
fn scores_view(rows: &[ScoreRow], terms: Vec<TermChip>) -> ListView {
    let is_filtered = !terms.is_empty();
    let filter = FilterView {
        of: &SCORE_LIST,
        base: shell().base().to_owned(),
        q: if is_filtered { typed() } else { String::new() },
        terms,
        other_parameters: vec![("trace".into(), "t".to_owned())],
        sorts: Vec::new(),
        empty_counts: EmptyListCounts::default(),
    };
    let condition = || UrlCondition { name: "name", value: text(HOSTILE), without: typed() };
    ListView {
        narrowed: is_filtered.then(condition).into_iter().collect(),
        notes: vec![ListNote {
            text: "1 superseded score hidden".to_owned(),
            label: "show",
            href: "/p/scores?superseded=1".to_owned(),
        }],
        ..list_view(&SCORE_ROWS, (rows, filter))
    }
}

#[test]
fn commands_of_empty_lists_contain_the_url_of_the_server_and_can_be_copied() {
    let groups = |by| {
        let commands = GroupSetup { by, setup: setup() }.html();
        checked(&ListView { setup: commands, ..groups_view(by, &[], Vec::new()) })
    };
    let commands = ScoreSetup { setup: setup() }.html();
    let scores = checked(&ListView { setup: commands, ..scores_view(&[], Vec::new()) });
    let traces = traces_view("", &[]);
    let traces = checked(&ListView { setup: setup().html(&traces.shell), ..traces });
    for (html, n, expected) in [
        (groups(GroupKey::Session), 4, "\"session.id\""),
        (groups(GroupKey::User), 4, "\"user.id\""),
        (scores.clone(), 5, "TRACE_ID"),
        (traces, 5, "\"input.value\""),
    ] {
        let own = html.matches("data-copies=\"filter-json").count();
        let requests = html.matches("data-copies=\"api-").count() + own;
        let copies = html.matches("data-copies=").count();
        assert_eq!(copies - requests, n, "{html}");
        assert!(html.contains(expected) && html.contains("http://127.0.0.1:4717/"));
        assert!(html.contains(" data-wait") && html.contains("id=\"waits\""), "{html}");
        assert!(html.contains("pk-&#60;1&#62;"), "{html}");
        assert!(
            !html.contains("secret key'") && !html.contains("secret key\""),
            "the blank is marked: {html}"
        );
    }
    for way in [
        "langfuse.create_score(",
        "langfuse.score.create(",
        "/api/public/v2/evaluation-rules\"",
        "\"source\": \"ANNOTATION\"",
    ] {
        assert!(scores.contains(way), "{way}: {scores}");
    }
}

#[test]
fn an_empty_list_has_setup_instructions_and_a_filtered_one_removable_conditions() {
    let empty = traces_view("", &[]);
    let html = checked(&ListView { setup: setup().html(&empty.shell), ..empty });
    assert!(html.contains("OTEL_EXPORTER_OTLP_ENDPOINT=\"http://127.0.0.1:4717/api/public/otel\""));
    let chip = TermChip {
        text: text("userId:x"),
        problem: None,
        without: String::new(),
        corrected: None,
        alone: Some(BoundedCount { n: 10_000, is_more: true }),
    };
    let page = || traces_view("userId:x", &[]);
    let filtered = checked(&with_terms(page(), vec![chip]));
    assert!(filtered.contains("No traces match") && filtered.contains(": 10,000+ traces"));
    let focus =
        Focus { from: Some(Moment::Ago(120)), to: None, environments: vec!["staging".to_owned()] };
    let two = BoundedCount { n: 2, is_more: false };
    let mut narrowed = page();
    narrowed.filter = narrowed.filter.map(|filter| FilterView {
        other_parameters: focus.parameters(),
        empty_counts: EmptyListCounts { by_focus: [Some(two), None], ..EmptyListCounts::default() },
        ..filter
    });
    narrowed.shell.focus = focus;
    let narrowed = checked(&narrowed);
    let list = format!("{}/traces", shell().base());
    for expected in [
        format!(
            "Time <bdi>Last 2 hours</bdi>: 2 traces · <a href=\"{list}?q=userId%3Ax&env=staging\">remove"
        ),
        format!(
            "Environments <bdi>staging</bdi>: not counted · <a href=\"{list}?q=userId%3Ax&from=-2h\">remove"
        ),
        format!("<a href=\"{list}\">show all traces"),
    ] {
        assert!(narrowed.contains(&expected), "{expected} is missing: {narrowed}");
    }
    let behind = checked(&ListView { is_later: true, ..page() });
    assert!(behind.contains("No traces on this page") && !behind.contains("No traces match"));
}

#[test]
fn the_end_of_a_continued_search_counts_earlier_matches() {
    let page = |n_found| {
        let searched = Some(SearchProgress { n_tested: 23_456, n_found });
        let view = traces_view("a", &[]);
        let parts = ListParts { searched, ..view.parts.clone() };
        checked(&ListView { is_later: true, parts, ..view })
    };
    let looked = "23,456 traces searched, to the end of the list";
    for (n_found, expected, rest) in [
        (0, "No traces match", "."),
        (1, "No more matches", ": 1 match on earlier pages"),
        (5, "No more matches", ": 5 matches on earlier pages"),
    ] {
        let html = page(n_found);
        assert!(html.contains(expected), "{html}");
        assert!(html.contains(&format!("<p>{looked}{rest}")), "{html}");
        assert!(!html.contains("The list ends"), "{html}");
        let first = "/traces?q=a\">Show the first page</a>";
        assert_eq!(html.contains(first), 0 < n_found, "{html}");
    }
}

#[test]
fn a_row_has_a_relative_time_and_the_page_names_its_zone_once() {
    let html = checked(&traces_view("", &[hostile_line()]));
    let expected = ">00:00:00</time> <span class=\"ago\">3 min ago</span>";
    assert!(html.contains(expected), "{html}");
    assert_eq!(html.matches("times in <span data-zone>UTC</span>").count(), 1);
    assert!(!html.contains("Started, UTC"), "{html}");
}

#[test]
fn a_long_filter_is_not_repeated_for_each_value_of_a_row() {
    let page = |n: usize| checked(&traces_view(&"a".repeat(n), &[hostile_line()]));
    let [only, long, peek] = [
        "aria-label=\"Only environment",
        "the filter is too long to add a value",
        "class=\"peek\"",
    ];
    let usual = page(100);
    assert!(usual.contains(only) && usual.contains(peek) && !usual.contains(long));
    let longer = page(600);
    assert!(!longer.contains(only) && longer.contains(peek) && longer.contains(long));
    let longest = page(8_000);
    assert!(!longest.contains(peek) && longest.contains("Peek is not available"));
}

#[test]
fn a_stopped_search_shows_its_progress_instead_of_no_matches() {
    let page = |lines: Vec<TraceLine>| {
        let n = lines.len() as u64;
        let on = "/project/p/traces?q=a&after=_5_a".to_owned();
        checked(&ListView {
            stopped: Some(StoppedSearch {
                n_tested: 20_000,
                n_found: n,
                next_href: Some(on.clone()),
            }),
            page_links: PageLinks { next: Some(("Go on", on)), ..PageLinks::default() },
            ..traces_view("a", &lines)
        })
    };
    for (n, lines) in [(0, Vec::new()), (1, vec![hostile_line()])] {
        let html = page(lines);
        let expected = format!("The search stopped: 20,000 traces searched, {n} found.");
        assert!(html.contains(&expected), "{html}");
        assert_eq!(html.matches("&after=_5_a\"").count(), 2, "{html}");
        let continues = html.contains("data-onward=\"20000\" data-rows=\"traces\"");
        assert_eq!(continues, n == 0, "a script continues only without matches: {html}");
        assert!(html.contains("rel=\"next\""), "{html}");
        assert!(!html.contains("No traces match") && !html.contains(">none<"), "{html}");
    }
}

#[test]
fn an_error_in_a_filter_ends_in_one_full_stop_and_names_its_effect() {
    let chip = |text: &str, problem: Option<&str>| TermChip {
        text: Text::from(text),
        problem: problem.map(Text::from),
        without: String::new(),
        corrected: None,
        alone: None,
    };
    let page = |terms| checked(&with_terms(traces_view("", &[]), terms));
    let question = chip("latncy:>2", Some("did you mean `latency`?"));
    let corrected = TermChip { corrected: Some("latency:>2".to_owned()), ..question.clone() };
    let html = page(vec![corrected]);
    let link = "q=latency%3A%3E2\">Filter by <bdi>latency:&#62;2</bdi></a></p>";
    assert!(html.contains(link), "{html}");
    let html = page(vec![question.clone(), chip("level:ERROR", None)]);
    assert!(html.contains("did you mean <code>latency</code>? The other conditions apply.</p>"));
    let html = page(vec![question]);
    let expected = "<code>latency</code>? The condition is ignored.</p>";
    assert!(html.contains(expected), "{html}");
    let html = page(vec![chip("", Some("a filter has at most 8192 bytes"))]);
    let expected =
        "The filter is too long: a filter has at most 8192 bytes. The condition is ignored.</p>";
    assert!(html.contains(expected), "{html}");
    assert!(!html.contains("aria-label=\"Remove "), "{html}");
}

#[test]
fn a_list_without_matches_differs_from_a_stopped_search() {
    let page = |stopped: Option<StoppedSearch>| {
        let terms = vec![TermChip {
            text: text("errorCount:>0"),
            problem: None,
            without: String::new(),
            corrected: None,
            alone: None,
        }];
        checked(&ListView { stopped, ..groups_view(GroupKey::Session, &[], terms) })
    };
    let none = "No sessions match";
    let html = page(None);
    assert!(html.contains(none), "{html}");
    assert!(html.contains("href=\"/p/sessions?from=-7d\""), "{html}");
    assert!(html.contains("data-suggests=\"/p/_/sessions/suggest\""));
    assert!(!page(Some(StoppedSearch::default())).contains(none));
}

#[test]
fn a_trace_or_session_with_only_scores_shows_them() {
    let page = |is_session, scores_href: Option<&str>| {
        let at = Timestamp::from_millis(0);
        let value = ScoreValue::Text(HOSTILE.to_owned());
        checked(&ScoresOnlyPage {
            shell: shell(),
            id: text(HOSTILE),
            is_session,
            scores: match scores_href {
                Some(_) => Vec::new(),
                None => vec![ScoreView::new(HOSTILE, &value, ScoreSource::Api, at)],
            },
            outcomes: Vec::new(),
            observation_scores_href: scores_href.map(str::to_owned),
        })
    };
    let session = page(true, None);
    assert!(session.contains("No turns recorded") && session.contains("card-score"));
    let trace = page(false, Some("/p/scores?trace=t"));
    assert!(
        trace.contains("No observations recorded")
            && trace.contains("No scores of the trace as a whole")
    );
    assert!(trace.contains("href=\"/p/scores?trace=t\""), "{trace}");
}

#[test]
fn lists_of_sessions_and_users_are_inert() {
    for by in [GroupKey::Session, GroupKey::User] {
        let terms = vec![TermChip {
            text: text(HOSTILE),
            problem: Some(text(HOSTILE)),
            without: typed(),
            corrected: None,
            alone: None,
        }];
        let rows = GroupRow::all(vec![(hostile_group(by), HOSTILE.into(), 3)]);
        let html = checked(&ListView {
            stopped: Some(StoppedSearch {
                n_tested: 2_000,
                n_found: 1,
                next_href: Some("/p/sessions?q=a&after=1.a".to_owned()),
            }),
            page_links: PageLinks {
                previous: Some(("Newer", "/p?before=1.a".to_owned())),
                next: Some(("Older", "/p?after=1.a".to_owned())),
                ..PageLinks::default()
            },
            ..groups_view(by, &rows, terms)
        });
        assert!(html.contains("and 2 more") && html.contains("$1.15"), "{html}");
        assert!(html.contains(">1–50 of 1,234</span> · sorted by last"));
        assert!(html.contains("The search stopped: 2,000 sessions searched, 1 found."));
        let sparks =
            html.matches("aria-label=\"Most on 2026-03-01: 3\"><path d=\"M0 16v-8h.86v8\"/>");
        let sparks = sparks.count();
        assert_eq!(sparks, usize::from(by == GroupKey::User), "{html}");
    }
}

#[test]
fn a_user_and_a_session_are_inert() {
    let user = UserPage {
        shell: shell(),
        focus: focus(),
        notices: vec![text(HOSTILE)],
        line: hostile_group(GroupKey::User),
        is_outside: false,
        charts: Some(DeferredTrend {
            label: "Over time",
            fragment_href: typed(),
            page_href: typed(),
            trend: None,
        }),
        all_traces: typed(),
        sessions: session_table(
            &GroupRow::all(vec![(hostile_group(GroupKey::Session), HOSTILE.into(), 0)]),
            &CellContext::new("/p", &Focus::default(), &FormContext::default()),
        ),
        has_more_sessions: true,
        traces: vec![hostile_line()],
        low: vec![hostile_line()],
        low_names: vec![(text(HOSTILE), format!("/p/traces?q={}", encode(HOSTILE)))],
    };
    let outside = checked(&UserPage { is_outside: true, ..user.clone() });
    assert!(outside.contains("Show all time") && !outside.contains("<dt>Cost"), "{outside}");
    let user = checked(&user);
    assert!(user.contains("All traces of this user") && user.contains("data-later="));
    assert_eq!(user.matches(" id=\"rows\"").count(), 1, "{user}");
    let turn = TurnInput { line: hostile_line(), trace: trace(HOSTILE), tools: None };
    let session = checked(&SessionPage {
        shell: shell(),
        line: hostile_group(GroupKey::Session),
        users: vec![text(HOSTILE)],
        scores: Vec::new(),
        outcomes: Vec::new(),
        rules: RuleRange { from: 0, n: 50, n_all: 60 },
        turns: Turn::all(1, None, vec![turn], "/project/p"),
        n_turns: 30,
        current_turn: 1,
        is_jump: true,
        typed_turn: typed(),
        fault: Some("The turn is not understood: it is a number."),
        found: Some(TurnHits::new(
            ("/project/p", HOSTILE),
            &typed(),
            vec![(7, trace(&typed())), (9, trace("other"))],
            (true, 1),
        )),
        page_links: PageLinks::default(),
    });
    assert!(session.contains("Turns 1–1 of 30"));
    assert!(session.contains("More than 2 turns, showing the first: Not searched: 1 later turn."));
    let hit = session.split_once("href=\"?turn=7&").unwrap().1;
    assert!(hit.starts_with("find=") && session.contains("in an observation"), "{hit}");
    assert!(session.contains("Rules 1–50 of 60 shown."));
    assert!(session.contains("href=\"?turn=1&rules=50#pane-scores\">More rules"));
}

#[test]
fn an_id_shows_control_characters_and_a_comment_keeps_line_breaks() {
    let group = TraceGroup { id: "a\tb\nc".to_owned(), ..hostile_group(GroupKey::User).group };
    let line = GroupLine::new(GroupKey::User, group);
    assert_eq!(line.id.to_string(), "a␉b␊c");
    assert_eq!(line.href("/p"), "/p/users/a%09b%0Ac");
    let score = ScoreView::new(
        "a\nb",
        &ScoreValue::Boolean(true),
        ScoreSource::Api,
        Timestamp::from_millis(0),
    );
    let score = score.comment(Some("first\nsecond"));
    assert_eq!(score.name.to_string(), "a␊b");
    assert_eq!(score.comment.clone().unwrap().to_string(), "first\nsecond");
    assert!(score.metadata.is_none());
    let mut metadata = serde_json::Map::new();
    metadata.insert("judge".to_owned(), "x".into());
    let metadata = score.metadata(&metadata).metadata.unwrap();
    assert_eq!(metadata.to_string(), "{\n  \"judge\": \"x\"\n}");
}

#[test]
fn the_list_of_scores_is_inert_and_links_to_the_same_fingerprint() {
    let written = perpend_domain::score::NewScore {
        id: perpend_domain::ids::ScoreId::new("s").unwrap(),
        name: HOSTILE.to_owned(),
        value: ScoreValue::Categorical(HOSTILE.to_owned()),
        subject: perpend_domain::score::Subject::Session(HOSTILE.to_owned()),
        source: ScoreSource::Eval,
        timestamp: Timestamp::from_millis(0),
        environment: HOSTILE.to_owned(),
        comment: Some(HOSTILE.to_owned()),
        metadata: serde_json::Map::new(),
        config_id: Some("config id".to_owned()),
        queue_id: None,
        author_user_id: None,
        origin: None,
    };
    let score = perpend_domain::score::Score {
        created_at: Timestamp::from_millis(0),
        updated_at: Timestamp::from_millis(0),
        written,
    };
    let origin = OriginView {
        evaluator: ResourceLink::new(HOSTILE, HOSTILE),
        version: Some(2),
        plugin: None,
        settings: vec![(text("min"), text("not in a row"))],
        rule: ResourceLink::new(HOSTILE, HOSTILE),
        fingerprint: "ab".repeat(32),
        execution: text("x"),
        sampling: 1.0,
    };
    let chip = TermChip {
        text: text(HOSTILE),
        problem: Some(text(HOSTILE)),
        without: String::new(),
        corrected: None,
        alone: None,
    };
    let page = |lines: Vec<ScoreLine>| {
        let row = |line| ScoreRow { score: score.clone(), line, author: None, config: None };
        let rows: Vec<ScoreRow> = lines.into_iter().map(row).collect();
        scores_view(&rows, vec![chip.clone()])
    };
    let line = ScoreLine::new(&score, Some(origin), "/p");
    let html = checked(&page(vec![line.clone()]));
    assert!(html.contains(&format!("href=\"{}/scores?fingerprint=abab", shell().base())));
    assert!(html.contains("title=\"config id\">config i…<"), "{html}");
    assert!(html.contains("<dt>Execution</dt>") && !html.contains(">Author</th>"));
    assert!(!html.contains("not in a row"), "{html}");
    // Names replace ids, and a superseded score names the current one.
    let older = line.clone().superseded_by(&line);
    let named = line.named(Some(HOSTILE), Some("Helpfulness")).traced("/p/traces/x".to_owned());
    let html = checked(&page(vec![named, older]));
    assert!(html.contains(">Helpfulness<") && html.contains("href=\"/p/traces/x\""));
    assert_eq!(html.matches("class=\"older\"").count(), 1, "{html}");
    assert!(html.contains("of version 2"), "{html}");
    assert!(checked(&page(Vec::new())).contains("No scores match"));
}
