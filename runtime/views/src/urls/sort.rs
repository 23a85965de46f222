//! The order of the list of traces, in URLs, in the selection of an order, and in column headings.

use perpend_domain::trace_list::TraceOrder;

use crate::urls::columns::{SCORE, key_of_name, name_with_key};

/// The order of the list of traces. The default is newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sort {
    /// The ordering column.
    pub order: TraceOrder,
    /// Smallest or oldest first.
    pub ascending: bool,
}

/// An ordering column with its name and the labels of the descending and the ascending order. There is no ascending order if
/// most traces have the smallest value.
type SortOption = (TraceOrder, &'static str, &'static str, Option<&'static str>);

static OPTIONS: [SortOption; 5] = [
    (TraceOrder::Timestamp, "timestamp", "newest first", Some("oldest first")),
    (TraceOrder::Latency, "latency", "slowest first", Some("fastest first")),
    (TraceOrder::TotalCost, "totalCost", "highest cost first", Some("lowest cost first")),
    (TraceOrder::TotalTokens, "totalTokens", "most tokens first", Some("fewest tokens first")),
    (TraceOrder::ErrorCount, "errorCount", "most errors first", None),
];

impl Sort {
    /// The orders available in every list, with their labels.
    pub fn all() -> impl Iterator<Item = (Self, &'static str)> {
        OPTIONS.iter().flat_map(|(order, _, largest, smallest)| {
            let sort = |ascending| Self { order: order.clone(), ascending };
            let smallest = smallest.map(|label| (sort(true), label));
            [Some((sort(false), *largest)), smallest].into_iter().flatten()
        })
    }

    /// The orders by a score, highest first and lowest first, with their labels.
    #[must_use]
    pub fn of_score(name: &str) -> [(Self, String); 2] {
        [(false, "highest"), (true, "lowest")].map(|(ascending, which)| {
            let order = TraceOrder::Score(name.to_owned());
            (Self { order, ascending }, format!("{which} {name} first"))
        })
    }

    /// The order by a column, if available.
    #[must_use]
    pub fn order_of(column: &str) -> Option<TraceOrder> {
        let option = OPTIONS.iter().find(|(_, name, ..)| *name == column);
        let order = option.map(|(order, ..)| order.clone());
        order.or_else(|| key_of_name(SCORE, column).map(TraceOrder::Score))
    }

    /// The name of the ordering score.
    #[must_use]
    pub fn score(&self) -> Option<&str> {
        match &self.order {
            TraceOrder::Score(name) => Some(name),
            _ => None,
        }
    }

    fn column(&self) -> String {
        if let Some(name) = self.score() {
            return name_with_key(SCORE, name);
        }
        let found = OPTIONS.iter().find(|(order, ..)| *order == self.order);
        found.map_or("timestamp", |(_, column, ..)| column).to_owned()
    }

    /// The `sort` parameter: the column, with the prefix `-` for descending order.
    #[must_use]
    pub fn to_parameter(&self) -> String {
        let sign = if self.ascending { "" } else { "-" };
        format!("{sign}{}", self.column())
    }

    /// Parses the `sort` parameter.
    #[must_use]
    pub fn from_name(raw: &str) -> Option<Self> {
        let mut all = Self::all();
        let option = all.find_map(|(sort, _)| (sort.to_parameter() == raw).then_some(sort));
        option.or_else(|| {
            let (ascending, column) = match raw.strip_prefix('-') {
                Some(column) => (false, column),
                None => (true, raw),
            };
            let order = TraceOrder::Score(key_of_name(SCORE, column)?);
            Some(Self { order, ascending })
        })
    }

    /// The `orderBy` parameter of the API.
    #[must_use]
    pub fn order_by(&self) -> String {
        let direction = if self.ascending { "asc" } else { "desc" };
        match self.score() {
            Some(name) => format!("score.{name}.{direction}"),
            None => format!("{}.{direction}", self.column()),
        }
    }

    /// The order linked from a column heading: descending, or ascending if the list already has the descending order.
    #[must_use]
    pub fn of_heading(&self, order: TraceOrder) -> Self {
        let ascending = self.order == order && !self.ascending;
        let reversed = Self { order, ascending };
        let is_available =
            reversed.score().is_some() || Self::all().any(|(sort, _)| sort == reversed);
        Self { ascending: ascending && is_available, ..reversed }
    }

    /// The `aria-sort` value of a column.
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
    fn orders_round_trip() {
        for (sort, _) in Sort::all() {
            assert_eq!(Sort::from_name(&sort.to_parameter()), Some(sort));
        }
        assert_eq!(Sort::from_name("-timestamp"), Some(Sort::default()));
        for name in ["quality", "answer, \"in\" full"] {
            for (sort, _) in Sort::of_score(name) {
                assert_eq!(Sort::from_name(&sort.to_parameter()), Some(sort));
            }
        }
        for raw in ["-luck", "", "errorCount", "-name", "score.", "-metadata.a"] {
            assert_eq!(Sort::from_name(raw), None, "{raw}");
        }
    }

    #[test]
    fn heading_links_to_descending_then_ascending_order() {
        let default = Sort::default();
        assert_eq!(default.state_of(&TraceOrder::Timestamp), Some("descending"));
        assert!(default.of_heading(TraceOrder::Timestamp).ascending);
        let slowest = default.of_heading(TraceOrder::Latency);
        assert_eq!(slowest.to_parameter(), "-latency");
        let fastest = slowest.of_heading(TraceOrder::Latency);
        assert_eq!(fastest.to_parameter(), "latency");
        assert_eq!(fastest.state_of(&TraceOrder::Latency), Some("ascending"));
        assert_eq!(fastest.of_heading(TraceOrder::Latency), slowest);
        let errors = default.of_heading(TraceOrder::ErrorCount);
        assert_eq!(errors.of_heading(TraceOrder::ErrorCount), errors);
    }
}
