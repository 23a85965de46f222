//! The steps of a trace that stand out: what cost most and what took longest, however many rows there are.

use perpend_domain::time::Timestamp;
use perpend_markup::Text;
use perpend_outline::{Entry, highest};

use crate::aspect::Kept;
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
        place: outline
            .place_among_alike(entry)
            .map(|(at, n)| format!("no. {at} of {n}")),
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
    let costly = highest(NAMED, costs, f64::total_cmp)
        .into_iter()
        .map(|(entry, cost)| peak(entry, dollars(cost)));
    // What has steps below it takes as long as they do.
    let leaves = outline.rows().iter().filter(|entry| entry.n_below == 0);
    let long = highest(NAMED, leaves.map(|entry| (entry, took(entry))), i64::cmp)
        .into_iter()
        .map(|(entry, us)| peak(entry, duration(us)));
    let cost_most = match outline.rows().iter().any(|entry| entry.is_unpriced) {
        true => "Cost most, of steps with a known price",
        false => "Cost most",
    };
    let all = [
        (cost_most, costly.collect::<Vec<_>>()),
        ("Slowest single steps", long.collect()),
    ];
    all.into_iter()
        .filter(|(_, peaks)| !peaks.is_empty())
        .collect()
}
