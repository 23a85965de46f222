//! Two traces beside each other: their figures, their rows, and the contents of one row.
//!
//! `query`: what is compared, as an address; `side`: what is known of a trace; `facts`: what they say of themselves;
//! `rows`: which rows differ, of those that `perpend_domain::outline::align` puts beside each other; `content`: the values of one of them; `figures`: numbers with their differences; `pick`:
//! what is asked for where there are not two traces.

mod content;
mod facts;
mod figures;
mod pick;
mod query;
mod rows;
mod side;
#[cfg(test)]
mod tests;

use crate::markup::segment;
use askama::Template;
use perpend_domain::observation::Observation;
use perpend_domain::outline::RowPair;

use self::content::{Contents, LETTERS, of_steps, of_traces};
use self::facts::facts;
use self::figures::Figure;
pub use self::pick::CompareSelectionPage;
pub use self::query::{CompareQuery, ComparedObservation};
pub use self::rows::COMPARED_ROWS;
use self::rows::{Compared, Shown, Window};
pub use self::side::{CompareSide, ContentFingerprints, ObservationFingerprints, ScoresByName};
use crate::format::{count, many};
use crate::{Shell, Text};

/// What the comparison is made from.
#[derive(Debug)]
pub struct CompareInput {
    /// Around the page.
    pub shell: Shell,
    /// What is asked.
    pub query: CompareQuery,
    /// Absent where the project has no such trace.
    pub sides: [Option<CompareSide>; 2],
    /// The rows of both, beside each other.
    pub pairs: Vec<RowPair>,
    /// The selected steps with their content.
    pub steps: Option<[Option<Observation>; 2]>,
    /// What in the address cannot be had.
    pub notices: Vec<Text>,
}

/// Two traces beside each other.
#[derive(Debug, Template)]
#[template(path = "compare.html")]
pub struct ComparePage {
    shell: Shell,
    query: CompareQuery,
    heads: [Head; 2],
    facts: Vec<(Text, Figure)>,
    verdict: String,
    is_same: bool,
    notices: Vec<Text>,
    window: Window,
    content: Option<Contents>,
}

/// The name of a side.
#[derive(Debug)]
struct Head {
    letter: &'static str,
    id: Text,
    /// Name and address; none where the project has no such trace.
    found: Option<(Text, String)>,
}

impl ComparePage {
    /// Compares them. What takes long, it takes here.
    #[must_use]
    pub fn new(input: CompareInput) -> Self {
        let CompareInput { shell, query, sides, pairs, steps, notices } = input;
        let base = shell.base().to_owned();
        let present = sides.each_ref().map(Option::as_ref);
        let compared = Compared::new(present, &pairs);
        let content = match &steps {
            Some(steps) => of_steps(&query, &base, steps),
            None => of_traces(&query, &base, present),
        };
        let facts = facts(present);
        let counts = compared.counts();
        let head = |at: usize| {
            let raw = [&query.a, &query.b][at];
            let named = present[at].map(|side| {
                let name = side.trace.name.as_deref().unwrap_or("Unnamed trace");
                (Text::from(name), format!("{base}/traces/{}", segment(raw)))
            });
            Head { letter: LETTERS[at], id: Text::from(raw.as_str()), found: named }
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

    /// Whether both traces are there.
    fn has_both(&self) -> bool {
        self.heads.iter().all(|head| head.found.is_some())
    }

    /// A fact in which both are the same.
    fn is_folded(&self, figure: &Figure) -> bool {
        self.has_both() && !figure.differs && !figure.is_apart
    }

    fn n_folded(&self) -> usize {
        let facts = self.facts.iter();
        facts.filter(|(_, figure)| self.is_folded(figure)).count()
    }

    fn address(&self, change: impl FnOnce(&mut CompareQuery)) -> String {
        self.query.with(change).address(self.shell.base())
    }

    /// B against A. The step that is selected stays selected.
    fn swapped(&self) -> String {
        self.address(|query| {
            std::mem::swap(&mut query.a, &mut query.b);
            query.at = 0;
            query.pair =
                self.content.as_ref().and_then(|content| content.pair_when_swapped.clone());
        })
    }

    /// The comparison of the traces themselves.
    fn of_traces(&self) -> Option<String> {
        let is_of_step = self.query.pair.is_some();
        is_of_step.then(|| self.address(|query| query.pair = None))
    }

    fn with_equal(&self, shows_equal: bool) -> String {
        self.address(|query| (query.shows_equal, query.at) = (shows_equal, 0))
    }

    /// Each way to show differences, and whether it is this one.
    fn choices(&self) -> [(&'static str, String, bool); 4] {
        let diff = self.query.diff;
        let inline = |is_inline| self.address(|query| query.diff.is_inline = is_inline);
        let space = |ignores| self.address(|query| query.diff.ignores_space = ignores);
        [
            ("Side by side", inline(false), !diff.is_inline),
            ("Inline", inline(true), diff.is_inline),
            ("White space counts", space(false), !diff.ignores_space),
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

    /// What the form that picks other traces keeps.
    fn kept(&self) -> Vec<(&'static str, String)> {
        let mut kept = self.query.with(|query| (query.pair, query.at) = (None, 0)).parameters();
        kept.retain(|(name, _)| *name != "a" && *name != "b");
        kept
    }

    /// The list that the traces were chosen from.
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
        parts.map(|(n, what)| format!("{} {what}", count(*n as u64))).collect();
    let unread = match n_unread {
        0 => String::new(),
        n => format!("; the contents of {} were not compared", many(n as u64, "step")),
    };
    match parts.is_empty() {
        true => unread,
        false => format!("{}{unread}", parts.join(", ")),
    }
}
