//! The columns of the list of executions.

use askama::Template;
use perpend_domain::evaluation::Execution;
use serde_json::Value;

use crate::Section;
use crate::executions::ExecutionLine;
use crate::layout::forms::FormContext;
use crate::lists::column::{Cell, CellContext, CellLayout, ListColumn};
use crate::lists::declaration::{ListDeclaration, ListTexts};
use crate::scores::score::ResourceLink;

/// A row of the list of executions.
#[derive(Clone, Debug)]
pub struct ExecutionRow {
    /// The execution.
    pub execution: Execution,
    /// Its cells.
    pub line: ExecutionLine,
    /// Cost in US dollars: absent without model calls, `Some(None)` if a price is unknown.
    pub cost: Option<Option<f64>>,
}

/// The list of executions.
pub static EXECUTION_ROWS: ListDeclaration<ExecutionRow> =
    ListDeclaration::new(TEXTS, &COLUMNS, cell);

const TEXTS: ListTexts = ListTexts::new(
    ("executions", "execution"),
    "Executions",
    Section::Executions,
    "An execution is created for each evaluator of an enabled rule when a target of the rule is complete. There are none if no \
     rule is enabled, if nothing has arrived since the rules were created, or if no target matches their conditions and sample.",
    ("Rules", "/rules"),
);

/// A cell with several elements.
#[derive(Template)]
#[template(path = "execution_cell.html")]
struct ExecutionCell<'a> {
    column: &'static str,
    line: &'a ExecutionLine,
    base: &'a str,
    forms: &'a FormContext,
}

fn cell(column: &'static str, row: &ExecutionRow, context: &CellContext<'_>) -> Cell {
    let (line, base, forms) = (&row.line, context.base, context.forms);
    match column {
        "cost" => Cell::text(line.cost.as_str()),
        "finished" => line.finished_at.map_or(Cell::Empty, |at| Cell::Time(at, false)),
        _ => Cell::html(&ExecutionCell { column, line, base, forms }),
    }
}

/// The name of an existing rule or evaluator.
fn name(link: &ResourceLink) -> Value {
    link.id.as_ref().map(|_| link.name.raw()).into()
}

type Column = ListColumn<ExecutionRow>;

static COLUMNS: [Column; 9] = [
    Column::declared(("id", "Execution"), CellLayout::Name, |row| {
        row.execution.made.id.as_str().into()
    })
    .usual(),
    Column::declared(("state", "State"), CellLayout::Mixed, |row| {
        row.execution.state.as_str().into()
    })
    .usual()
    .with(&[
        ("errorClass", "Error class", |row| {
            row.execution.error_class.map(|class| class.as_str()).into()
        }),
        ("errorMessage", "Error message", |row| row.execution.error_message.clone().into()),
    ]),
    Column::declared(("rule", "Rule"), CellLayout::Mixed, |row| name(&row.line.rule))
        .usual()
        .with(&[("ruleId", "Rule id", |row| row.execution.made.rule_id.as_str().into())]),
    Column::declared(("evaluator", "Evaluator"), CellLayout::Mixed, |row| {
        name(&row.line.evaluator)
    })
    .usual()
    .with(&[
        ("evaluatorId", "Evaluator id", |row| row.execution.made.evaluator_id.as_str().into()),
        ("evaluatorVersion", "Evaluator version", |row| row.line.version.into()),
    ]),
    Column::declared(("target", "Target"), CellLayout::Line, |row| row.line.target_kind.into())
        .usual()
        .with(&[
            ("traceId", "Trace id", |row| {
                row.execution.made.target.trace().map(|id| id.as_str()).into()
            }),
            ("observationId", "Observation id", |row| {
                row.execution.made.target.observation().map(|id| id.as_str()).into()
            }),
            ("sessionId", "Session id", |row| {
                row.execution.made.target.session().map(|id| id.as_str()).into()
            }),
        ]),
    Column::figure(("attempts", "Attempts"), |row| row.execution.attempts.into()).usual(),
    Column::declared(("cost", "Cost"), CellLayout::Figure, |row| row.cost.flatten().into())
        .in_unit("USD")
        .usual(),
    Column::time(("created", "Created"), |row| Some(row.execution.created_at)).usual(),
    Column::declared(("finished", "Finished"), CellLayout::Time, |row| {
        row.execution.finished_at.map(|at| at.to_iso_micros()).into()
    })
    .usual(),
];
