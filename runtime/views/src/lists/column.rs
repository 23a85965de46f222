//! Columns that a list declares, and the table of their cells.
//!
//! A column has a name, a heading, the content of its cells on pages, and the values of its rows in files. Values with names, such
//! as metadata, have a column for each name that a reader chooses.

use std::borrow::Cow;

use askama::Template;
use perpend_domain::cost::CostSum;
use perpend_domain::query;
use perpend_domain::telemetry::GroupKey;
use perpend_domain::time::Timestamp;
use serde_json::Value;

use crate::format::{cost, count, decimal_blanks, duration};
use crate::layout::forms::FormContext;
use crate::layout::shell::href;
use crate::lists::row_actions::{RowActions, RowMenu};
use crate::urls::{Focus, name_with_key};
use crate::{Html, Text, segment, with_query};

/// Characters of a text in a cell.
const MAX_TEXT: usize = 160;

/// A column of a list with rows of this type.
#[derive(Debug)]
pub struct ListColumn<R: 'static> {
    /// URL name, and name of the member in JSON files.
    pub id: &'static str,
    /// Heading.
    pub label: &'static str,
    /// Layout of its cells.
    pub layout: CellLayout,
    /// Whether it is shown unless columns are chosen.
    pub is_default: bool,
    /// Whether it is left out of a page on which all its cells are empty.
    pub is_optional: bool,
    /// Whether the list is ordered by it, latest first.
    pub is_order: bool,
    /// Content of its cells, and value in files.
    pub content: CellContent<R>,
    /// Name and heading in files, if they differ from those on pages.
    pub file_names: Option<ColumnNames>,
    /// Unit of the value; empty without one.
    pub unit: &'static str,
    /// Further values in files.
    pub further: &'static [ExportedValue<R>],
}

/// Content of the cells of a column, with the value of a row.
#[derive(Debug)]
pub enum CellContent<R: 'static> {
    /// The value as text.
    Value(fn(&R) -> Value),
    /// The value as a link to the list filtered by it.
    FilterLink(fn(&R) -> Value),
    /// The value as a link to the session or user with this id.
    GroupLink(GroupKey, fn(&R) -> Value),
    /// A time with its distance from now.
    Time(fn(&R) -> Option<Timestamp>),
    /// A duration in microseconds; in files, seconds.
    Duration(fn(&R) -> Option<i64>),
    /// A cost; in files, absent unless it is complete.
    Cost(fn(&R) -> CostSum),
    /// A cost with decimals that are aligned with those of the other rows; in files, the known part.
    AlignedCost(fn(&R) -> CostSum),
    /// The cell that the list declares for the name of the column.
    Declared(fn(&R) -> Value),
}

/// A further value of a column in files: name of the member in JSON, heading in CSV, and the value of a row.
pub type ExportedValue<R> = (&'static str, &'static str, fn(&R) -> Value);

/// The cell of a row in the column with this name.
pub type DeclaredCell<R> = fn(&'static str, &R, &CellContext<'_>) -> Cell;

/// URL name and heading of a column.
type ColumnNames = (&'static str, &'static str);

impl<R: 'static> ListColumn<R> {
    /// A column with cells that the list declares.
    pub(crate) const fn declared(
        names: ColumnNames,
        layout: CellLayout,
        value: fn(&R) -> Value,
    ) -> Self {
        Self::of(names, layout, CellContent::Declared(value))
    }

    /// A column with the value as text.
    pub(crate) const fn plain(names: ColumnNames, value: fn(&R) -> Value) -> Self {
        Self::of(names, CellLayout::Plain, CellContent::Value(value))
    }

    /// A column of integers.
    pub(crate) const fn figure(names: ColumnNames, value: fn(&R) -> Value) -> Self {
        Self::of(names, CellLayout::Figure, CellContent::Value(value))
    }

    /// A column of times.
    pub(crate) const fn time(names: ColumnNames, time: fn(&R) -> Option<Timestamp>) -> Self {
        Self::of(names, CellLayout::Time, CellContent::Time(time))
    }

    /// A column of durations in microseconds.
    pub(crate) const fn duration(names: ColumnNames, micros: fn(&R) -> Option<i64>) -> Self {
        Self::of(names, CellLayout::Figure, CellContent::Duration(micros)).in_unit("s")
    }

    /// A column of costs.
    pub(crate) const fn cost(names: ColumnNames, sum: fn(&R) -> CostSum) -> Self {
        Self::of(names, CellLayout::Figure, CellContent::Cost(sum)).in_unit("USD")
    }

    /// A column of costs with aligned decimals.
    pub(crate) const fn aligned_cost(names: ColumnNames, sum: fn(&R) -> CostSum) -> Self {
        Self::of(names, CellLayout::Figure, CellContent::AlignedCost(sum)).in_unit("USD")
    }

    /// A column with links to the list filtered by the value. The name is that of a filter column.
    pub(crate) const fn filter_link(names: ColumnNames, value: fn(&R) -> Value) -> Self {
        Self::of(names, CellLayout::Plain, CellContent::FilterLink(value))
    }

    /// A column with links to sessions or users.
    pub(crate) const fn group_link(
        names: ColumnNames,
        by: GroupKey,
        value: fn(&R) -> Value,
    ) -> Self {
        Self::of(names, CellLayout::Plain, CellContent::GroupLink(by, value))
    }

    const fn of((id, label): ColumnNames, layout: CellLayout, content: CellContent<R>) -> Self {
        let further: &'static [ExportedValue<R>] = &[];
        Self {
            id,
            label,
            layout,
            is_default: false,
            is_optional: false,
            is_order: false,
            content,
            file_names: None,
            unit: "",
            further,
        }
    }

    /// Shows it by default.
    pub(crate) const fn usual(self) -> Self {
        Self { is_default: true, ..self }
    }

    /// Leaves it out of a page on which all its cells are empty.
    pub(crate) const fn optional(self) -> Self {
        Self { is_optional: true, ..self }
    }

    /// Marks it as the order of the list.
    pub(crate) const fn ordering(self) -> Self {
        Self { is_order: true, ..self }
    }

    pub(crate) const fn in_unit(self, unit: &'static str) -> Self {
        Self { unit, ..self }
    }

    /// Has other names in files.
    pub(crate) const fn in_files(self, names: ColumnNames) -> Self {
        Self { file_names: Some(names), ..self }
    }

    pub(crate) const fn with(self, further: &'static [ExportedValue<R>]) -> Self {
        Self { further, ..self }
    }

    /// The value of a row in files.
    #[must_use]
    pub fn value(&self, row: &R) -> Value {
        match self.content {
            CellContent::Value(value)
            | CellContent::FilterLink(value)
            | CellContent::GroupLink(_, value)
            | CellContent::Declared(value) => value(row),
            CellContent::Time(time) => time(row).map(|at| at.to_iso_micros()).into(),
            CellContent::Duration(micros) => micros(row).map(|micros| micros as f64 / 1e6).into(),
            CellContent::Cost(sum) => sum(row).exact().into(),
            CellContent::AlignedCost(sum) => sum(row).known().into(),
        }
    }

    /// The cells of the rows of a page of this list.
    fn cells(&self, list: &TableStyle<R>, rows: &[R], context: &CellContext<'_>) -> Vec<Cell> {
        let CellContent::AlignedCost(sum) = self.content else {
            return rows.iter().map(|row| self.cell(list, row, context)).collect();
        };
        let sums: Vec<CostSum> = rows.iter().map(sum).collect();
        let aligned = |own: &CostSum| {
            Cell::Aligned(Text::from(cost(*own)), decimal_blanks(*own, sums.iter().copied()))
        };
        sums.iter().map(aligned).collect()
    }

    /// The cell of a row of this list.
    fn cell(&self, list: &TableStyle<R>, row: &R, context: &CellContext<'_>) -> Cell {
        let CellContext { base, focus, .. } = context;
        match self.content {
            CellContent::Value(value) => Cell::text(value_text(&value(row))),
            CellContent::FilterLink(value) => Cell::link(value(row).as_str(), |text| {
                let q = ("q", format!("{}:{}", self.id, query::printed(text)));
                let pairs = std::iter::once(q).chain(focus.pairs());
                with_query(&format!("{base}/{}", list.name), &pairs.collect::<Vec<_>>())
            }),
            CellContent::GroupLink(by, value) => Cell::link(value(row).as_str(), |id| {
                format!("{}{}", href(base, by, id), focus.query())
            }),
            CellContent::Time(time) => time(row).map_or(Cell::Empty, |at| Cell::Time(at, true)),
            CellContent::Duration(micros) => {
                Cell::text(micros(row).map(duration).unwrap_or_default())
            }
            CellContent::Cost(sum) | CellContent::AlignedCost(sum) => match sum(row) {
                sum if sum.is_empty() => Cell::Empty,
                sum => Cell::text(cost(sum)),
            },
            CellContent::Declared(_) => (list.cell)(self.id, row, context),
        }
    }

    /// Name and heading in files.
    fn names_in_files(&self) -> (String, String) {
        let (id, label) = self.file_names.unwrap_or((self.id, self.label));
        let heading = match self.unit {
            "" => label.to_owned(),
            unit => format!("{label} ({unit})"),
        };
        (id.to_owned(), heading)
    }
}

/// Columns of values with names, such as metadata. The name of a column is the prefix and the name of the value.
#[derive(Debug)]
pub struct NamedColumns<R: 'static> {
    /// Such as `metadata.`
    pub prefix: &'static str,
    /// Such as `metadata.KEY`, for messages.
    pub example: &'static str,
    /// Layout of their cells.
    pub layout: CellLayout,
    /// The cell of a row for the value with this name.
    pub cell: fn(&str, &R) -> Cell,
    /// The value with this name in files.
    pub value: fn(&str, &R) -> Value,
}

/// A column that a reader chooses.
#[derive(Debug)]
pub enum ChosenColumn<R: 'static> {
    /// A declared column.
    Declared(&'static ListColumn<R>),
    /// The column of the values with this name.
    Named(&'static NamedColumns<R>, String),
}

impl<R: 'static> Clone for ChosenColumn<R> {
    fn clone(&self) -> Self {
        match self {
            Self::Declared(column) => Self::Declared(column),
            Self::Named(columns, name) => Self::Named(columns, name.clone()),
        }
    }
}

impl<R: 'static> ChosenColumn<R> {
    /// URL name.
    #[must_use]
    pub fn id(&self) -> Cow<'static, str> {
        match self {
            Self::Declared(column) => Cow::Borrowed(column.id),
            Self::Named(columns, name) => Cow::Owned(name_with_key(columns.prefix, name)),
        }
    }

    /// Heading.
    #[must_use]
    pub fn label(&self) -> Text {
        match self {
            Self::Declared(column) => Text::from(column.label),
            Self::Named(_, name) => Text::from(name.as_str()),
        }
    }

    /// Name and heading in files.
    #[must_use]
    pub fn names_in_files(&self) -> (String, String) {
        match self {
            Self::Declared(column) => column.names_in_files(),
            Self::Named(..) => (self.id().into_owned(), self.id().into_owned()),
        }
    }

    /// The value of a row in files.
    #[must_use]
    pub fn value(&self, row: &R) -> Value {
        match self {
            Self::Declared(column) => column.value(row),
            Self::Named(columns, name) => (columns.value)(name, row),
        }
    }

    /// Further values in files.
    #[must_use]
    pub fn further(&self) -> &'static [ExportedValue<R>] {
        match self {
            Self::Declared(column) => column.further,
            Self::Named(..) => &[],
        }
    }

    fn cells(&self, list: &TableStyle<R>, rows: &[R], context: &CellContext<'_>) -> Vec<Cell> {
        match self {
            Self::Declared(column) => column.cells(list, rows, context),
            Self::Named(columns, name) => {
                rows.iter().map(|row| (columns.cell)(name, row)).collect()
            }
        }
    }

    fn head(&self) -> TableHead {
        let (layout, is_order) = match self {
            Self::Declared(column) => (column.layout, column.is_order),
            Self::Named(columns, _) => (columns.layout, false),
        };
        TableHead {
            id: self.id(),
            label: self.label(),
            is_named: matches!(self, Self::Named(..)),
            layout,
            href: None,
            order: is_order.then_some("descending"),
        }
    }

    fn is_optional(&self) -> bool {
        matches!(self, Self::Declared(column) if column.is_optional)
    }
}

/// The layout of the cells of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CellLayout {
    /// The link of the row, which is the first column and always shown.
    Name,
    /// Time.
    Time,
    /// Number.
    Figure,
    /// Links to a user or a session.
    People,
    /// Scores.
    Chips,
    /// Short text on one line.
    Line,
    /// Text that wraps.
    Plain,
    /// The beginning of a long text.
    Beginning,
    /// Text in several lines.
    Comment,
    /// Several elements.
    Mixed,
}

impl CellLayout {
    pub(crate) const fn class(self) -> &'static str {
        match self {
            Self::Name => "what",
            Self::Time => "time",
            Self::Figure => "num",
            Self::People => "people",
            Self::Chips => "chips",
            Self::Line => "nowrap",
            Self::Plain => "plain",
            Self::Beginning => "text",
            Self::Comment => "comment",
            Self::Mixed => "",
        }
    }
}

/// Values of the page that cells need.
#[derive(Clone, Copy, Debug)]
pub struct CellContext<'a> {
    /// Base URL of the project.
    pub base: &'a str,
    /// Time range and environments, which links preserve.
    pub focus: &'a Focus,
    /// Values of forms.
    pub forms: &'a FormContext,
    /// Query string of the links of rows, such as the list that the pages behind them return to.
    pub within: &'a str,
    /// Names of the columns of the table.
    pub columns: &'a [Cow<'static, str>],
}

impl<'a> CellContext<'a> {
    /// The context of a page of the project at `base`.
    #[must_use]
    pub const fn new(base: &'a str, focus: &'a Focus, forms: &'a FormContext) -> Self {
        Self { base, focus, forms, within: "", columns: &[] }
    }

    /// Whether the table has a column with this name.
    pub(crate) fn has_column(&self, name: &str) -> bool {
        self.columns.iter().any(|column| column == name)
    }
}

/// A value in a cell: long text is cut, and the texts of a list are separated by commas.
fn value_text(value: &Value) -> String {
    let text = match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(all) => {
            let all: Vec<&str> = all.iter().filter_map(Value::as_str).collect();
            all.join(", ")
        }
        Value::Number(number) => number.as_u64().map_or_else(|| number.to_string(), count),
        other => other.to_string(),
    };
    shortened(&text)
}

/// The beginning of a long text.
pub(crate) fn shortened(text: &str) -> String {
    match text.char_indices().nth(MAX_TEXT) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Content of a cell.
#[derive(Clone, Debug)]
pub enum Cell {
    /// No content.
    Empty,
    /// Text.
    Text(Text),
    /// Text and URL of a link.
    Link(Text, String),
    /// A figure, and blanks that align its decimals.
    Aligned(Text, String),
    /// A time, and whether its distance from now is shown too.
    Time(Timestamp, bool),
    /// Other markup.
    Html(Html),
}

impl Cell {
    /// A text cell; empty without text.
    pub(crate) fn text(text: impl Into<String>) -> Self {
        match text.into() {
            text if text.is_empty() => Self::Empty,
            text => Self::Text(Text::from(text)),
        }
    }

    /// A link; empty without text.
    pub(crate) fn link(text: Option<&str>, href: impl FnOnce(&str) -> String) -> Self {
        let text = text.filter(|text| !text.is_empty());
        text.map_or(Self::Empty, |text| Self::Link(Text::from(text), href(text)))
    }

    /// Markup of a template. Rendering into memory fails only because of a bug in the template; then the cell is empty.
    pub(crate) fn html(template: &impl Template) -> Self {
        Html::rendered(template).map_or(Self::Empty, Self::Html)
    }
}

/// Returns value and label of the checkbox of a row.
pub(crate) type ChoiceValue<R> = fn(&R) -> (String, Text);

/// Names, CSS classes and declared cells of a table.
#[derive(Debug)]
pub struct TableStyle<R: 'static> {
    /// URL name of the list.
    pub name: &'static str,
    /// Cells of the columns with declared content.
    pub cell: DeclaredCell<R>,
    /// CSS class of the table; empty without one.
    pub class: &'static str,
    /// CSS class of a row, if rows differ.
    pub row_class: Option<fn(&R) -> &'static str>,
    /// Value and label of the checkbox of a row, if rows can be selected.
    pub choice_value: Option<ChoiceValue<R>>,
    /// Actions of rows, if they have any.
    pub actions: Option<&'static RowActions<R>>,
}

/// The table of a page.
#[derive(Clone, Debug)]
pub struct ListTable {
    /// URL name of the list, for the stored widths of its columns.
    pub(crate) name: &'static str,
    /// CSS class; empty without one.
    pub(crate) class: &'static str,
    pub(crate) heads: Vec<TableHead>,
    pub(crate) rows: Vec<TableRow>,
    /// Name of the checkboxes; absent if rows cannot be selected.
    pub(crate) choice: Option<&'static str>,
    /// Whether rows have ids in the page.
    pub(crate) has_ids: bool,
    /// Label, if it is not the name of the list.
    pub(crate) label: Option<&'static str>,
}

/// The cells of a row.
#[derive(Clone, Debug)]
pub(crate) struct TableRow {
    /// CSS class; empty without one.
    pub(crate) class: &'static str,
    pub(crate) cells: Vec<Cell>,
    /// Value and label of its checkbox.
    pub(crate) choice: Option<(String, Text)>,
    /// Its id, percent-encoded; empty without one.
    pub(crate) id: String,
    /// Whether its preview is shown.
    pub(crate) is_current: bool,
    pub(crate) menu: Option<RowMenu>,
}

/// A heading.
#[derive(Clone, Debug)]
pub(crate) struct TableHead {
    pub(crate) id: Cow<'static, str>,
    pub(crate) label: Text,
    /// Whether the label is a name from data.
    pub(crate) is_named: bool,
    pub(crate) layout: CellLayout,
    /// URL of the list ordered by the column.
    pub(crate) href: Option<String>,
    /// Value of `aria-sort`, if the list is ordered by the column.
    pub(crate) order: Option<&'static str>,
}

impl TableHead {
    pub(crate) fn is_figure(&self) -> bool {
        self.layout == CellLayout::Figure
    }

    /// Whether cells have the link and the actions of the row.
    pub(crate) fn is_name(&self) -> bool {
        self.layout == CellLayout::Name
    }

    /// Whether cells repeat the heading, for rows that are shown as cards.
    pub(crate) fn is_labelled(&self) -> bool {
        !self.is_name()
    }

    pub(crate) fn class(&self) -> &'static str {
        self.layout.class()
    }
}

impl ListTable {
    /// The cells of these columns.
    #[must_use]
    pub fn new<R: 'static>(
        list: &TableStyle<R>,
        columns: &[ChosenColumn<R>],
        rows: &[R],
        context: &CellContext<'_>,
    ) -> Self {
        let names: Vec<Cow<'static, str>> = columns.iter().map(ChosenColumn::id).collect();
        let context = CellContext { columns: &names, ..*context };
        let id = |row: &R| list.actions.map(|actions| segment((actions.row)(row).0));
        let mut table = Self {
            name: list.name,
            class: list.class,
            heads: Vec::new(),
            choice: None,
            has_ids: false,
            label: None,
            rows: rows
                .iter()
                .map(|row| TableRow {
                    class: list.row_class.map_or("", |class| class(row)),
                    cells: Vec::new(),
                    choice: list.choice_value.map(|value| value(row)),
                    id: id(row).unwrap_or_default(),
                    is_current: false,
                    menu: None,
                })
                .collect(),
        };
        for column in columns {
            let cells = column.cells(list, rows, &context);
            if column.is_optional() && cells.iter().all(|cell| matches!(cell, Cell::Empty)) {
                continue;
            }
            table.heads.push(column.head());
            for (row, cell) in table.rows.iter_mut().zip(cells) {
                row.cells.push(cell);
            }
        }
        table
    }

    /// With a checkbox of this name in each row, which belongs to the form `choice`.
    #[must_use]
    pub fn with_choice(self, name: &'static str) -> Self {
        Self { choice: Some(name), ..self }
    }

    /// With ids of rows, which only one table of a page has.
    #[must_use]
    pub fn with_ids(self) -> Self {
        Self { has_ids: true, ..self }
    }

    /// With a label that differs from those of the other tables of a page.
    #[must_use]
    pub fn labelled(self, label: &'static str) -> Self {
        Self { label: Some(label), ..self }
    }

    /// With headings that order the list. `order` returns the URL of the list ordered by a column, and the value of `aria-sort`.
    #[must_use]
    pub fn ordered(
        mut self,
        order: impl Fn(&str) -> Option<(String, Option<&'static str>)>,
    ) -> Self {
        for head in &mut self.heads {
            if let Some((href, state)) = order(&head.id) {
                (head.href, head.order) = (Some(href), state);
            }
        }
        self
    }

    pub(crate) fn label(&self) -> &'static str {
        self.label.unwrap_or(self.name)
    }

    /// Whether the page has no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Number of rows.
    #[must_use]
    pub fn n_rows(&self) -> usize {
        self.rows.len()
    }

    /// The cells of a row with their headings.
    pub(crate) fn cells<'t>(
        &'t self,
        row: &'t TableRow,
    ) -> impl Iterator<Item = (&'t TableHead, &'t Cell)> {
        self.heads.iter().zip(&row.cells)
    }
}
