//! The columns of the list of executions.

use askama::Template;
use perpend_domain::evaluation::Execution;
use serde_json::Value;

use crate::Section;
use crate::executions::{ExecutionLine, ExecutionNames};
use crate::layout::forms::FormContext;
use crate::lists::column::{Cell, CellContext, CellLayout, ListColumn};
use crate::lists::list::{ListDeclaration, ListTexts};
use crate::scores::score::ResourceLink;

/// A row of the list of executions.
#[derive(Clone, Debug)]
pub struct ExecutionRow {
    execution: Execution,
    line: ExecutionLine,
    cost: Option<Option<f64>>,
}

impl ExecutionRow {
    /// `cost` is absent without model calls and `Some(None)` if a price is unknown; `base` is the URL of the project. With
    /// `may_requeue`, a failed execution has a form that requeues it.
    #[must_use]
    pub fn new(
        execution: Execution,
        names: ExecutionNames,
        cost: Option<Option<f64>>,
        (base, may_requeue): (&str, bool),
    ) -> Self {
        let line = ExecutionLine::new(&execution, names, cost, base);
        let line = if may_requeue { line.requeueable() } else { line };
        Self { execution, line, cost }
    }
}

/// The list of executions.
pub static EXECUTION_ROWS: ListDeclaration<ExecutionRow> = ListDeclaration {
    texts: ListTexts {
        name: "executions",
        row: "execution",
        title: "Executions",
        section: Section::Executions,
        order: "newest first",
        footnote: "",
        empty: "An execution is created for each evaluator of an enabled rule when a target of the rule is complete. There are \
                none if no rule is enabled, if nothing has arrived since the rules were created, or if no target matches their \
                conditions and sample.",
        empty_label: "Rules and evaluators",
        empty_path: "/rules",
    },
    columns: &COLUMNS,
    filter: None,
    has_news: false,
    in_all_environments: false,
    table_class: "",
    row_class: None,
    choice_value: None,
};

/// The part of an execution in a cell.
enum ExecutionCellPart {
    Id,
    State,
    Rule,
    Evaluator,
    Target,
}

/// A cell with several elements.
#[derive(Template)]
#[template(path = "execution_cell.html")]
struct ExecutionCell<'a> {
    part: ExecutionCellPart,
    line: &'a ExecutionLine,
    base: &'a str,
    forms: &'a FormContext,
}

fn cell(part: ExecutionCellPart, row: &ExecutionRow, context: &CellContext<'_>) -> Cell {
    let (base, forms) = (context.base, context.forms);
    Cell::html(&ExecutionCell { part, line: &row.line, base, forms })
}

/// The name of an existing rule or evaluator.
fn name(link: &ResourceLink) -> Value {
    link.id.as_ref().map(|_| link.name.raw()).into()
}

type Column = ListColumn<ExecutionRow>;

static COLUMNS: [Column; 9] = [
    Column::new(
        ("id", "Execution"),
        CellLayout::Name,
        |row, context| cell(ExecutionCellPart::Id, row, context),
        |row| row.execution.made.id.as_str().into(),
    )
    .usual(),
    Column::new(
        ("state", "State"),
        CellLayout::Mixed,
        |row, context| cell(ExecutionCellPart::State, row, context),
        |row| row.execution.state.as_str().into(),
    )
    .usual()
    .with(&[
        ("errorClass", "Error class", |row| {
            row.execution.error_class.map(|class| class.as_str()).into()
        }),
        ("errorMessage", "Error message", |row| row.execution.error_message.clone().into()),
    ]),
    Column::new(
        ("rule", "Rule"),
        CellLayout::Mixed,
        |row, context| cell(ExecutionCellPart::Rule, row, context),
        |row| name(&row.line.rule),
    )
    .usual()
    .with(&[("ruleId", "Rule id", |row| row.execution.made.rule_id.as_str().into())]),
    Column::new(
        ("evaluator", "Evaluator"),
        CellLayout::Mixed,
        |row, context| cell(ExecutionCellPart::Evaluator, row, context),
        |row| name(&row.line.evaluator),
    )
    .usual()
    .with(&[
        ("evaluatorId", "Evaluator id", |row| row.execution.made.evaluator_id.as_str().into()),
        ("evaluatorVersion", "Evaluator version", |row| row.line.version.into()),
    ]),
    Column::new(
        ("target", "Target"),
        CellLayout::Line,
        |row, context| cell(ExecutionCellPart::Target, row, context),
        |row| row.line.target_kind.into(),
    )
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
    Column::new(
        ("attempts", "Attempts"),
        CellLayout::Figure,
        |row, _| Cell::text(row.line.attempts.to_string()),
        |row| row.execution.attempts.into(),
    )
    .usual(),
    Column::new(
        ("cost", "Cost"),
        CellLayout::Figure,
        |row, _| Cell::text(row.line.cost.as_str()),
        |row| row.cost.flatten().into(),
    )
    .in_unit("USD")
    .usual(),
    Column::new(
        ("created", "Created"),
        CellLayout::Time,
        |row, _| Cell::Time(row.line.created_at, true),
        |row| row.execution.created_at.to_iso_micros().into(),
    )
    .usual(),
    Column::new(
        ("finished", "Finished"),
        CellLayout::Time,
        |row, _| row.line.finished_at.map_or(Cell::Empty, |at| Cell::Time(at, false)),
        |row| row.execution.finished_at.map(|at| at.to_iso_micros()).into(),
    )
    .usual(),
];
