//! The steps of a trace that stand out: what cost most and what took longest, however many rows there are.

use std::cmp::Reverse;

use perpend_domain::time::Timestamp;
use perpend_outline::{Entry, Outline};

use crate::aspect::Kept;
use crate::format::{dollars, duration};
use crate::markup::Text;
use crate::rows::RowsInput;

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
    let mut costly: Vec<(&Entry, f64)> = outline
        .rows()
        .iter()
        .filter_map(|entry| Some((entry, entry.cost.filter(|cost| 0.0 < *cost)?)))
        .collect();
    costly.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    // What has steps below it takes as long as they do.
    let leaves = outline.rows().iter().filter(|entry| entry.n_below == 0);
    let mut long: Vec<(&Entry, i64)> = leaves.map(|entry| (entry, took(entry))).collect();
    long.sort_by_key(|(_, us)| Reverse(*us));
    let costly = costly
        .into_iter()
        .take(NAMED)
        .map(|(entry, cost)| peak(entry, dollars(cost)));
    let long = long
        .into_iter()
        .take(NAMED)
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

/// `18 of 20`
fn place(outline: &Outline, entry: &Entry) -> Option<String> {
    let name = outline.name(entry);
    let mut n = 0;
    let mut at = 0;
    for own in outline.rows() {
        if outline.name(own) == name {
            n += 1;
            if own.id() == entry.id() {
                at = n;
            }
        }
    }
    (1 < n).then(|| format!("{at} of {n}"))
}
