//! Compares two traces: their figures, their rows, and the contents of one row.
//!
//! `query`: URL parameters; `side`: data of one trace; `facts`: properties of the traces; `rows`: rows that
//! `perpend_domain::outline::align` matches, with their differences; `content`: the values of one row; `figures`: numbers with
//! their difference; `selection`: the form shown unless two traces are selected.

mod content;
mod facts;
mod figures;
mod query;
mod rows;
mod selection;
mod side;
#[cfg(test)]
mod tests;

use crate::markup::segment;
use askama::Template;
use perpend_domain::observation::Observation;
use perpend_domain::outline::RowPair;

use self::content::{LETTERS, RowContents, observation_contents, trace_contents};
use self::facts::facts;
use self::figures::ComparedFigure;
pub use self::query::{CompareQuery, ComparedObservation};
pub use self::rows::COMPARED_ROWS;
use self::rows::{CompareLine, LineWindow, RowComparison};
pub use self::selection::CompareSelectionPage;
pub use self::side::{CompareSide, ContentFingerprints, ObservationFingerprints, ScoresByName};
use crate::format::{count, plural};
use crate::{Shell, Text};

/// Input of [`ComparePage`].
#[derive(Debug)]
pub struct CompareInput {
    /// Page frame.
    pub shell: Shell,
    /// URL parameters.
    pub query: CompareQuery,
    /// Absent if the project has no trace with this id.
    pub sides: [Option<CompareSide>; 2],
    /// The matched rows of both traces.
    pub pairs: Vec<RowPair>,
    /// The selected observations with their content.
    pub observations: Option<[Option<Observation>; 2]>,
    /// Invalid query parameters.
    pub notices: Vec<Text>,
}

/// The comparison of two traces.
#[derive(Debug, Template)]
#[template(path = "compare.html")]
pub struct ComparePage {
    shell: Shell,
    query: CompareQuery,
    heads: [SideHeading; 2],
    facts: Vec<(Text, ComparedFigure)>,
    verdict: String,
    is_same: bool,
    notices: Vec<Text>,
    window: LineWindow,
    content: Option<RowContents>,
}

/// The heading of a side.
#[derive(Debug)]
struct SideHeading {
    letter: &'static str,
    id: Text,
    /// Name and URL; absent if the project has no trace with this id.
    found: Option<(Text, String)>,
}

impl ComparePage {
    /// Compares the traces. This does all the expensive work.
    #[must_use]
    pub fn new(input: CompareInput) -> Self {
        let CompareInput { shell, query, sides, pairs, observations, notices } = input;
        let base = shell.base().to_owned();
        let present = sides.each_ref().map(Option::as_ref);
        let compared = RowComparison::new(present, &pairs);
        let content = match &observations {
            Some(observations) => observation_contents(&query, &base, observations),
            None => trace_contents(&query, &base, present),
        };
        let facts = facts(present);
        let counts = compared.counts();
        let head = |at: usize| {
            let raw = [&query.a, &query.b][at];
            let named = present[at].map(|side| {
                let name = side.trace.name.as_deref().unwrap_or("Unnamed trace");
                (Text::from(name), format!("{base}/traces/{}", segment(raw)))
            });
            SideHeading { letter: LETTERS[at], id: Text::from(raw.as_str()), found: named }
        };
        let values_differ = match present {
            [Some(a), Some(b)] => {
                let (a, b) = (&a.trace, &b.trace);
                a.input != b.input || a.output != b.output || a.metadata != b.metadata
            }
            _ => false,
        };
        let [only_a, only_b, changed, _] = counts;
        let has_both = present.iter().all(Option::is_some);
        let facts_differ = facts.iter().any(|(_, figure)| figure.differs);
        let is_same = has_both
            && only_a + only_b + changed + compared.n_unread == 0
            && !values_differ
            && !facts_differ;
        Self {
            heads: [head(0), head(1)],
            verdict: verdict(counts, compared.n_unread, is_same),
            window: compared.window(&query, &base),
            is_same,
            facts,
            content,
            notices,
            query,
            shell,
        }
    }

    /// Whether both traces exist.
    fn has_both(&self) -> bool {
        self.heads.iter().all(|head| head.found.is_some())
    }

    /// Whether a property is shown in the collapsed list of equal properties.
    fn is_folded(&self, figure: &ComparedFigure) -> bool {
        self.has_both() && !figure.differs && !figure.is_neutral
    }

    fn n_folded(&self) -> usize {
        let facts = self.facts.iter();
        facts.filter(|(_, figure)| self.is_folded(figure)).count()
    }

    fn address(&self, change: impl FnOnce(&mut CompareQuery)) -> String {
        self.query.with(change).address(self.shell.base())
    }

    /// URL with A and B swapped and the same row selected.
    fn swapped(&self) -> String {
        self.address(|query| {
            std::mem::swap(&mut query.a, &mut query.b);
            query.at = 0;
            query.pair =
                self.content.as_ref().and_then(|content| content.pair_when_swapped.clone());
        })
    }

    /// URL of the contents of the traces, if a row is selected.
    fn trace_contents_href(&self) -> Option<String> {
        let has_selection = self.query.pair.is_some();
        has_selection.then(|| self.address(|query| query.pair = None))
    }

    fn with_equal(&self, shows_equal: bool) -> String {
        self.address(|query| (query.shows_equal, query.at) = (shows_equal, 0))
    }

    /// The display options of differences: label, URL, and whether the option is active.
    fn choices(&self) -> [(&'static str, String, bool); 4] {
        let diff = self.query.diff;
        let inline = |is_inline| self.address(|query| query.diff.is_inline = is_inline);
        let space = |ignores| self.address(|query| query.diff.ignores_space = ignores);
        [
            ("Side by side", inline(false), !diff.is_inline),
            ("Inline", inline(true), diff.is_inline),
            ("Compare white space", space(false), !diff.ignores_space),
            ("Ignore white space", space(true), diff.ignores_space),
        ]
    }

    fn earlier(&self) -> Option<String> {
        let at = self.window.at.saturating_sub(COMPARED_ROWS);
        (0 < self.window.at).then(|| self.address(|query| query.at = at))
    }

    fn later(&self) -> Option<String> {
        let at = self.window.at + self.window.lines.len();
        (at < self.window.n_lines).then(|| self.address(|query| query.at = at))
    }

    /// Hidden fields of the form that selects other traces.
    fn hidden_fields(&self) -> Vec<(&'static str, String)> {
        let mut fields = self.query.with(|query| (query.pair, query.at) = (None, 0)).parameters();
        fields.retain(|(name, _)| *name != "a" && *name != "b");
        fields
    }

    /// URL of the list that the traces were selected from.
    fn list(&self) -> String {
        let list = self.query.list.as_deref().unwrap_or("/traces");
        format!("{}{list}", self.shell.base())
    }
}

fn verdict([only_a, only_b, changed, equal]: [usize; 4], n_unread: usize, is_same: bool) -> String {
    if is_same {
        return "No difference".to_owned();
    }
    let parts =
        [(changed, "changed"), (only_a, "only in A"), (only_b, "only in B"), (equal, "equal")];
    let parts = parts.iter().filter(|(n, _)| 0 < *n);
    let parts: Vec<String> =
        parts.map(|(n, label)| format!("{} {label}", count(*n as u64))).collect();
    let unread = match n_unread {
        0 => String::new(),
        n => format!("; the contents of {} were not compared", plural(n as u64, "observation")),
    };
    match parts.is_empty() {
        true => unread,
        false => format!("{}{unread}", parts.join(", ")),
    }
}
