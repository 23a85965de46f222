//! Rows of two traces beside each other, those that differ.

use std::ops::Range;

use perpend_domain::observation::Level;
use perpend_domain::outline::{Outline, OutlineNode, RowPair};

use super::figures::Figure;
use super::query::{CompareQuery, ComparedObservation};
use super::side::{CompareSide, ContentFingerprints, ScoresByName};
use crate::Text;
use crate::format::{count, kind_word, many};

/// Rows in one document.
pub const COMPARED_ROWS: usize = 150;
/// Deeper rows are indented like this one.
const MAX_DEPTH: u32 = 20;
/// Durations that differ by less than this share of the longer one count as equal: no two runs take the same time.
const JITTER: f64 = 0.1;
/// Names of equal rows that are said.
const NAMED: usize = 3;

/// One line of the comparison.
#[derive(Debug)]
pub(crate) enum Shown {
    Row(Box<Row>),
    /// Equal rows that are folded away.
    Equal {
        n: String,
        names: Text,
        indent: u32,
        href: String,
    },
}

#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) indent: u32,
    pub(crate) kind: &'static str,
    pub(crate) name: Text,
    pub(crate) href: String,
    pub(crate) is_selected: bool,
    pub(crate) state: &'static str,
    pub(crate) class: &'static str,
    /// What differs.
    pub(crate) what: String,
    pub(crate) figures: [Figure; 3],
    pub(crate) level: Figure,
    pub(crate) scores: Vec<(Text, Figure)>,
}

/// What became of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    OnlyA,
    OnlyB,
    Changed,
    Equal,
    /// One of the traces is not there.
    Alone,
}

/// All rows, and what became of each.
pub(crate) struct Compared<'a> {
    sides: [Option<&'a CompareSide>; 2],
    pairs: &'a [RowPair],
    states: Vec<State>,
    /// A row or one below it differs.
    has_change: Vec<bool>,
    /// Rows on both sides whose contents were not read.
    pub(crate) n_unread: usize,
}

/// A part of the lines, and how many there are.
#[derive(Debug)]
pub(crate) struct Window {
    pub(crate) lines: Vec<Shown>,
    pub(crate) n_lines: usize,
    pub(crate) at: usize,
}

impl<'a> Compared<'a> {
    pub(crate) fn new(sides: [Option<&'a CompareSide>; 2], pairs: &'a [RowPair]) -> Self {
        let mut compared = Self {
            sides,
            pairs,
            states: Vec::with_capacity(pairs.len()),
            has_change: vec![false; pairs.len()],
            n_unread: 0,
        };
        for pair in pairs {
            let state = compared.state(pair);
            compared.states.push(state);
        }
        for (at, pair) in pairs.iter().enumerate().rev() {
            compared.has_change[at] |= compared.states[at] != State::Equal;
            if let Some(parent) = pair.parent.filter(|_| compared.has_change[at]) {
                compared.has_change[parent as usize] = true;
            }
        }
        compared
    }

    fn state(&mut self, pair: &RowPair) -> State {
        if self.sides.iter().any(Option::is_none) {
            return State::Alone;
        }
        match (pair.a, pair.b) {
            (Some(_), None) => State::OnlyA,
            (None, _) => State::OnlyB,
            (Some(_), Some(_)) => {
                if self.fingerprints(pair).iter().any(Option::is_none) {
                    self.n_unread += 1;
                }
                match self.differences(pair).is_empty() {
                    true => State::Equal,
                    false => State::Changed,
                }
            }
        }
    }

    /// How many rows stand on one side only or differ: only in A, only in B, changed, equal.
    pub(crate) fn counts(&self) -> [usize; 4] {
        let n = |state| self.states.iter().filter(|own| **own == state).count();
        [State::OnlyA, State::OnlyB, State::Changed, State::Equal].map(n)
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

    fn scores(&self, pair: &RowPair) -> Vec<(Text, Figure)> {
        let entries = self.entries(pair);
        let scored = |side: usize| {
            let (_, entry) = entries[side]?;
            self.sides[side]?.scores.get(&Some(entry.id().to_owned()))
        };
        ScoresByName::beside([scored(0), scored(1)])
    }

    /// What differs between the rows of a pair, in words.
    fn differences(&self, pair: &RowPair) -> Vec<&'static str> {
        let mut all = Vec::new();
        let [Some((of_a, a)), Some((of_b, b))] = self.entries(pair) else {
            return all;
        };
        let mut note = |differs: bool, what| {
            if differs {
                all.push(what);
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
        note(takes_another_time(took(a), took(b)), "duration");
        note(a.tokens != b.tokens, "tokens");
        let costs = [a, b].map(|entry| Some(entry.own_cost()));
        note(Figure::cost(costs).differs, "cost");
        note(self.scores(pair).iter().any(|(_, figure)| figure.differs), "scores");
        note(pair.is_moved, "order");
        all
    }

    /// The lines from `query.at` on. Equal rows are folded unless they are asked for.
    pub(crate) fn window(&self, query: &CompareQuery, base: &str) -> Window {
        let mut all = Vec::new();
        let mut at = 0;
        while at < self.pairs.len() {
            let is_folded = !query.shows_equal && !self.has_change[at];
            let behind = if is_folded { self.behind_equal(at) } else { at + 1 };
            all.push((is_folded, at..behind));
            at = behind;
        }
        let last = all.len().saturating_sub(1) / COMPARED_ROWS * COMPARED_ROWS;
        let at = query.at.min(last);
        let some = all.iter().skip(at).take(COMPARED_ROWS);
        let lines = some.map(|(is_folded, rows)| match is_folded {
            true => self.folded(rows.clone(), query, base),
            false => Shown::Row(Box::new(self.row(rows.start, query, base))),
        });
        Window { lines: lines.collect(), n_lines: all.len(), at }
    }

    /// The position behind the equal rows that follow each other below one row.
    fn behind_equal(&self, first: usize) -> usize {
        let parent = self.pairs[first].parent;
        let mut at = first;
        while at < self.pairs.len() && self.pairs[at].parent == parent && !self.has_change[at] {
            at += 1 + self.pairs[at].n_below as usize;
        }
        at
    }

    fn folded(&self, rows: Range<usize>, query: &CompareQuery, base: &str) -> Shown {
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
        Shown::Equal {
            n: many(rows.len() as u64, "equal step"),
            names: Text::from(names.join(", ")),
            indent: first.depth.min(MAX_DEPTH),
            href: opened.address(base),
        }
    }

    fn name(&self, pair: &RowPair) -> String {
        let found = self.entries(pair).into_iter().flatten().next();
        found.map_or_else(String::new, |(outline, entry)| match outline.name(entry) {
            "" => kind_word(entry.kind).to_owned(),
            name => name.to_owned(),
        })
    }

    fn row(&self, at: usize, query: &CompareQuery, base: &str) -> Row {
        let pair = &self.pairs[at];
        let entries = self.entries(pair).map(|found| found.map(|(_, entry)| entry));
        let own = of_side(entries);
        let selecting = query.with(|query| query.pair.clone_from(&own));
        let (state, class) = match self.states[at] {
            State::OnlyA => ("only in A", "bad"),
            State::OnlyB => ("only in B", "good"),
            State::Changed => ("changed", "waiting"),
            State::Equal => ("equal", "plain"),
            State::Alone => ("", "plain"),
        };
        // The level of a row that stands on one side is that of both.
        let [a, b] = entries.map(|entry| entry.map(|entry| word_of(entry.level)));
        let level = Figure::words([a.or(b), b.or(a)]);
        Row {
            indent: pair.depth.min(MAX_DEPTH),
            kind: entries.into_iter().flatten().next().map_or("", |entry| kind_word(entry.kind)),
            name: Text::from(self.name(pair)),
            href: format!("{}#content", selecting.address(base)),
            is_selected: own.is_some() && own == query.pair,
            state,
            class,
            what: self.differences(pair).join(", "),
            figures: [
                Figure::duration(entries.map(|entry| entry.and_then(took))),
                Figure::count(entries.map(|entry| entry.and_then(|entry| entry.tokens))),
                Figure::cost(entries.map(|entry| entry.map(OutlineNode::own_cost))),
            ],
            level,
            scores: self.scores(pair),
        }
    }
}

/// What an address calls the pair of these rows.
fn of_side(entries: [Option<&OutlineNode>; 2]) -> Option<ComparedObservation> {
    match entries {
        [Some(a), _] => Some(ComparedObservation::A(a.id().to_owned())),
        [None, Some(b)] => Some(ComparedObservation::B(b.id().to_owned())),
        [None, None] => None,
    }
}

fn took(entry: &OutlineNode) -> Option<i64> {
    Some(entry.end?.micros_since(entry.start))
}

fn takes_another_time(a: Option<i64>, b: Option<i64>) -> bool {
    let (Some(a), Some(b)) = (a, b) else {
        return a.is_some() != b.is_some();
    };
    let (less, more) = (a.min(b) as f64, a.max(b) as f64);
    JITTER * more < more - less
}

const fn word_of(level: Level) -> &'static str {
    match level {
        Level::Debug => "debug",
        Level::Default => "default",
        Level::Warning => "warning",
        Level::Error => "error",
    }
}

impl Window {
    pub(crate) fn shown(&self) -> String {
        let number = |n: usize| count(n as u64);
        let last = self.at + self.lines.len();
        format!("Lines {}–{} of {}", number(self.at + 1), number(last), number(self.n_lines))
    }

    pub(crate) fn is_whole(&self) -> bool {
        self.lines.len() == self.n_lines
    }
}
