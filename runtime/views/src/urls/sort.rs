//! In which order traces are listed, as addresses, the choice and the headings of columns say it.

use perpend_domain::trace_list::TraceOrder;

use crate::urls::columns::Column;

/// In which order traces are listed. The default is the newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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
    (TraceOrder::Timestamp, "timestamp", "newest first", Some("oldest first")),
    (TraceOrder::Latency, "latency", "slowest first", Some("fastest first")),
    (TraceOrder::TotalCost, "totalCost", "highest cost first", Some("lowest cost first")),
    (TraceOrder::TotalTokens, "totalTokens", "most tokens first", Some("fewest tokens first")),
    (TraceOrder::ErrorCount, "errorCount", "most errors first", None),
];

impl Sort {
    /// Each that every list offers, with its label, in the order of the choice.
    pub fn all() -> impl Iterator<Item = (Self, &'static str)> {
        OFFERED.iter().flat_map(|(order, _, largest, smallest)| {
            let sort = |ascending| Self { order: order.clone(), ascending };
            let smallest = smallest.map(|label| (sort(true), label));
            [Some((sort(false), *largest)), smallest].into_iter().flatten()
        })
    }

    /// The largest and the smallest numbers of a score first, with their labels.
    #[must_use]
    pub fn of_score(name: &str) -> [(Self, String); 2] {
        [(false, "highest"), (true, "lowest")].map(|(ascending, which)| {
            let order = TraceOrder::Score(name.to_owned());
            (Self { order, ascending }, format!("{which} {name} first"))
        })
    }

    /// The score that orders the list.
    #[must_use]
    pub fn score(&self) -> Option<&str> {
        match &self.order {
            TraceOrder::Score(name) => Some(name),
            _ => None,
        }
    }

    fn column(&self) -> String {
        if let Some(name) = self.score() {
            return Column::Score(name.to_owned()).name();
        }
        let found = OFFERED.iter().find(|(order, ..)| *order == self.order);
        found.map_or("timestamp", |(_, column, ..)| column).to_owned()
    }

    /// As the address has it: the column, and `-` before it where the largest come first.
    #[must_use]
    pub fn in_address(&self) -> String {
        let sign = if self.ascending { "" } else { "-" };
        format!("{sign}{}", self.column())
    }

    /// What an address asks for; none where it asks for no order there is.
    #[must_use]
    pub fn from_name(raw: &str) -> Option<Self> {
        let mut all = Self::all();
        let offered = all.find_map(|(sort, _)| (sort.in_address() == raw).then_some(sort));
        offered.or_else(|| {
            let (ascending, column) = match raw.strip_prefix('-') {
                Some(column) => (false, column),
                None => (true, raw),
            };
            let Some(Column::Score(name)) = Column::from_name(column) else {
                return None;
            };
            let order = TraceOrder::Score(name);
            Some(Self { order, ascending })
        })
    }

    /// The parameter of the API.
    #[must_use]
    pub fn order_by(&self) -> String {
        let direction = if self.ascending { "asc" } else { "desc" };
        match self.score() {
            Some(name) => format!("score.{name}.{direction}"),
            None => format!("{}.{direction}", self.column()),
        }
    }

    /// The order that the heading of a column leads to: its largest first, and the other way round where they are.
    #[must_use]
    pub fn of_heading(&self, order: TraceOrder) -> Self {
        let ascending = self.order == order && !self.ascending;
        let turned = Self { order, ascending };
        let is_offered = turned.score().is_some() || Self::all().any(|(sort, _)| sort == turned);
        Self { ascending: ascending && is_offered, ..turned }
    }

    /// How a column stands in this order, as `aria-sort` says it.
    #[must_use]
    pub fn state_of(&self, order: &TraceOrder) -> Option<&'static str> {
        let state = if self.ascending { "ascending" } else { "descending" };
        (self.order == *order).then_some(state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_comes_back_from_its_address() {
        for (sort, _) in Sort::all() {
            assert_eq!(Sort::from_name(&sort.in_address()), Some(sort));
        }
        assert_eq!(Sort::from_name("-timestamp"), Some(Sort::default()));
        for name in ["quality", "answer, \"in\" full"] {
            for (sort, _) in Sort::of_score(name) {
                assert_eq!(Sort::from_name(&sort.in_address()), Some(sort));
            }
        }
        for raw in ["-luck", "", "errorCount", "-name", "score.", "-metadata.a"] {
            assert_eq!(Sort::from_name(raw), None, "{raw}");
        }
    }

    #[test]
    fn a_heading_leads_to_its_largest_first_and_then_to_its_smallest() {
        let usual = Sort::default();
        assert_eq!(usual.state_of(&TraceOrder::Timestamp), Some("descending"));
        assert!(usual.of_heading(TraceOrder::Timestamp).ascending);
        let slowest = usual.of_heading(TraceOrder::Latency);
        assert_eq!(slowest.in_address(), "-latency");
        let fastest = slowest.of_heading(TraceOrder::Latency);
        assert_eq!(fastest.in_address(), "latency");
        assert_eq!(fastest.state_of(&TraceOrder::Latency), Some("ascending"));
        assert_eq!(fastest.of_heading(TraceOrder::Latency), slowest);
        let errors = usual.of_heading(TraceOrder::ErrorCount);
        assert_eq!(errors.of_heading(TraceOrder::ErrorCount), errors);
    }
}
