//! The matched rows of two traces with their differences.

use std::ops::Range;

use perpend_domain::observation::Level;
use perpend_domain::outline::{Outline, OutlineNode, RowPair};

use super::figures::ComparedFigure;
use super::query::{CompareQuery, ComparedObservation};
use super::side::{CompareSide, ContentFingerprints, ScoresByName};
use crate::Text;
use crate::format::{count, kind_label, plural};

/// Lines per page.
pub const COMPARED_ROWS: usize = 150;
/// Maximum indentation level.
const MAX_DEPTH: u32 = 20;
/// Durations count as equal if they differ by less than this share of the longer one.
const JITTER: f64 = 0.1;
/// Maximum number of listed names of equal rows.
const NAMED: usize = 3;

/// A line of the comparison.
#[derive(Debug)]
pub(crate) enum CompareLine {
    Row(Box<CompareRow>),
    /// Collapsed equal rows.
    Equal {
        n: String,
        names: Text,
        indent: u32,
        href: String,
    },
}

#[derive(Debug)]
pub(crate) struct CompareRow {
    pub(crate) indent: u32,
    pub(crate) kind: &'static str,
    pub(crate) name: Text,
    pub(crate) href: String,
    pub(crate) is_selected: bool,
    pub(crate) state: &'static str,
    pub(crate) class: &'static str,
    /// Names of the differing properties.
    pub(crate) differences: String,
    pub(crate) figures: [ComparedFigure; 3],
    pub(crate) level: ComparedFigure,
    pub(crate) scores: Vec<(Text, ComparedFigure)>,
}

/// The result of the comparison of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RowOutcome {
    OnlyA,
    OnlyB,
    Changed,
    Equal,
    /// One of the traces does not exist.
    Alone,
}

/// All matched rows with their outcomes.
pub(crate) struct RowComparison<'a> {
    sides: [Option<&'a CompareSide>; 2],
    pairs: &'a [RowPair],
    outcomes: Vec<RowOutcome>,
    /// Whether a row or one of its descendants differs.
    has_change: Vec<bool>,
    /// Number of matched rows whose contents were not read.
    pub(crate) n_unread: usize,
}

/// A page of lines.
#[derive(Debug)]
pub(crate) struct LineWindow {
    pub(crate) lines: Vec<CompareLine>,
    pub(crate) n_lines: usize,
    pub(crate) at: usize,
}

impl<'a> RowComparison<'a> {
    pub(crate) fn new(sides: [Option<&'a CompareSide>; 2], pairs: &'a [RowPair]) -> Self {
        let mut compared = Self {
            sides,
            pairs,
            outcomes: Vec::with_capacity(pairs.len()),
            has_change: vec![false; pairs.len()],
            n_unread: 0,
        };
        for pair in pairs {
            let outcome = compared.outcome(pair);
            compared.outcomes.push(outcome);
        }
        for (at, pair) in pairs.iter().enumerate().rev() {
            compared.has_change[at] |= compared.outcomes[at] != RowOutcome::Equal;
            if let Some(parent) = pair.parent.filter(|_| compared.has_change[at]) {
                compared.has_change[parent as usize] = true;
            }
        }
        compared
    }

    fn outcome(&mut self, pair: &RowPair) -> RowOutcome {
        if self.sides.iter().any(Option::is_none) {
            return RowOutcome::Alone;
        }
        match (pair.a, pair.b) {
            (Some(_), None) => RowOutcome::OnlyA,
            (None, _) => RowOutcome::OnlyB,
            (Some(_), Some(_)) => {
                if self.fingerprints(pair).iter().any(Option::is_none) {
                    self.n_unread += 1;
                }
                match self.differences(pair).is_empty() {
                    true => RowOutcome::Equal,
                    false => RowOutcome::Changed,
                }
            }
        }
    }

    /// Number of rows only in A, only in B, changed, and equal.
    pub(crate) fn counts(&self) -> [usize; 4] {
        let n = |state| self.outcomes.iter().filter(|own| **own == state).count();
        [RowOutcome::OnlyA, RowOutcome::OnlyB, RowOutcome::Changed, RowOutcome::Equal].map(n)
    }

    fn entries(&self, pair: &RowPair) -> [Option<(&'a Outline, &'a OutlineNode)>; 2] {
        let entry = |side: usize, row: Option<u32>| {
            let outline = self.sides[side].map(|side| &*side.outline)?;
            Some((outline, outline.rows().get(row? as usize)?))
        };
        [entry(0, pair.a), entry(1, pair.b)]
    }

    fn fingerprints(&self, pair: &RowPair) -> [Option<&'a ContentFingerprints>; 2] {
        let entries = self.entries(pair);
        let print = |side: usize| {
            let (_, entry) = entries[side]?;
            self.sides[side]?.fingerprints.0.get(entry.id())
        };
        [print(0), print(1)]
    }

    fn scores(&self, pair: &RowPair) -> Vec<(Text, ComparedFigure)> {
        let entries = self.entries(pair);
        let scored = |side: usize| {
            let (_, entry) = entries[side]?;
            self.sides[side]?.scores.get(&Some(entry.id().to_owned()))
        };
        ScoresByName::compare([scored(0), scored(1)])
    }

    /// Names of the differing properties of a pair.
    fn differences(&self, pair: &RowPair) -> Vec<&'static str> {
        let mut all = Vec::new();
        let [Some((of_a, a)), Some((of_b, b))] = self.entries(pair) else {
            return all;
        };
        let mut note = |differs: bool, name| {
            if differs {
                all.push(name);
            }
        };
        note(a.level != b.level, "level");
        if let [Some(a), Some(b)] = self.fingerprints(pair) {
            note(a.status != b.status, "status");
            note(a.input != b.input, "input");
            note(a.output != b.output, "output");
            note(a.parameters != b.parameters, "parameters");
            note(a.prompt != b.prompt, "prompt");
        }
        note(of_a.model(a) != of_b.model(b), "model");
        note(durations_differ(duration_us(a), duration_us(b)), "duration");
        note(a.tokens != b.tokens, "tokens");
        let costs = [a, b].map(|entry| Some(entry.own_cost()));
        note(ComparedFigure::cost(costs).differs, "cost");
        note(self.scores(pair).iter().any(|(_, figure)| figure.differs), "scores");
        note(pair.is_moved, "order");
        all
    }

    /// The lines from `query.at` on. Equal rows are collapsed unless `query.shows_equal`.
    pub(crate) fn window(&self, query: &CompareQuery, base: &str) -> LineWindow {
        let mut all = Vec::new();
        let mut at = 0;
        while at < self.pairs.len() {
            let is_collapsed = !query.shows_equal && !self.has_change[at];
            let behind = if is_collapsed { self.end_of_equal(at) } else { at + 1 };
            all.push((is_collapsed, at..behind));
            at = behind;
        }
        let last = all.len().saturating_sub(1) / COMPARED_ROWS * COMPARED_ROWS;
        let at = query.at.min(last);
        let some = all.iter().skip(at).take(COMPARED_ROWS);
        let lines = some.map(|(is_collapsed, rows)| match is_collapsed {
            true => self.collapsed(rows.clone(), query, base),
            false => CompareLine::Row(Box::new(self.row(rows.start, query, base))),
        });
        LineWindow { lines: lines.collect(), n_lines: all.len(), at }
    }

    /// The position after consecutive equal siblings.
    fn end_of_equal(&self, first: usize) -> usize {
        let parent = self.pairs[first].parent;
        let mut at = first;
        while at < self.pairs.len() && self.pairs[at].parent == parent && !self.has_change[at] {
            at += 1 + self.pairs[at].n_below as usize;
        }
        at
    }

    fn collapsed(&self, rows: Range<usize>, query: &CompareQuery, base: &str) -> CompareLine {
        let first = &self.pairs[rows.start];
        let siblings = rows.clone().filter(|at| self.pairs[*at].depth == first.depth);
        let mut names: Vec<String> = Vec::new();
        let mut n = 0;
        for at in siblings {
            n += 1;
            let name = self.name(&self.pairs[at]);
            if names.len() < NAMED && names.last() != Some(&name) {
                names.push(name);
            }
        }
        if names.len() < n {
            names.push("…".to_owned());
        }
        let opened = query.with(|query| {
            query.shows_equal = true;
            query.at = rows.start / COMPARED_ROWS * COMPARED_ROWS;
        });
        CompareLine::Equal {
            n: plural(rows.len() as u64, "equal observation"),
            names: Text::from(names.join(", ")),
            indent: first.depth.min(MAX_DEPTH),
            href: opened.address(base),
        }
    }

    fn name(&self, pair: &RowPair) -> String {
        let found = self.entries(pair).into_iter().flatten().next();
        found.map_or_else(String::new, |(outline, entry)| match outline.name(entry) {
            "" => kind_label(entry.kind).to_owned(),
            name => name.to_owned(),
        })
    }

    fn row(&self, at: usize, query: &CompareQuery, base: &str) -> CompareRow {
        let pair = &self.pairs[at];
        let entries = self.entries(pair).map(|found| found.map(|(_, entry)| entry));
        let own = row_parameter(entries);
        let selecting = query.with(|query| query.pair.clone_from(&own));
        let (state, class) = match self.outcomes[at] {
            RowOutcome::OnlyA => ("only in A", "bad"),
            RowOutcome::OnlyB => ("only in B", "good"),
            RowOutcome::Changed => ("changed", "waiting"),
            RowOutcome::Equal => ("equal", "plain"),
            RowOutcome::Alone => ("", "plain"),
        };
        // A row of one side has no level difference.
        let [a, b] = entries.map(|entry| entry.map(|entry| level_label(entry.level)));
        let level = ComparedFigure::labels([a.or(b), b.or(a)]);
        CompareRow {
            indent: pair.depth.min(MAX_DEPTH),
            kind: entries.into_iter().flatten().next().map_or("", |entry| kind_label(entry.kind)),
            name: Text::from(self.name(pair)),
            href: format!("{}#content", selecting.address(base)),
            is_selected: own.is_some() && own == query.pair,
            state,
            class,
            differences: self.differences(pair).join(", "),
            figures: [
                ComparedFigure::duration(entries.map(|entry| entry.and_then(duration_us))),
                ComparedFigure::count(entries.map(|entry| entry.and_then(|entry| entry.tokens))),
                ComparedFigure::cost(entries.map(|entry| entry.map(OutlineNode::own_cost))),
            ],
            level,
            scores: self.scores(pair),
        }
    }
}

/// The `pair` parameter of a row.
fn row_parameter(entries: [Option<&OutlineNode>; 2]) -> Option<ComparedObservation> {
    match entries {
        [Some(a), _] => Some(ComparedObservation::A(a.id().to_owned())),
        [None, Some(b)] => Some(ComparedObservation::B(b.id().to_owned())),
        [None, None] => None,
    }
}

fn duration_us(entry: &OutlineNode) -> Option<i64> {
    Some(entry.end?.micros_since(entry.start))
}

fn durations_differ(a: Option<i64>, b: Option<i64>) -> bool {
    let (Some(a), Some(b)) = (a, b) else {
        return a.is_some() != b.is_some();
    };
    let (less, more) = (a.min(b) as f64, a.max(b) as f64);
    JITTER * more < more - less
}

const fn level_label(level: Level) -> &'static str {
    match level {
        Level::Debug => "debug",
        Level::Default => "default",
        Level::Warning => "warning",
        Level::Error => "error",
    }
}

impl LineWindow {
    pub(crate) fn shown(&self) -> String {
        let number = |n: usize| count(n as u64);
        let last = self.at + self.lines.len();
        format!("Lines {}–{} of {}", number(self.at + 1), number(last), number(self.n_lines))
    }

    pub(crate) fn is_whole(&self) -> bool {
        self.lines.len() == self.n_lines
    }
}
