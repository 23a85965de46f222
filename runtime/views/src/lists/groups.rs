//! Lists of sessions and of users.

use askama::Template;
use perpend_domain::telemetry::{GroupKey, TraceGroup};
use perpend_domain::time::Timestamp;
use serde_json::Value;

use crate::facts::{Fact, fact};
use crate::format::count;
use crate::layout::setup::Setup;
use crate::layout::shell::href;
use crate::lists::column::{Cell, CellContext, CellLayout, ListColumn, ListTable};
use crate::lists::declaration::{ChoicePage, ListDeclaration, ListTexts, RowChoice};
use crate::lists::focus::FocusView;
use crate::lists::trace_rows::trace_table;
use crate::overview::trends::DeferredTrend;
use crate::{Html, SESSION_LIST, Section, Shell, Text, USER_LIST, encode};

/// A row of the list, or the header of its page.
#[derive(Clone, Debug)]
pub struct GroupLine {
    by: GroupKey,
    pub(crate) group: TraceGroup,
    pub(crate) id: Text,
    pub(crate) other: Option<Text>,
    /// Scores by name.
    pub scores: Vec<GroupChip>,
    /// Traces per day in the last days, as SVG path and in words.
    pub(crate) bars: String,
    pub(crate) n_recent: String,
    pub(crate) most: String,
}

/// The scores with one name, of a session itself or of its traces.
#[derive(Clone, Debug)]
pub struct GroupChip {
    /// Name.
    pub name: Text,
    /// Aggregated value; empty for the chip of all further names.
    pub value: Text,
    /// Tooltip.
    pub title: String,
    /// Value in percent, if it is between 0 and 1.
    pub share: Option<f64>,
    /// URL of the scored items.
    pub href: String,
}

impl GroupLine {
    /// Sets the number of traces per day. `highest` is the largest number of all rows of the page, which share one scale.
    #[must_use]
    pub fn with_days(mut self, days: &[(String, u64)], highest: u64) -> Self {
        self.n_recent = count(days.iter().map(|(_, n)| n).sum());
        // On a tie, the latest day.
        let Some((day, most)) = days.iter().max_by_key(|(_, n)| *n).filter(|(_, n)| 0 < *n) else {
            return self;
        };
        self.most = format!("Most on {day}: {}", count(*most));
        let bars = days.iter().enumerate().filter(|(_, (_, n))| 0 < *n);
        let bars = bars.map(|(x, (_, n))| {
            let height = (n * 16).div_ceil(highest.max(*most));
            format!("M{x} 16v-{height}h.86v{height}")
        });
        self.bars = bars.collect();
        self
    }

    /// A row without scores and days.
    #[must_use]
    pub fn new(by: GroupKey, group: TraceGroup) -> Self {
        Self {
            by,
            id: Text::from(group.id.as_str()),
            other: group.other.as_deref().map(Text::from),
            scores: Vec::new(),
            bars: String::new(),
            n_recent: String::new(),
            most: String::new(),
            group,
        }
    }

    pub(crate) fn href(&self, base: &str) -> String {
        href(base, self.by, &self.group.id)
    }

    pub(crate) fn other_href(&self, base: &str) -> String {
        let other = self.group.other.as_deref().unwrap_or_default();
        let by = match self.by {
            GroupKey::Session => GroupKey::User,
            GroupKey::User => GroupKey::Session,
        };
        href(base, by, other)
    }

    pub(crate) fn traces(&self) -> String {
        count(self.group.n_traces)
    }

    pub(crate) fn tokens(&self) -> String {
        match self.group.total_tokens {
            0 => crate::format::NO_VALUE.to_owned(),
            n => count(n),
        }
    }

    pub(crate) fn cost(&self) -> String {
        crate::format::cost(self.group.cost)
    }

    pub(crate) fn more_others(&self) -> u64 {
        self.group.n_others.saturating_sub(1)
    }

    /// Labels and times of the first and the last trace.
    pub(crate) fn ends(&self) -> [(&'static str, &Timestamp); 2] {
        let (first, last) = match self.by {
            GroupKey::Session => ("Started", "Last trace"),
            GroupKey::User => ("First seen", "Last seen"),
        };
        [(first, &self.group.first), (last, &self.group.last)]
    }

    /// Further figures of the header.
    pub(crate) fn figures(&self) -> [Fact; 4] {
        [
            fact("Traces", self.traces()),
            fact("Errors", count(self.group.n_errors)),
            fact("Tokens", self.tokens()),
            fact("Cost", self.cost()),
        ]
    }
}

impl UserPage {
    fn traces_table(&self) -> ListTable {
        trace_table(&self.traces, &self.shell).with_ids()
    }

    fn low_table(&self) -> ListTable {
        trace_table(&self.low, &self.shell).labelled("traces with low scores")
    }

    /// URL that the page polls for new items.
    fn news_href(&self) -> String {
        let (base, id) = (self.shell.base(), encode(&self.line.group.id));
        let kept = self.shell.focus.query().replacen('?', "&", 1);
        format!("{base}/_/users/news?of={id}{kept}")
    }
}

/// A row of a list of sessions or of users.
#[derive(Clone, Debug)]
pub struct GroupRow {
    /// Its cells.
    pub line: GroupLine,
    /// Sums of its scores, for files.
    pub scores: Value,
    /// Traces of the last days.
    pub n_recent: u64,
}

impl GroupRow {
    /// The rows of a page: cells, sums of scores and traces of the last days.
    #[must_use]
    pub fn all(rows: Vec<(GroupLine, Value, u64)>) -> Vec<Self> {
        let row = |(line, scores, n_recent)| Self { line, scores, n_recent };
        rows.into_iter().map(row).collect()
    }
}

/// The table of the sessions of a page.
#[must_use]
pub fn session_table(rows: &[GroupRow], context: &CellContext<'_>) -> ListTable {
    let (columns, _) = SESSION_ROWS.choose("");
    SESSION_ROWS.table(&columns, rows, context)
}

/// The list of sessions.
pub static SESSION_ROWS: ListDeclaration<GroupRow> = ListDeclaration {
    texts: ListTexts {
        footnote: "Scores: of the session itself, then of its newest 10 traces; scores of observations are not included. n is the \
                   number of scores in a mean.",
        ..texts(
            ("sessions", "session"),
            "Sessions",
            Section::Sessions,
            "A session groups the traces of one conversation. Set its id on a span with any SDK:",
        )
    },
    filter: Some(&SESSION_LIST),
    news: Some(["session with new traces", "sessions with new traces"]),
    choice: Some(RowChoice { name: "session", value: choice_value, pages: &[ChoicePage::RULE] }),
    ..declaration(&SESSION_COLUMNS)
};

/// The percent-encoded id, and the id.
fn choice_value(row: &GroupRow) -> (String, Text) {
    (encode(row.line.id.raw()), row.line.id.clone())
}

/// The list of users.
pub static USER_ROWS: ListDeclaration<GroupRow> = ListDeclaration {
    texts: ListTexts {
        footnote: "Scores: of its newest 10 traces; scores of observations are not included. n is the number of scores in a mean.",
        ..texts(
            ("users", "user"),
            "Users",
            Section::Users,
            "A user is an end user of your application. Set the id on a span with any SDK:",
        )
    },
    filter: Some(&USER_LIST),
    news: Some(["user with new traces", "users with new traces"]),
    ..declaration(&USER_COLUMNS)
};

const fn texts(
    names: (&'static str, &'static str),
    title: &'static str,
    section: Section,
    empty: &'static str,
) -> ListTexts {
    let texts = ListTexts::new(names, title, section, empty, ("", ""));
    ListTexts { order: "sorted by last activity", ..texts }
}

const fn declaration(columns: &'static [Column]) -> ListDeclaration<GroupRow> {
    let list = ListDeclaration::new(texts(("", ""), "", Section::Other, ""), columns, cell);
    ListDeclaration { in_all_environments: true, table_class: "groups", ..list }
}

/// Code that sets the id of a session or user, for a project without any.
#[derive(Debug, Template)]
#[template(path = "group_setup.html")]
pub struct GroupSetup {
    /// Sessions or users.
    pub by: GroupKey,
    /// Values of the commands.
    pub setup: Setup,
}

impl GroupSetup {
    fn is_of_sessions(&self) -> bool {
        self.by == GroupKey::Session
    }

    /// The code as markup.
    #[must_use]
    pub fn html(&self) -> Option<Html> {
        Html::rendered(self).ok()
    }
}

/// A cell with several elements.
#[derive(Template)]
#[template(path = "group_cell.html")]
struct GroupCell<'a> {
    column: &'static str,
    line: &'a GroupLine,
    base: &'a str,
    /// Query string with the focus.
    focus: String,
}

fn cell(column: &'static str, row: &GroupRow, context: &CellContext<'_>) -> Cell {
    if column == "totalTokens" {
        return Cell::text(row.line.tokens());
    }
    let (line, focus) = (&row.line, context.focus.query());
    Cell::html(&GroupCell { column, line, base: context.base, focus })
}

type Column = ListColumn<GroupRow>;

const fn id(label: &'static str) -> Column {
    Column::declared(("id", label), CellLayout::Name, |row| row.line.group.id.as_str().into())
        .usual()
}

const fn last_seen(label: &'static str) -> Column {
    Column::time(("lastSeen", label), |row| Some(row.line.group.last)).usual().ordering()
}

const fn first_seen(label: &'static str) -> Column {
    Column::time(("firstSeen", label), |row| Some(row.line.group.first)).usual()
}

fn duration_us(row: &GroupRow) -> i64 {
    row.line.group.end.micros_since(row.line.group.first)
}

const DURATION: Column =
    Column::duration(("duration", "Duration"), |row| Some(duration_us(row))).usual();

const fn other(names: (&'static str, &'static str)) -> Column {
    Column::declared(names, CellLayout::People, |row| row.line.group.other.clone().into()).usual()
}

const TRACES: Column =
    Column::figure(("traceCount", "Traces"), |row| row.line.group.n_traces.into())
        .usual()
        .with(&[("observationCount", "Observations", |row| row.line.group.n_observations.into())]);

const ERRORS: Column = Column::declared(("errorCount", "Errors"), CellLayout::Figure, |row| {
    row.line.group.n_errors.into()
})
.usual();

const TOKENS: Column = Column::declared(("totalTokens", "Tokens"), CellLayout::Figure, |row| {
    row.line.group.total_tokens.into()
})
.usual();

const COST: Column = Column::aligned_cost(("totalCost", "Cost"), |row| row.line.group.cost).usual();

const SCORES: Column =
    Column::declared(("scores", "Scores"), CellLayout::Chips, |row| row.scores.clone()).usual();

static SESSION_COLUMNS: [Column; 10] = [
    id("Session"),
    last_seen("Last trace"),
    first_seen("Started"),
    DURATION,
    other(("userId", "User")).with(&[("userCount", "Users", |row| row.line.group.n_others.into())]),
    TRACES,
    ERRORS,
    TOKENS,
    COST,
    SCORES,
];

static USER_COLUMNS: [Column; 10] = [
    id("User"),
    last_seen("Last seen"),
    first_seen("First seen")
        .with(&[("duration", "Duration (s)", |row| (duration_us(row) as f64 / 1e6).into())]),
    other(("sessionId", "Session"))
        .with(&[("sessionCount", "Sessions", |row| row.line.group.n_others.into())]),
    TRACES,
    ERRORS,
    TOKENS,
    COST,
    SCORES,
    Column::declared(("recentTraceCount", "Traces in 30 days"), CellLayout::Figure, |row| {
        row.n_recent.into()
    })
    .usual(),
];

/// The page of a user.
#[derive(Clone, Debug, Template)]
#[template(path = "user.html")]
pub struct UserPage {
    /// Page frame.
    pub shell: Shell,
    /// Time range and environments.
    pub focus: FocusView,
    /// Errors in the query string.
    pub notices: Vec<Text>,
    /// The user with sums of the selected time range and environments.
    pub line: GroupLine,
    /// Whether no trace is in these; the sums then are of all traces.
    pub is_outside: bool,
    /// Traces, cost and latency over time.
    pub charts: Option<DeferredTrend>,
    /// Sessions by last activity.
    pub sessions: ListTable,
    /// Whether there are more sessions.
    pub has_more_sessions: bool,
    /// Latest traces.
    pub traces: Vec<crate::TraceLine>,
    /// URL of the list of all traces.
    pub all_traces: String,
    /// Traces with low scores, lowest first.
    pub low: Vec<crate::TraceLine>,
    /// Names of these scores, with the URLs of the lists of all traces with a low one.
    pub low_names: Vec<(Text, String)>,
}
