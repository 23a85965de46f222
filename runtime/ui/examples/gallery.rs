//! Writes every page with sample data into a folder, to work on looks without a server:
//! `cargo run -p perpend-ui --example gallery -- target/gallery`, then serve that folder.

use std::path::Path;

use perpend_domain::facets::Counted;
use perpend_domain::fold::fold;
use perpend_domain::ids::{ObservationId, TraceId};
use perpend_domain::observation::{Level, Observation, ObservationKind};
use perpend_domain::payload::Payload;
use perpend_domain::score::{ScoreSource, ScoreValue};
use perpend_domain::telemetry::Bone;
use perpend_domain::time::Timestamp;
use perpend_outline::{Folds, Outline};
use perpend_ui::{
    Chip, DetailInput, DetailPage, ErrorPage, EvaluatorRow, HeadInput, InlineMedium, ListPage,
    LoginPage, Looking, Named, Opened, Origin, Pager, Preview, RowsInput, RuleRow, RulesPage,
    ScoreView, Section, Setup, Shell, Text, Tone, TraceInput, TraceLine, TracePage, TracesPage,
    TracesQuery, Verdict, WINDOW, Ways, assets, render, total_tokens,
};
use serde_json::json;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args()
        .nth(1)
        .unwrap_or_else(|| "target/gallery".to_owned());
    let folder = Path::new(&folder);
    std::fs::create_dir_all(folder.join("assets"))?;
    let write = |name: &str, html: String| std::fs::write(folder.join(name), html);
    let login = LoginPage {
        problem: Some("This token is not the one of this server."),
        ..LoginPage::default()
    };
    write("login.html", render(&login)?)?;
    let error = ErrorPage {
        shell: shell(Section::Elsewhere),
        status: 500,
        title: "Something broke here",
        message: "The page could not be made. Nothing that was sent is lost.".into(),
        again_after: None,
        request_id: Some("0b5c1d9e".into()),
    };
    write("error.html", render(&error)?)?;
    write("traces.html", render(&traces())?)?;
    let empty = TracesPage {
        shell: shell(Section::Traces),
        setup: Some(Setup {
            origin: "http://127.0.0.1:4717".to_owned(),
            public_key: "pk-lf-demo".to_owned(),
            refused: None,
        }),
        ..TracesPage::default()
    };
    write("empty.html", render(&empty)?)?;
    let html = render(&trace(sample(), None)?)?;
    for path in html.split('"').filter(|part| part.starts_with("/assets/")) {
        if let Some(asset) = assets::find(path) {
            std::fs::write(folder.join(&path[1..]), asset.bytes)?;
        }
    }
    write("trace.html", html)?;
    write("step.html", render(&trace(sample(), Some("g2"))?)?)?;
    write("conversation.html", render(&trace(talk(), Some("g1"))?)?)?;
    for step in talk()? {
        write_media(folder, &step)?;
    }
    write("large.html", render(&trace(large(), Some("o4900"))?)?)?;
    write("rules.html", render(&rules())?)?;
    Ok(())
}

fn shell(section: Section) -> Shell {
    Shell {
        project: Some(Opened::new("support-bot", "support-bot")),
        section,
        ..Shell::default()
    }
}

fn traces() -> TracesPage {
    let names = [
        "answer-question",
        "summarise-ticket",
        "refund-agent",
        "classify-intent",
        "nightly-digest",
    ];
    let lines = (0..18_usize).map(|i| TraceLine {
        id: format!("{i:032x}"),
        name: (i != 7).then(|| names[i % 5].into()),
        at: Timestamp::from_millis(1_772_359_200_000 - i as i64 * 47_123),
        environment: if i % 4 == 3 {
            "staging".into()
        } else {
            "production".into()
        },
        user: (i % 3 != 2).then(|| Text::from(format!("user-{}", 4_100 + i * 7))),
        session: (i % 3 == 0).then(|| Text::from(format!("chat-9f{i:02x}71ab"))),
        bookmarked: i % 5 == 1,
        is_markable: true,
        tags: if i % 4 == 0 {
            vec!["billing".into(), "beta".into()]
        } else {
            Vec::new()
        },
        latency_us: 412_000 + (i as i64 * 7_919_113) % 9_000_000,
        tokens: (i as u64 * 1_733) % 9_000,
        cost: ((i * 1_733) % 9_000) as f64 * 0.000_004_1,
        n_observations: 3 + (i as u32 * 5) % 11,
        n_errors: u32::from(i == 2 || i == 9),
        n_warnings: u32::from(i == 4) * 2,
        scores: match i % 3 {
            0 => vec![
                Chip::new("exact_match", &ScoreValue::Boolean(i % 2 == 0)),
                Chip::new("helpfulness", &ScoreValue::Numeric(0.82)),
            ],
            1 => vec![Chip::new(
                "tone",
                &ScoreValue::Categorical("friendly".to_owned()),
            )],
            _ => Vec::new(),
        },
        input: Preview::of("Where is my order 4711?", &[]),
        output: Preview::of("It is on its way and comes on 4 March.", &[]).filter(|_| i != 9),
        release: None,
        version: None,
        parts: [0, 0],
        metadata: [].into(),
        by_name: [].into(),
    });
    let query = TracesQuery::default();
    let next = Some(query.address("/project/support-bot", &ListPage::Number(2)));
    TracesPage {
        shell: shell(Section::Traces),
        query,
        lines: lines.collect(),
        pager: Pager {
            n_before: Some(0),
            n: 18,
            total: Some(Counted {
                n: 1_284,
                is_more: false,
            }),
            exact: None,
            ways: Ways {
                behind: next.map(|next| ("Next", next)),
                ..Ways::default()
            },
        },
        ..TracesPage::default()
    }
}

type Step = (
    &'static str,
    Option<&'static str>,
    ObservationKind,
    &'static str,
    i64,
    i64,
);

fn step(
    (id, parent, kind, name, start_ms, ms): Step,
) -> Result<Observation, Box<dyn std::error::Error>> {
    let start = Timestamp::from_millis(1_772_359_200_000 + start_ms);
    let value = json!({
        "trace_id": "0af7651916cd43dd8448eb211c80319c", "id": id, "parent_id": parent,
        "kind": kind, "name": name, "start": start, "end": start.plus_millis(ms), "completion_start": null,
        "level": Level::Default, "status_message": null, "environment": "production", "release": "2026.3",
        "version": null, "user_id": "user-4107", "session_id": "chat-9f0071ab", "tags": ["billing"],
        "model": null, "provider": null, "model_parameters": {}, "prompt": null, "usage": {}, "cost": {},
        "computed_cost": {}, "price_id": null, "aggregate_usage": {}, "aggregate_cost": {},
        "response_id": null, "scope_name": "openinference.langgraph", "is_app_root": false,
        "as_root": false, "called_tools": [], "trace": null, "is_complete_marker": false,
        "experiment": null, "attribute_count": 4, "content": {},
    });
    Ok(serde_json::from_value(value)?)
}

fn sample() -> Result<Vec<Observation>, Box<dyn std::error::Error>> {
    use ObservationKind::*;
    let rows: [Step; 10] = [
        ("root", None, Agent, "answer-question", 0, 4_820),
        (
            "guard",
            Some("root"),
            Guardrail,
            "prompt-injection check",
            12,
            180,
        ),
        (
            "ret",
            Some("root"),
            Retriever,
            "search knowledge base",
            210,
            690,
        ),
        ("emb", Some("ret"), Embedding, "embed question", 220, 140),
        ("sql", Some("ret"), Span, "pgvector query", 370, 505),
        ("g1", Some("root"), Generation, "plan", 930, 1_240),
        ("tool", Some("root"), Tool, "refund_lookup", 2_190, 610),
        ("http", Some("tool"), Span, "GET /refunds/81723", 2_200, 590),
        ("g2", Some("root"), Generation, "write answer", 2_830, 1_960),
        ("late", Some("gone"), Event, "feedback recorded", 4_800, 0),
    ];
    let mut steps = rows.into_iter().map(step).collect::<Result<Vec<_>, _>>()?;
    for (index, input, output) in [(5, 812, 96), (8, 1_530, 288)] {
        let step = &mut steps[index];
        step.model = Some("gpt-4o-mini".to_owned());
        step.provider = Some("openai".to_owned());
        step.usage = [
            ("input".to_owned(), input),
            ("output".to_owned(), output),
            ("total".to_owned(), input + output),
        ]
        .into();
        step.computed_cost = [(
            "total".to_owned(),
            input as f64 * 1.5e-7 + output as f64 * 6e-7,
        )]
        .into();
        step.completion_start = Some(step.start.plus_millis(420));
        step.content.input = Some(Payload::from_value(json!([
            {"role": "system", "content": "You answer questions about invoices and refunds. Be short, name the policy you rely on, never promise money that has not been approved."},
            {"role": "user", "content": "Where is my refund for order 81723? It has been two weeks."},
            {"role": "assistant", "content": null, "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "refund_lookup", "arguments": "{\"order\":81723}"}}]},
            {"role": "tool", "tool_call_id": "c1", "content": "{\"status\":\"approved\",\"on\":\"2026-02-27\",\"amount\":42.5}"},
        ])));
        step.content.output = Some(Payload::from_value(
            json!({"role": "assistant", "content": "Your refund of $42.50 for order 81723 was approved on 27 February. Banks take up to five working days, so it should arrive by 6 March. (Refund policy, section 3.)"}),
        ));
    }
    steps[6].level = Level::Warning;
    steps[6].status_message = Some("slow upstream: 590 ms".to_owned());
    steps[0].content.metadata = json!({"customer": {"plan": "team", "seats": 12}, "flags": ["beta", "eu"], "temperature": 0.2, "cached": false}).as_object().cloned().unwrap_or_default();
    steps[0].content.input = Some(Payload::Text(
        "Where is my refund for order 81723? It has been two weeks.".to_owned(),
    ));
    steps[0].content.output = Some(Payload::Text(
        "Your refund of $42.50 for order 81723 was approved on 27 February.".to_owned(),
    ));
    Ok(steps)
}

/// A model call with every kind of part.
fn talk() -> Result<Vec<Observation>, Box<dyn std::error::Error>> {
    const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNgYGD4DwABBAEAX+XDSwAAAABJRU5ErkJggg==";
    let mut step = step((
        "g1",
        None,
        ObservationKind::Generation,
        "describe",
        0,
        2_100,
    ))?;
    let call = |id: &str, city: &str| json!({"id": id, "type": "function", "function": {"name": "get_weather", "arguments": json!({"city": city}).to_string()}});
    step.content.input = Some(Payload::from_value(json!({
        "model": "gpt-4o",
        "temperature": 0.2,
        "tools": [
            {"type": "function", "function": {"name": "get_weather", "description": "Weather of a city now", "parameters": {"type": "object"}}},
            {"type": "function", "function": {"name": "send_mail", "parameters": {"type": "object"}}},
        ],
        "messages": [
            {"role": "system", "content": "You describe places. Be short."},
            {"role": "user", "name": "mia", "content": [
                {"type": "text", "text": "What is on this picture, and how is the weather there and in Oslo?"},
                {"type": "image_url", "image_url": {"url": format!("data:image/png;base64,{PNG}"), "detail": "low"}},
                {"type": "image_url", "image_url": {"url": "https://pictures.example/paris/eiffel.jpg"}},
                {"type": "input_audio", "input_audio": {"data": "UklGRiQAAABXQVZF", "format": "wav"}},
                {"type": "file", "file": {"filename": "itinerary.pdf", "file_data": "data:application/pdf;base64,JVBERi0xLjQ="}},
            ]},
            {"role": "assistant", "reasoning_content": "Two cities: Paris and Oslo.", "content": null, "tool_calls": [call("c1", "Paris"), call("c2", "Oslo")]},
            {"role": "tool", "tool_call_id": "c2", "status": "error", "content": "upstream timed out"},
            {"role": "tool", "tool_call_id": "c1", "content": "{\"celsius\":12,\"sky\":\"rain\"}"},
            {"role": "user", "content": "And tomorrow?", "client": {"app": "ios", "version": "4.1"}},
        ],
    })));
    step.content.output = Some(Payload::from_value(json!({
        "id": "chatcmpl-1",
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Tomorrow it is dry in Paris; Oslo did not answer.", "refusal": null}}],
        "usage": {"prompt_tokens": 410, "completion_tokens": 23},
    })));
    step.content.tool_definitions = Some(json!([{"name": "get_weather", "input_schema": {}}]));
    step.called_tools = vec!["get_weather".to_owned()];
    Ok(vec![step])
}

/// The media inside the input of a step, at the addresses that its page has for them.
fn write_media(folder: &Path, step: &Observation) -> Result<(), Box<dyn std::error::Error>> {
    let address = format!(
        "traces/{}/observations/{}/raw/input/media",
        step.trace_id, step.id
    );
    let media = folder.join(address);
    std::fs::create_dir_all(&media)?;
    let Some(input) = &step.content.input else {
        return Ok(());
    };
    let found = (0..).map_while(|number| Some((number, InlineMedium::of(input, number)?)));
    for (number, medium) in found {
        std::fs::write(media.join(number.to_string()), medium.bytes)?;
    }
    Ok(())
}

fn large() -> Result<Vec<Observation>, Box<dyn std::error::Error>> {
    let names = ["plan", "call tool", "write"];
    (0..5_000_usize)
        .map(|i| {
            let mut made = step((
                "x",
                None,
                ObservationKind::ALL[i % 10],
                names[i % 3],
                i as i64 * 3,
                40,
            ))?;
            made.id = ObservationId::new(&format!("o{i}"))?;
            made.parent_id = (i > 0)
                .then(|| ObservationId::new(&format!("o{}", i * 7 / 8)))
                .transpose()?;
            Ok(made)
        })
        .collect()
}

fn pane(
    step: Option<&Observation>,
    trace: &perpend_domain::trace::Trace,
    input: DetailInput,
) -> DetailPage {
    match step {
        Some(step) => DetailPage::of_observation(step, input),
        None => DetailPage::of_trace(trace, input),
    }
}

fn trace(
    steps: Result<Vec<Observation>, Box<dyn std::error::Error>>,
    selected: Option<&str>,
) -> Result<TracePage, Box<dyn std::error::Error>> {
    let observations = steps?;
    let mut trace = fold(&observations).ok_or("no observations")?;
    if let Some(root) = observations.first() {
        trace.add_root_content(&root.content);
    }
    let at = Timestamp::from_millis(1_772_359_206_000);
    let origin = |evaluator: &str, rule: &str| Origin {
        evaluator: Named::new(evaluator, "e1"),
        version: Some(3),
        plugin: Some("perpend/text 0.1.0 · contains-all".into()),
        rule: Named::new(rule, "r1"),
        fingerprint: "9c1e4f6a8b2d7035e1f49a6cb87d20f3514e6b9a0c3d8f7216e5a4b3c2d1f098".to_owned(),
        execution: "4b7e0d2c91fa4c6f8d35a1be60c7f294".into(),
        sampling: 0.25,
    };
    let scores = vec![
        ScoreView::new(
            "names_policy",
            &ScoreValue::Boolean(true),
            ScoreSource::Eval,
            at,
        )
        .comment(Some("all of 2 texts were found: \"policy\", \"section\""))
        .origin(Some(origin("Names the policy", "Answers in production"))),
        ScoreView::new(
            "helpfulness",
            &ScoreValue::Numeric(0.82),
            ScoreSource::Api,
            at,
        ),
    ];
    let verdicts = vec![Verdict {
        rule: Named::new("Valid JSON everywhere", "r1"),
        evaluators: vec![Named::new("Valid JSON", "e1")],
        state: "not sampled",
        tone: Tone::Plain,
        requeue: None,
        sentence:
            "This rule scores 10 % of what it matches, and this observation is not in the sample."
                .into(),
        makes: Vec::new(),
        facts: vec![
            ("Sampling number", "0.4821".into()),
            ("Needed", "below 0.1".into()),
        ],
    }];
    let outline = Outline::new(observations.iter().map(bone).collect());
    let row = selected.and_then(|id| outline.find(id));
    let mut observations = observations.into_iter();
    let step = observations.find(|step| Some(step.id.as_str()) == selected);
    let folds = Folds::default();
    let view = outline.view(&folds, row);
    let around = row.and_then(|row| view.index_of(row)).unwrap_or_default();
    trace.id = TraceId::new("0af7651916cd43dd8448eb211c80319c")?;
    let input = DetailInput {
        base: "/project/support-bot".to_owned(),
        scores,
        verdicts,
        ..DetailInput::default()
    };
    Ok(TracePage::new(TraceInput {
        shell: shell(Section::Traces),
        trace_selected: step.is_none(),
        detail: pane(step.as_ref(), &trace, input),
        trace,
        rows: RowsInput {
            view: &view,
            folds: &folds,
            at: around.saturating_sub(WINDOW / 2),
            n: WINDOW,
            selected: row,
            n_scores: &[(None, 1), (Some("g2".to_owned()), 2)].into(),
            with_map: true,
            looking: &Looking::default(),
        },
        head: HeadInput {
            may_mark: true,
            ..HeadInput::default()
        },
    }))
}

fn bone(step: &Observation) -> Bone {
    Bone {
        id: step.id.to_string(),
        parent_id: step.parent_id.as_ref().map(ToString::to_string),
        kind: step.kind,
        name: step.name.clone(),
        level: step.level,
        start: step.start,
        end: step.end,
        first_token: step.completion_start,
        model: step.model.clone(),
        tokens: Some(total_tokens(&step.usage)),
        cost: step.effective_cost().get("total").copied(),
    }
}

fn rules() -> RulesPage {
    let rule = |name: &str, state, tone, reason: Option<&str>| RuleRow {
        id: name.into(),
        name: name.into(),
        target: "observation",
        state,
        tone,
        reason: reason.map(Text::from),
        sampling: "25 %".to_owned(),
        conditions: vec![
            "type any of GENERATION".into(),
            "environment = production".into(),
        ],
        evaluators: vec!["Names the policy".into(), "Exact match".into()],
    };
    RulesPage {
        shell: shell(Section::Rules),
        rules: vec![
            rule("Answers in production", "on", Tone::Good, None),
            rule(
                "Valid JSON everywhere",
                "paused",
                Tone::Waiting,
                Some("the plug-in failed 20 times in a row"),
            ),
        ],
        evaluators: vec![EvaluatorRow {
            id: "policy".into(),
            name: "Names the policy".into(),
            version: 3,
            plugin: "perpend/text 0.1.0".into(),
            function: "contains-all".into(),
            fingerprint: "9c1e4f6a8b2d7035e1f49a6cb87d20f3514e6b9a0c3d8f7216e5a4b3c2d1f098"
                .to_owned(),
            paused: None,
        }],
        has_more: false,
    }
}
