//! In which order traces are listed, as addresses, the choice and the headings of columns say it.

use perpend_domain::telemetry::TraceOrder;

/// In which order traces are listed. The default is the newest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sort {
    /// What they are ordered by.
    pub order: TraceOrder,
    /// The smallest, or the oldest, first.
    pub ascending: bool,
}

/// A column that orders, with what is said of its largest and its smallest coming first. There is nothing to say of the
/// smallest where most traces have none.
type Offered = (TraceOrder, &'static str, &'static str, Option<&'static str>);

static OFFERED: [Offered; 5] = [
    (
        TraceOrder::Timestamp,
        "timestamp",
        "newest first",
        Some("oldest first"),
    ),
    (
        TraceOrder::Latency,
        "latency",
        "slowest first",
        Some("fastest first"),
    ),
    (
        TraceOrder::TotalCost,
        "totalCost",
        "highest cost first",
        Some("lowest cost first"),
    ),
    (
        TraceOrder::TotalTokens,
        "totalTokens",
        "most tokens first",
        Some("fewest tokens first"),
    ),
    (
        TraceOrder::ErrorCount,
        "errorCount",
        "most errors first",
        None,
    ),
];

impl Sort {
    /// Each that is offered, with its label, in the order of the choice.
    pub fn all() -> impl Iterator<Item = (Self, &'static str)> {
        OFFERED.iter().flat_map(|(order, _, largest, smallest)| {
            let sort = |ascending| Self {
                order: *order,
                ascending,
            };
            let smallest = smallest.map(|label| (sort(true), label));
            [Some((sort(false), *largest)), smallest]
                .into_iter()
                .flatten()
        })
    }

    fn column(self) -> &'static str {
        let found = OFFERED.iter().find(|(order, ..)| *order == self.order);
        found.map_or("timestamp", |(_, column, ..)| column)
    }

    /// As the address has it: the column, and `-` before it where the largest come first.
    #[must_use]
    pub fn in_address(self) -> String {
        let sign = if self.ascending { "" } else { "-" };
        format!("{sign}{}", self.column())
    }

    /// What an address asks for; none where it asks for no order there is.
    #[must_use]
    pub fn named(raw: &str) -> Option<Self> {
        let mut all = Self::all();
        all.find_map(|(sort, _)| (sort.in_address() == raw).then_some(sort))
    }

    /// The parameter of the API.
    pub(crate) fn order_by(self) -> String {
        let direction = if self.ascending { "asc" } else { "desc" };
        format!("{}.{direction}", self.column())
    }

    /// The order that the heading of a column leads to: its largest first, and the other way round where they are.
    pub(crate) fn of_heading(self, order: TraceOrder) -> Self {
        let ascending = self.order == order && !self.ascending;
        let turned = Self { order, ascending };
        let is_offered = Self::all().any(|(sort, _)| sort == turned);
        Self {
            order,
            ascending: ascending && is_offered,
        }
    }

    /// How a column stands in this order, as `aria-sort` says it.
    pub(crate) fn state_of(self, order: TraceOrder) -> Option<&'static str> {
        let state = if self.ascending {
            "ascending"
        } else {
            "descending"
        };
        (self.order == order).then_some(state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_comes_back_from_its_address() {
        for (sort, _) in Sort::all() {
            assert_eq!(Sort::named(&sort.in_address()), Some(sort));
        }
        assert_eq!(Sort::named("-timestamp"), Some(Sort::default()));
        for raw in ["-luck", "", "errorCount", "-name"] {
            assert_eq!(Sort::named(raw), None, "{raw}");
        }
    }

    #[test]
    fn a_heading_leads_to_its_largest_first_and_then_to_its_smallest() {
        let usual = Sort::default();
        assert_eq!(usual.state_of(TraceOrder::Timestamp), Some("descending"));
        assert!(usual.of_heading(TraceOrder::Timestamp).ascending);
        let slowest = usual.of_heading(TraceOrder::Latency);
        assert_eq!(slowest.in_address(), "-latency");
        let fastest = slowest.of_heading(TraceOrder::Latency);
        assert_eq!(fastest.in_address(), "latency");
        assert_eq!(fastest.state_of(TraceOrder::Latency), Some("ascending"));
        assert_eq!(fastest.of_heading(TraceOrder::Latency), slowest);
        let errors = usual.of_heading(TraceOrder::ErrorCount);
        assert_eq!(errors.of_heading(TraceOrder::ErrorCount), errors);
    }
}
