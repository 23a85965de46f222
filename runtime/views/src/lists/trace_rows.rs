//! The columns of the list of traces.

use askama::Template;
use perpend_domain::access::Permission;
use perpend_domain::filter::member_at;
use perpend_domain::payload::Payload;
use perpend_domain::score::{Score, ScoreValue, Subject};
use perpend_domain::telemetry::GroupKey;
use serde_json::{Value, json};

use crate::lists::column::{Cell, CellContext, CellLayout, ListColumn, ListTable, NamedColumns};
use crate::lists::declaration::{ChoicePage, ListDeclaration, ListTexts, RowChoice};
use crate::lists::row_actions::RowActions;
use crate::lists::trace_line::{TraceLine, some_tokens};
use crate::scores::score::{aggregate, score_value};
use crate::urls::{METADATA, SCORE, TRACE_LIST};
use crate::values::preview::{Preview, beginning};
use crate::{Section, Shell, Text};

/// The list of traces.
pub static TRACE_ROWS: ListDeclaration<TraceLine> = ListDeclaration {
    filter: Some(&TRACE_LIST),
    table_class: "traces",
    choice: Some(RowChoice {
        name: "trace",
        value: |line| (line.encoded(), line.label()),
        pages: &[
            ChoicePage {
                path: "/traces/compare",
                label: "Compare",
                all: None,
                needs: Permission::TraceRead,
                pair: Some("Select two traces to compare"),
            },
            ChoicePage::DATASET,
            ChoicePage::RULE,
        ],
    }),
    named: &NAMED,
    named_note: "Score columns show scores of the trace itself; numeric scores are averaged. The list can be sorted by start, \
                 latency, cost, tokens, errors or one score.",
    actions: Some(RowActions {
        bookmarks: ("/bookmarks", Permission::TraceMark),
        row: |line| (line.id.as_str(), line.label()),
        is_bookmarked: |line| line.bookmarked,
        values: TraceLine::menu_values,
    }),
    ..ListDeclaration::new(TEXTS, &COLUMNS, cell)
};

const TEXTS: ListTexts = ListTexts {
    order: "",
    ..ListTexts::new(("traces", "trace"), "Traces", Section::Traces, "", ("", ""))
};

/// The table of these traces with the default columns.
pub(crate) fn trace_table(lines: &[TraceLine], shell: &Shell) -> ListTable {
    let (columns, _) = TRACE_ROWS.choose("");
    let context = CellContext::new(shell.base(), &shell.focus, &shell.forms);
    TRACE_ROWS.table(&columns, lines, &context)
}

/// A cell with several elements.
#[derive(Template)]
#[template(path = "trace_cell.html")]
struct TraceCell<'a> {
    column: &'static str,
    line: &'a TraceLine,
    base: &'a str,
    within: &'a str,
    context: &'a CellContext<'a>,
}

impl TraceCell<'_> {
    /// Whether the first column shows this value, because no other column does.
    fn shows(&self, column: &str) -> bool {
        !self.context.has_column(column)
    }
}

/// The beginning of a value.
#[derive(Template)]
#[template(path = "preview_cell.html")]
struct PreviewCell<'a> {
    preview: &'a Preview,
}

fn preview_cell(preview: Option<&Preview>) -> Cell {
    preview.map_or(Cell::Empty, |preview| Cell::html(&PreviewCell { preview }))
}

fn cell(column: &'static str, line: &TraceLine, context: &CellContext<'_>) -> Cell {
    match column {
        "input" => preview_cell(line.input.as_ref()),
        "output" => preview_cell(line.output.as_ref()),
        "id" => Cell::text(line.id.as_str()),
        "level" => Cell::text(line.level().to_lowercase()),
        "totalTokens" => Cell::text(line.token_text()),
        "inputTokens" => Cell::text(some_tokens(line.parts[0])),
        "outputTokens" => Cell::text(some_tokens(line.parts[1])),
        "models" => Cell::text(listed(&line.observation_names.models)),
        "kinds" => Cell::text(listed(&line.observation_names.kinds).to_lowercase()),
        "prompts" => Cell::text(listed(&line.observation_names.prompts)),
        _ => {
            let (base, within) = (context.base, context.within);
            Cell::html(&TraceCell { column, line, base, within, context })
        }
    }
}

/// The first names, and the number of the others.
fn listed(names: &[String]) -> String {
    const SHOWN: usize = 3;
    let shown = names.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} +{more}"),
    }
}

static NAMED: [NamedColumns<TraceLine>; 2] = [
    NamedColumns {
        prefix: METADATA,
        example: "metadata.KEY",
        layout: CellLayout::Beginning,
        cell: |key, line| {
            let value = member_at(&line.content.metadata, key);
            let text = value.map(|value| beginning(&Payload::from_value(value.clone())));
            preview_cell(text.and_then(|text| Preview::of(&text, &[])).as_ref())
        },
        value: |key, line| member_at(&line.content.metadata, key).cloned().unwrap_or_default(),
    },
    NamedColumns {
        prefix: SCORE,
        example: "score.NAME",
        layout: CellLayout::Figure,
        cell: |name, line| aggregate(&own_scores(line, name)).map_or(Cell::Empty, Cell::Text),
        value: |name, line| {
            let own = own_scores(line, name);
            let mut values: Vec<Value> = own.into_iter().map(score_value).collect();
            match values.len() {
                0 | 1 => values.pop().unwrap_or_default(),
                _ => values.into(),
            }
        },
    },
];

/// Values of the scores of the trace itself with this name.
fn own_scores<'a>(line: &'a TraceLine, name: &str) -> Vec<&'a ScoreValue> {
    let scores = line.content.scores.iter().map(|score| &score.written);
    let is_own = |subject: &Subject| matches!(subject, Subject::Trace(_));
    let own = scores.filter(|written| is_own(&written.subject) && written.name == name);
    own.map(|written| &written.value).collect()
}

/// A score in the column with all scores.
fn score_summary(score: &Score) -> Value {
    let written = &score.written;
    let mut summary = json!({ "name": written.name, "value": score_value(&written.value) });
    if let Subject::Observation(_, observation) = &written.subject {
        summary["observationId"] = observation.as_str().into();
    }
    summary
}

fn raw(text: Option<&Text>) -> Value {
    text.map(Text::raw).into()
}

fn payload(value: Option<&Payload>) -> Value {
    value.map(Payload::to_value).into()
}

type Column = ListColumn<TraceLine>;

static COLUMNS: [Column; 25] = [
    Column::declared(("trace", "Trace"), CellLayout::Name, |line| raw(line.name.as_ref()))
        .in_files(("name", "Name"))
        .with(&[("id", "Id", |line| line.id.as_str().into())])
        .usual(),
    Column::time(("timestamp", "Started"), |line| Some(line.at)).usual(),
    Column::declared(("people", "User and session"), CellLayout::People, |line| {
        raw(line.user.as_ref())
    })
    .in_files(("userId", "User"))
    .with(&[("sessionId", "Session", |line| raw(line.session.as_ref()))])
    .usual(),
    Column::declared(("scores", "Scores"), CellLayout::Chips, |line| {
        line.content.scores.iter().map(score_summary).collect()
    })
    .usual(),
    Column::duration(("latency", "Latency"), |line| Some(line.latency_us)).usual(),
    Column::declared(("totalTokens", "Tokens"), CellLayout::Figure, |line| line.tokens.into())
        .usual(),
    Column::aligned_cost(("totalCost", "Cost"), |line| line.cost).usual(),
    Column::figure(("observationCount", "Observations"), |line| line.n_observations.into()).usual(),
    Column::declared(("id", "Id"), CellLayout::Plain, |line| line.id.as_str().into()),
    Column::filter_link(("environment", "Environment"), |line| line.environment.raw().into()),
    Column::group_link(("userId", "User"), GroupKey::User, |line| raw(line.user.as_ref())),
    Column::group_link(("sessionId", "Session"), GroupKey::Session, |line| {
        raw(line.session.as_ref())
    }),
    Column::filter_link(("release", "Release"), |line| raw(line.release.as_ref())),
    Column::filter_link(("version", "Version"), |line| raw(line.version.as_ref())),
    Column::declared(("tags", "Tags"), CellLayout::Chips, |line| {
        line.tags.iter().map(Text::raw).collect()
    }),
    Column::declared(("models", "Models"), CellLayout::Plain, |line| {
        line.observation_names.models.clone().into()
    }),
    Column::declared(("kinds", "Observation kinds"), CellLayout::Plain, |line| {
        line.observation_names.kinds.clone().into()
    }),
    Column::declared(("prompts", "Prompts"), CellLayout::Plain, |line| {
        line.observation_names.prompts.clone().into()
    }),
    Column::declared(("level", "Level"), CellLayout::Plain, |line| line.level().into()),
    Column::figure(("errorCount", "Errors"), |line| line.n_errors.into()),
    Column::figure(("warningCount", "Warnings"), |line| line.n_warnings.into()),
    Column::declared(("inputTokens", "Input tokens"), CellLayout::Figure, |line| {
        line.parts[0].into()
    }),
    Column::declared(("outputTokens", "Output tokens"), CellLayout::Figure, |line| {
        line.parts[1].into()
    }),
    Column::declared(("input", "Input"), CellLayout::Beginning, |line| {
        payload(line.content.input.as_ref())
    }),
    Column::declared(("output", "Output"), CellLayout::Beginning, |line| {
        payload(line.content.output.as_ref())
    }),
];
