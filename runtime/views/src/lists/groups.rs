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

/// Sessions, or users, those that were active last first.
#[derive(Clone, Debug, Template)]
#[template(path = "groups.html")]
pub struct GroupsPage {
    /// Page frame.
    pub shell: Shell,
    /// Time range and environments.
    pub focus: FocusView,
    /// Errors in the query string.
    pub notices: Vec<Text>,
    /// What is asked of them.
    pub filter: FilterView,
    /// Where the search stopped.
    pub stopped: Option<StoppedSearch>,
    /// Of how many traces of each there are scores.
    pub n_scored: u32,
    /// What it lists.
    pub by: GroupKey,
    /// Rows of this page.
    pub lines: Vec<GroupLine>,
    /// Newer ones, and older ones.
    pub page_links: PageLinks,
    /// Position of the page in the list.
    pub position: String,
    /// It is not the first page.
    pub is_later: bool,
    /// Somebody asked for an id that none has.
    pub unknown: Option<Text>,
    /// This server and its keys, where no trace names one yet.
    pub setup: Option<Setup>,
}

/// One session or user.
#[derive(Clone, Debug)]
pub struct GroupLine {
    by: GroupKey,
    pub(crate) group: TraceGroup,
    pub(crate) id: Text,
    pub(crate) other: Option<Text>,
    /// The scores of each name.
    pub scores: Vec<GroupChip>,
    /// How many traces began on each of the last days, as bars, and in words.
    pub(crate) bars: String,
    pub(crate) n_lately: String,
    pub(crate) most: String,
}

/// The scores of one name, of a session itself or of traces.
#[derive(Clone, Debug)]
pub struct GroupChip {
    /// Their name.
    pub name: Text,
    /// What they say together; empty for further names.
    pub value: Text,
    /// What that is of.
    pub title: String,
    /// Where it is from 0 to 1: in percent.
    pub share: Option<f64>,
    /// Where what has them is.
    pub href: String,
}

impl GroupLine {
    /// With the numbers of its traces on these days. `highest` is the largest number of all lines on the page, which share one
    /// scale.
    #[must_use]
    pub fn with_days(mut self, days: &[(String, u64)], highest: u64) -> Self {
        self.n_lately = count(days.iter().map(|(_, n)| n).sum());
        // Of equal ones the latest.
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

    /// What is said of a session, or of a user.
    #[must_use]
    pub fn new(by: GroupKey, group: TraceGroup) -> Self {
        Self {
            by,
            id: Text::from(group.id.as_str()),
            other: group.other.as_deref().map(Text::from),
            scores: Vec::new(),
            bars: String::new(),
            n_lately: String::new(),
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

    pub(crate) fn lasted(&self) -> String {
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

    /// The room that the decimals of other costs take behind the own one.
    pub(crate) fn blanks(&self, lines: &[Self]) -> String {
        let costs = lines.iter().map(|line| line.group.cost);
        crate::format::decimal_blanks(self.group.cost, costs)
    }

    pub(crate) fn more_others(&self) -> u64 {
        self.group.n_others.saturating_sub(1)
    }

    /// When the first and the last trace began, named as the lists name them.
    pub(crate) fn ends(&self) -> [(&'static str, &Timestamp); 2] {
        let (first, last) = match self.by {
            GroupKey::Session => ("Started", "Last trace"),
            GroupKey::User => ("First seen", "Last seen"),
        };
        [(first, &self.group.first), (last, &self.group.last)]
    }

    /// Further facts in the head of the page of a session or user.
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
    fn news(&self) -> String {
        let (base, id) = (self.shell.base(), encode(&self.line.group.id));
        let kept = self.shell.focus.query().replacen('?', "&", 1);
        format!("{base}/_/users/news?of={id}{kept}")
    }
}

impl GroupsPage {
    pub(crate) fn is_of_sessions(&self) -> bool {
        self.by == GroupKey::Session
    }

    /// Whether a time or environments are chosen.
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

/// A user: sums, sessions and latest traces.
#[derive(Clone, Debug, Template)]
#[template(path = "user.html")]
pub struct UserPage {
    /// Page frame.
    pub shell: Shell,
    /// Time range and environments.
    pub focus: FocusView,
    /// Errors in the query string.
    pub notices: Vec<Text>,
    /// Who it is, with sums of the chosen time and environments.
    pub line: GroupLine,
    /// No trace is in these: the sums are those of all.
    pub is_outside: bool,
    /// Traces, cost and latency over time.
    pub charts: Option<DeferredTrend>,
    /// Sessions, those that were active last first.
    pub sessions: Vec<GroupLine>,
    /// There are more sessions than these.
    pub has_more_sessions: bool,
    /// Latest traces.
    pub traces: Vec<crate::TraceLine>,
    /// The list of all of them.
    pub all_traces: String,
    /// Those with the lowest scores.
    pub low: Vec<crate::TraceLine>,
    /// The names of these scores, with the lists of all that have a low one.
    pub low_names: Vec<(Text, String)>,
}
