//! The steps of a trace that stand out: what cost most and what took longest, however many rows there are.

use std::cmp::Ordering;

use perpend_domain::time::Timestamp;
use perpend_outline::{Entry, Outline};

use crate::aspect::Kept;
use crate::markup::Text;
use crate::rows::RowsInput;
use perpend_words::{dollars, duration};

/// Steps named of each sort.
const NAMED: usize = 3;
/// In fewer rows they are seen at once.
const FEW: usize = 8;

/// A step that stands out.
#[derive(Debug)]
pub(crate) struct Peak {
    pub(crate) name: Text,
    /// Which of the steps of this name it is, where there are several.
    pub(crate) place: Option<String>,
    pub(crate) href: String,
    pub(crate) value: String,
}

/// Steps that stand out, by what they do so: cost most, took longest.
pub(crate) type Peaks = Vec<(&'static str, Vec<Peak>)>;

pub(crate) fn peaks(input: &RowsInput<'_>) -> Peaks {
    let outline = input.view.outline();
    if outline.rows().len() < FEW {
        return Vec::new();
    }
    let peak = |entry: &Entry, value: String| Peak {
        name: Text::from(outline.name(entry)),
        place: place(outline, entry),
        href: Kept::new(Some(entry.id()), input.folds).address(input.looking),
        value,
    };
    let end = outline
        .period()
        .map_or_else(Timestamp::default, |(_, end)| end);
    let took = |entry: &Entry| entry.end.unwrap_or(end).micros_since(entry.start);
    let costs = outline
        .rows()
        .iter()
        .filter_map(|entry| Some((entry, entry.cost.filter(|cost| 0.0 < *cost)?)));
    let costly = highest(costs, f64::total_cmp)
        .into_iter()
        .map(|(entry, cost)| peak(entry, dollars(cost)));
    // What has steps below it takes as long as they do.
    let leaves = outline.rows().iter().filter(|entry| entry.n_below == 0);
    let long = highest(leaves.map(|entry| (entry, took(entry))), i64::cmp)
        .into_iter()
        .map(|(entry, us)| peak(entry, duration(us)));
    let all = [
        ("Cost most", costly.collect::<Vec<_>>()),
        (
            "Took longest, of steps without others below",
            long.collect(),
        ),
    ];
    all.into_iter()
        .filter(|(_, peaks)| !peaks.is_empty())
        .collect()
}

/// The first [`NAMED`] of them, the highest first and equal ones in their order, without sorting them all.
fn highest<'e, V: Copy>(
    all: impl Iterator<Item = (&'e Entry, V)>,
    order: impl Fn(&V, &V) -> Ordering,
) -> Vec<(&'e Entry, V)> {
    let mut found: Vec<(&Entry, V)> = Vec::with_capacity(NAMED + 1);
    for (entry, value) in all {
        let at = found.partition_point(|(_, own)| order(own, &value).is_ge());
        if at < NAMED {
            found.insert(at, (entry, value));
            found.truncate(NAMED);
        }
    }
    found
}

/// `no. 18 of 20`
fn place(outline: &Outline, entry: &Entry) -> Option<String> {
    let mut n = 0;
    let mut at = 0;
    for own in outline.rows() {
        if own.is_named_as(entry) {
            n += 1;
            if own.id() == entry.id() {
                at = n;
            }
        }
    }
    (1 < n).then(|| format!("no. {at} of {n}"))
}
