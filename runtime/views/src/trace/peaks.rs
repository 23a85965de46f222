//! The most expensive and the slowest observation of a trace.

use crate::markup::Text;
use perpend_domain::outline::{OutlineNode, highest};
use perpend_domain::time::Timestamp;

use crate::format::{count, dollars, duration};
use crate::trace::header::RowState;
use crate::trace::rows::RowsInput;

/// With fewer rows no peak is shown.
const FEW: usize = 8;

/// An observation with the highest value of a measure.
#[derive(Debug)]
pub(crate) struct Peak {
    /// Name of the measure.
    pub(crate) label: &'static str,
    pub(crate) name: Text,
    /// `2 of 5` among observations of the same name; absent for a unique name.
    pub(crate) place: Option<String>,
    pub(crate) href: String,
    pub(crate) value: String,
}

/// The most expensive and the slowest observation. A measure whose two highest values are equal is omitted.
pub(crate) fn peaks(input: &RowsInput<'_>) -> Vec<Peak> {
    let outline = input.view.outline();
    if outline.rows().len() < FEW {
        return Vec::new();
    }
    let place = |(at, n): (usize, usize)| format!("{} of {}", count(at as u64), count(n as u64));
    let peak = |label, [first, second]: [Option<(&OutlineNode, String)>; 2]| {
        let (entry, value) = first.filter(|(_, value)| {
            let is_tie = second.as_ref().is_some_and(|(_, other)| other == value);
            !is_tie
        })?;
        Some(Peak {
            label,
            name: Text::from(outline.name(entry)),
            place: outline.place_among_alike(entry).map(place),
            href: RowState::new(Some(entry.id()), input.folds).address(input.view_params),
            value,
        })
    };
    let end = outline.period().map_or_else(Timestamp::default, |(_, end)| end);
    let took = |entry: &OutlineNode| entry.end.unwrap_or(end).micros_since(entry.start);
    let costs = outline
        .rows()
        .iter()
        .filter_map(|entry| Some((entry, entry.cost.filter(|cost| 0.0 < *cost)?)));
    let mut costly =
        highest(2, costs, f64::total_cmp).into_iter().map(|(entry, cost)| (entry, dollars(cost)));
    // Only leaves: a parent takes as long as its children.
    let leaves = outline.rows().iter().filter(|entry| entry.n_below == 0);
    let mut long = highest(2, leaves.map(|entry| (entry, took(entry))), i64::cmp)
        .into_iter()
        .map(|(entry, us)| (entry, duration(us)));
    let most_expensive = match outline.rows().iter().any(|entry| entry.is_unpriced) {
        true => "Most expensive observation (priced)",
        false => "Most expensive observation",
    };
    let all = [
        peak(most_expensive, [costly.next(), costly.next()]),
        peak("Slowest observation", [long.next(), long.next()]),
    ];
    all.into_iter().flatten().collect()
}
