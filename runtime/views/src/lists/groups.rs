//! Lists of sessions and of users.

use crate::urls::Focus;
use askama::Template;
use perpend_domain::telemetry::{GroupKey, TraceGroup};
use perpend_domain::time::Timestamp;

use crate::facts::{Fact, fact};
use crate::format::{count, duration};
use crate::layout::setup::Setup;
use crate::layout::shell::href;
use crate::lists::filter::{FilterView, StoppedSearch};
use crate::lists::focus::FocusView;
use crate::lists::page_links::PageLinks;
use crate::overview::trends::DeferredTrend;
use crate::{Shell, Text, encode};

/// The list of sessions or of users by last activity.
#[derive(Clone, Debug, Template)]
#[template(path = "groups.html")]
pub struct GroupsPage {
    /// Page frame.
    pub shell: Shell,
    /// Time range and environments.
    pub focus: FocusView,
    /// Errors in the query string.
    pub notices: Vec<Text>,
    /// The filter.
    pub filter: FilterView,
    /// Progress of the search, if it stopped before the end.
    pub stopped: Option<StoppedSearch>,
    /// Number of traces per row whose scores are included.
    pub n_scored: u32,
    /// Sessions or users.
    pub by: GroupKey,
    /// Rows of this page.
    pub lines: Vec<GroupLine>,
    /// Links to other pages.
    pub page_links: PageLinks,
    /// Position of the page in the list.
    pub position: String,
    /// Whether it is not the first page.
    pub is_later: bool,
    /// The requested id, if it is unknown.
    pub unknown: Option<Text>,
    /// Values for example commands, if no trace has a session or user.
    pub setup: Option<Setup>,
}

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

    pub(crate) fn duration_text(&self) -> String {
        duration(self.group.end.micros_since(self.group.first))
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

    /// Padding that aligns the decimals of the cost with those of the other rows.
    pub(crate) fn decimal_padding(&self, lines: &[Self]) -> String {
        let costs = lines.iter().map(|line| line.group.cost);
        crate::format::decimal_blanks(self.group.cost, costs)
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
    /// URL that the page polls for new items.
    fn news_href(&self) -> String {
        let (base, id) = (self.shell.base(), encode(&self.line.group.id));
        let kept = self.shell.focus.query().replacen('?', "&", 1);
        format!("{base}/_/users/news?of={id}{kept}")
    }
}

impl GroupsPage {
    pub(crate) fn is_of_sessions(&self) -> bool {
        self.by == GroupKey::Session
    }

    /// Whether a time range or environments are selected.
    pub(crate) fn is_narrowed(&self) -> bool {
        self.shell.focus != Focus::default()
    }

    pub(crate) fn title(&self) -> &'static str {
        match self.by {
            GroupKey::Session => "Sessions",
            GroupKey::User => "Users",
        }
    }
}

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
    pub sessions: Vec<GroupLine>,
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
