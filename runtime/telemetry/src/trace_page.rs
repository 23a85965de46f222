//! Pages of a list of traces: their position, their cursors, and the text form of cursors.

use std::fmt;

use perpend_domain::telemetry::StoredTrace;
use perpend_domain::text_search::BoundedCount;
use perpend_domain::time::Timestamp;
use perpend_domain::trace_list::TraceOrder;

/// A page of traces, some of which may not have been tested.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceSearchResult {
    /// The traces of the page.
    pub traces: Vec<StoredTrace>,
    /// Number of matches among the tested traces; absent if the list was read only up to the page.
    pub total: Option<BoundedCount>,
    /// Number of tested traces, if not all were tested.
    pub n_tested: u64,
    /// Number of untested traces: the last ones in the direction of the search.
    pub n_left: u64,
    /// The position of this page, if it was read by [`traces_from`](crate::Telemetry::traces_from).
    pub places: PagePosition,
}

/// The position of a page in its list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PagePosition {
    /// Number of traces before the page; absent if they are tested in memory, and if there are more than are
    /// counted.
    pub n_before: Option<u64>,
    /// The cursor of its first trace, if others come before it.
    pub first: Option<TraceCursor>,
    /// The cursor of its last trace, if others follow.
    pub last: Option<TraceCursor>,
    /// The position at which the search continues, if it stopped before the page was full: after the last
    /// tested trace, in the direction of the search.
    pub stopped: Option<TracesFrom>,
}

/// A cursor: the values that determine the position of one trace. New traces do not move others across it.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceCursor {
    /// The value of the order column, for figures and scores. Absent for a trace without the score.
    pub figure: Option<Figure>,
    /// Start of the trace; for a score, the time of the score.
    pub at: Timestamp,
    /// Tie breaker between equal values.
    pub tie: String,
}

/// A figure of a trace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Figure {
    /// Microseconds, tokens, errors.
    Whole(i64),
    /// Dollars, or the value of a score.
    Real(f64),
}

/// Start or end of a page of traces.
#[derive(Clone, Debug, PartialEq)]
pub enum TracesFrom {
    /// The page starts after this cursor.
    After(TraceCursor),
    /// The page ends directly before this cursor.
    Before(TraceCursor),
    /// The last page of the list.
    End,
}

/// Limits for reading a list for one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Maximum of traces that are tested in memory.
    pub max_tested: u64,
    /// Maximum up to which the list is counted. A list that is tested in memory is then not read beyond the
    /// page. Absent: counted to its end.
    pub max_counted: Option<u64>,
}

impl TracesFrom {
    /// The cursor; `None` for the end of the list.
    #[must_use]
    pub const fn cursor(&self) -> Option<&TraceCursor> {
        match self {
            Self::After(cursor) | Self::Before(cursor) => Some(cursor),
            Self::End => None,
        }
    }

    /// Whether the page is read from its last row to its first one.
    #[must_use]
    pub const fn is_backwards(&self) -> bool {
        matches!(self, Self::Before(_) | Self::End)
    }
}

/// Text form: `FIGURE_MICROSECONDS_TIE`.
impl fmt::Display for TraceCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.figure {
            Some(Figure::Whole(figure)) => write!(f, "{figure}")?,
            // With a point or an exponent, which no whole number has.
            Some(Figure::Real(figure)) => write!(f, "{figure:?}")?,
            None => {}
        }
        write!(f, "_{}_{}", self.at.as_micros(), self.tie)
    }
}

impl TraceCursor {
    /// Parses a cursor of this order; `None` if the text is invalid.
    #[must_use]
    pub fn read(raw: &str, order: &TraceOrder) -> Option<Self> {
        let mut parts = raw.splitn(3, '_');
        let (figure, at, tie) = (parts.next()?, parts.next()?, parts.next()?);
        let figure = match figure {
            "" => None,
            real if real.contains(['.', 'e']) => {
                let figure: f64 = real.parse().ok()?;
                if !figure.is_finite() {
                    return None;
                }
                Some(Figure::Real(figure))
            }
            whole => Some(Figure::Whole(whole.parse().ok()?)),
        };
        use TraceOrder::{ErrorCount, Latency, Score, Timestamp as Time, TotalCost, TotalTokens};
        let fits = match (order, figure) {
            (Time, None) | (Score(_), None | Some(Figure::Real(_))) => !tie.is_empty(),
            (Latency | TotalTokens | ErrorCount, Some(Figure::Whole(_)))
            | (TotalCost, Some(Figure::Real(_))) => tie.parse::<i64>().is_ok(),
            _ => false,
        };
        let at = Timestamp::from_micros(at.parse().ok()?);
        fits.then(|| Self { figure, at, tie: tie.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_parsed_as_it_was_written_in_its_own_order_alone() {
        let cursor = |figure, tie: &str| TraceCursor {
            figure,
            at: Timestamp::from_micros(-5),
            tie: tie.to_owned(),
        };
        let score = TraceOrder::Score("a".to_owned());
        let cases = [
            (TraceOrder::Timestamp, cursor(None, "a_b_")),
            (score.clone(), cursor(None, "x")),
            (score, cursor(Some(Figure::Real(-1e300)), "x")),
            (TraceOrder::TotalCost, cursor(Some(Figure::Real(5.0)), "-7")),
            (TraceOrder::ErrorCount, cursor(Some(Figure::Whole(5)), "7")),
        ];
        for (order, cursor) in &cases {
            let raw = cursor.to_string();
            assert_eq!(TraceCursor::read(&raw, order).as_ref(), Some(cursor));
            let others = cases.iter().filter(|(_, other)| other.figure != cursor.figure);
            for (other, _) in others.filter(|(other, _)| !matches!(other, TraceOrder::Score(_))) {
                assert_eq!(TraceCursor::read(&raw, other), None, "{raw} {other:?}");
            }
        }
        for raw in ["", "_", "__", "_5_", "_x_a", "nan.0_5_a", "5_5_a", "1e999_5_a"] {
            assert_eq!(TraceCursor::read(raw, &TraceOrder::Timestamp), None, "{raw}");
            assert_eq!(TraceCursor::read(raw, &TraceOrder::Latency), None, "{raw}");
        }
    }
}
