//! Sample views for tests, some with hostile text, and checks of rendered pages.

use perpend_domain::cost::CostSum;
use perpend_domain::ids::TraceId;
use perpend_domain::observation::{Level, Observation, ObservationKind};
use perpend_domain::outline::{Folds, Outline};
use perpend_domain::payload::Payload;
use perpend_domain::score::{ScoreSource, ScoreValue};
use perpend_domain::telemetry::ObservationSummary;
use perpend_domain::time::Timestamp;
use perpend_domain::trace::{ObservationNames, Trace};
use serde_json::json;

use crate::lists::chips::tests::scored;
use crate::trace::sample_observations::observation;
use crate::*;

/// Text that breaks pages without escaping: markup, quotes, direction and control characters.
pub(crate) const HOSTILE: &str = "</pre><script>alert(1)</script><img src=x onerror=\"alert(2)\">' \" & \u{202e}txt\u{1}\u{7f} ﷽ שלום";

pub(crate) fn text(raw: &str) -> Text {
    Text::from(raw)
}

/// A focus with a hostile environment name.
pub(crate) fn focus() -> FocusView {
    let focus =
        Focus { from: Moment::parse("-7d"), to: None, environments: vec![HOSTILE.to_owned()] };
    FocusView::new(
        &focus,
        ("/p".to_owned(), vec![("q".into(), "a b".to_owned())]),
        ("All time", true),
    )
}

pub(crate) fn forms() -> FormContext {
    FormContext {
        token: format!("{}.0123456789abcdef", "A".repeat(86)),
        return_url: format!("/project/p?q={}", encode(HOSTILE)),
        flash: Some(FlashMessage {
            id: "0123456789abcdef".to_owned(),
            text: Text::from(HOSTILE),
            undo: Some(Undo {
                action: "/project/p/bookmarks".to_owned(),
                fields: vec![("set", encode(HOSTILE))],
            }),
        }),
    }
}

pub(crate) fn shell() -> Shell {
    Shell {
        project: Some(ProjectLink::new(HOSTILE, HOSTILE)),
        others: vec![ProjectLink::new(HOSTILE, HOSTILE)],
        section: Section::Traces,
        preferences: Preferences::of_cookie("off.dark.compact.utc"),
        forms: forms(),
        focus: Focus::default(),
        attention: AttentionCounts { paused: 2, failed: 100 },
        url: format!("/project/p?q={}&in={}", encode(HOSTILE), encode(HOSTILE)),
        api: vec![
            ApiRequest::new("http://localhost:4717", &encode(HOSTILE)).with("filter", HOSTILE),
        ],
        alarms: Vec::new(),
        is_operator: false,
        account: None,
        hidden: Vec::new(),
        now: Timestamp::from_millis(180_000),
    }
}

fn observation_names(name: &str) -> ObservationNames {
    ObservationNames {
        kinds: vec!["GENERATION".to_owned(), "TOOL".to_owned()],
        models: vec![name.to_owned(); 5],
        prompts: vec![name.to_owned()],
    }
}

pub(crate) fn trace(name: &str) -> Trace {
    let at = Timestamp::from_millis(1_772_359_200_000);
    Trace {
        id: TraceId::new("0af7651916cd43dd8448eb211c80319c").unwrap(),
        name: Some(name.to_owned()),
        input: Some(Payload::Text(name.to_owned())),
        output: Some(Payload::from_value(json!([{"role": "assistant", "content": name}]))),
        timestamp: at,
        user_id: Some(name.chars().filter(|c| !c.is_control()).collect()),
        session_id: Some(name.to_owned()),
        release: Some(name.to_owned()),
        version: None,
        environment: "production".to_owned(),
        public: false,
        bookmarked: true,
        tags: vec![name.to_owned(), "billing".to_owned()],
        metadata: json!({name: name}).as_object().unwrap().clone(),
        observation_names: observation_names(name),
        root: None,
        root_is_provisional: false,
        duplicates: Vec::new(),
        usage: [("input".to_owned(), 900.into()), ("output".to_owned(), 100.into())].into(),
        total_cost: 0.0123,
        n_priced: 1,
        n_unpriced: 0,
        latency_us: 1_500_000,
        n_observations: 3,
        n_by_level: [0, 1, 1, 1],
        first_start: at,
        last_end: at.plus_millis(1_500),
    }
}

pub(crate) fn outcome(name: &str) -> RuleOutcome {
    RuleOutcome {
        rule: ResourceLink::new(name, name),
        evaluators: vec![ResourceLink::new(name, name)],
        state: "not sampled",
        tone: Tone::Plain,
        sentence: text(name),
        requeue: Some("/project/p/executions/5d1f0c/requeue".to_owned()),
        execution_href: Some("/project/p/executions/5d1f0c".to_owned()),
        score_names: vec![text(name)],
        facts: vec![("Sampling number", text(name).into())],
    }
}

pub(crate) fn score(name: &str) -> ScoreView {
    let at = Timestamp::from_millis(0);
    let origin = OriginView {
        evaluator: ResourceLink::new(name, name),
        version: Some(3),
        plugin: Some(text(name)),
        settings: vec![(text(name), text(name))],
        rule: ResourceLink::new(name, name),
        fingerprint: "ab".repeat(32),
        execution: text("5d1f0c"),
        sampling: 0.125,
    };
    ScoreView::new(name, &ScoreValue::Categorical(name.to_owned()), ScoreSource::Eval, at)
        .comment(Some(name))
        .origin(Some(origin))
}

pub(crate) fn hostile_observation() -> Observation {
    let mut observation = observation("a<b>\"'&", None, 0, 500);
    observation.kind = ObservationKind::Generation;
    observation.level = Level::Error;
    for field in [
        &mut observation.status_message,
        &mut observation.model,
        &mut observation.user_id,
        &mut observation.release,
    ] {
        *field = Some(HOSTILE.to_owned());
    }
    observation.name = HOSTILE.to_owned();
    observation.scope_name = HOSTILE.to_owned();
    observation.called_tools = vec![HOSTILE.to_owned()];
    observation.model_parameters = json!({HOSTILE: HOSTILE}).as_object().unwrap().clone();
    observation.usage = [(HOSTILE.to_owned(), 7.into())].into();
    observation.content.input = Some(Payload::from_value(json!([
        {"role": HOSTILE, "name": HOSTILE, "content": HOSTILE},
        {"role": "assistant", "content": [{"type": "tool_use", "name": HOSTILE, "input": {HOSTILE: HOSTILE}}]},
    ])));
    observation.content.output = Some(Payload::from_value(json!({HOSTILE: [HOSTILE]})));
    let happened = json!({ "name": HOSTILE, "attributes": { HOSTILE: HOSTILE } });
    let link = json!({ "traceId": HOSTILE, "spanId": HOSTILE });
    let metadata = json!({ HOSTILE: HOSTILE, "events": [happened], "links": [link] });
    observation.content.metadata = metadata.as_object().unwrap().clone();
    observation.content.tool_definitions = Some(json!([{HOSTILE: HOSTILE}]));
    observation
}

pub(crate) fn summary(observation: &Observation) -> ObservationSummary {
    ObservationSummary {
        id: observation.id.to_string(),
        parent_id: observation.parent_id.as_ref().map(ToString::to_string),
        kind: observation.kind,
        name: observation.name.clone(),
        level: observation.level,
        start: observation.start,
        end: observation.end,
        first_token: observation.completion_start,
        model: observation.model.clone(),
        tokens: Some(7),
        cost: Some(0.5),
    }
}

pub(crate) fn outline(steps: &[Observation]) -> Outline {
    Outline::new(steps.iter().map(summary).collect())
}

/// Selection and view of a trace page.
#[derive(Default)]
pub(crate) struct Shown {
    pub(crate) folds: Folds,
    pub(crate) at: usize,
    pub(crate) selected: Option<Observation>,
    pub(crate) view_params: ViewParams,
}

pub(crate) fn trace_page(outline: &Outline, shown: Shown) -> TracePage {
    let head = HeadInput {
        faults: vec![HOSTILE.to_owned()],
        may_mark: true,
        rejected_form: RejectedForm {
            values: vec![("add", typed())],
            problems: vec![("add", Text::from(HOSTILE))],
        },
        first_token_us: Some(120_000),
        chips: hostile_chips(),
        ..HeadInput::default()
    };
    trace_page_with(outline, shown, head)
}

pub(crate) fn trace_page_with(outline: &Outline, shown: Shown, head: HeadInput) -> TracePage {
    let selected = shown.selected.as_ref();
    let selected = selected.and_then(|observation| outline.find(observation.id.as_str()));
    let of_step = selected.map(|row| (Some(outline.rows()[row].id().to_owned()), 2));
    let view = outline.view(&shown.folds, selected);
    let input = DetailInput {
        may_write_datasets: true,
        base: "/project/p".to_owned(),
        form_context: forms(),
        scores: vec![score(HOSTILE).id(HOSTILE)],
        outcomes: vec![outcome(HOSTILE)],
        observation_scores: Some(ObservationScores {
            scores: vec![ObservationScore::new(
                HOSTILE,
                &ScoreValue::Text(HOSTILE.to_owned()),
                HOSTILE,
                format!("?observation={}{}", encode(HOSTILE), anchor(HOSTILE)),
            )],
            all: Some(format!("/project/p/scores?trace={}", encode(HOSTILE))),
        }),
        ..DetailInput::default()
    };
    TracePage::new(TraceInput {
        shell: shell(),
        trace: trace(HOSTILE),
        trace_selected: shown.selected.is_none(),
        detail: match &shown.selected {
            Some(observation) => DetailPage::of_observation(observation, input),
            None => DetailPage::of_trace(&trace(HOSTILE), input),
        },
        rows: RowsInput {
            view: &view,
            folds: &shown.folds,
            at: shown.at,
            n: ROW_WINDOW,
            anchor: None,
            revision: 1,
            selected,
            n_scores: &[(None, 1)].into_iter().chain(of_step).collect(),
            chips: &[("root".to_owned(), hostile_chips()[..1].to_vec())].into(),
            with_map: true,
            view_params: &shown.view_params,
        },
        head,
    })
}

fn hostile_chips() -> Vec<ScoreChip> {
    let value = || ScoreValue::Text(HOSTILE.to_owned());
    let named = |n| scored(&format!("{n}{HOSTILE}"), value(), Some("a<b>\"'&"));
    let scores: Vec<_> = (0..6).map(named).collect();
    score_chips(&scores.iter().collect::<Vec<_>>())
}

pub(crate) fn hostile_line() -> TraceLine {
    TraceLine {
        id: HOSTILE.to_owned(),
        name: Some(text(HOSTILE)),
        at: Timestamp::from_millis(0),
        environment: text(HOSTILE),
        user: Some(text(HOSTILE)),
        session: Some(text(HOSTILE)),
        bookmarked: true,
        tags: vec![text(HOSTILE); 5],
        observation_names: observation_names(HOSTILE),
        latency_us: 1_000,
        tokens: 12,
        cost: CostSum::of_observation(Some(0.5), true),
        n_observations: 3,
        n_errors: 1,
        n_warnings: 2,
        scores: hostile_chips(),
        input: Preview::of(HOSTILE, &[]),
        output: Preview::of(HOSTILE, &["script"]),
        release: Some(text(HOSTILE)),
        version: Some(text(HOSTILE)),
        parts: [9, 3],
        content: TraceContent {
            metadata: trace(HOSTILE).metadata,
            scores: vec![scored(HOSTILE, ScoreValue::Text(HOSTILE.to_owned()), None)],
            ..TraceContent::default()
        },
    }
}

/// Hostile text as a user can type it.
pub(crate) fn typed() -> String {
    let is_typed = |c: &char| !c.is_control() && *c != '\u{202e}';
    HOSTILE.chars().filter(is_typed).collect()
}

/// Panics if the page contains active content, or an attribute or tag from trace text.
fn assert_inert(page: &str) {
    let lower = page.to_lowercase();
    assert_eq!(lower.matches("<script").count(), lower.matches("<script src=\"/assets/").count());
    let own = ["/assets/", "/traces/", "/media/"];
    let own = own.map(|path| lower.matches(&format!("<img src=\"{path}")).count());
    assert_eq!(lower.matches("<img").count(), own.iter().sum::<usize>());
    for bad in [" style=", "<style", "<iframe", "javascript:"] {
        assert!(!lower.contains(bad), "{bad}");
    }
    // `onerror="..."` of the hostile text must only be there with its quotes escaped.
    assert!(!lower.contains("onerror=\"") && !lower.contains("onerror='"));
    let is_hidden = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
    let hidden = page.lines().find(|line| line.contains(is_hidden));
    assert_eq!(hidden, None);
}

/// Panics if tags are not balanced.
fn assert_well_formed(page: &str) {
    const VOID: [&str; 9] =
        ["!doctype", "meta", "link", "img", "input", "rect", "path", "br", "hr"];
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

pub(crate) fn checked(page: &impl askama::Template) -> String {
    let html = render(page).unwrap();
    assert_inert(&html);
    assert_well_formed(&html);
    html.replace("&#38;", "&").replace("&amp;", "&")
}
