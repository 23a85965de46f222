//! Pages of a list of traces: their position, their cursors, and how addresses write those.

use std::fmt;

use perpend_domain::telemetry::StoredTrace;
use perpend_domain::text_search::BoundedCount;
use perpend_domain::time::Timestamp;
use perpend_domain::trace_list::TraceOrder;

/// A page of traces, some of which may not have been tested.
#[derive(Clone, Debug, PartialEq)]
pub struct TestedTraces {
    /// Those of the page.
    pub traces: Vec<StoredTrace>,
    /// How many fit, among the tested ones; absent where the list was read only as far as the page.
    pub total: Option<BoundedCount>,
    /// How many were tested, where not all of them were.
    pub n_tested: u64,
    /// How many were not tested: the last in the order of the reading.
    pub n_left: u64,
    /// The position of this page, when it was asked for by [`traces_from`](crate::Telemetry::traces_from).
    pub places: Places,
}

/// The position of a page in its list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Places {
    /// Traces before the page; unknown where they are tested in memory, and where they are more than are counted.
    pub n_before: Option<u64>,
    /// The cursor of its first trace, where others come before it.
    pub first: Option<TraceCursor>,
    /// The cursor of its last trace, where others follow.
    pub last: Option<TraceCursor>,
    /// The place from which the reading goes on, where it stopped before the page was full: beyond the last trace that was
    /// tested, in its direction.
    pub stopped: Option<TracesFrom>,
}

/// A cursor: the values that order one trace. New traces do not move others across it.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceCursor {
    /// What the order is by, for figures and scores. A trace without the score has none.
    pub figure: Option<Figure>,
    /// Its start; of a score, the time of that.
    pub at: Timestamp,
    /// What tells those apart that are equal in all that.
    pub tie: String,
}

/// A figure of a trace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Figure {
    /// Microseconds, tokens, errors.
    Whole(i64),
    /// Dollars, and the number of a score.
    Real(f64),
}

/// Where a page of traces begins or ends.
#[derive(Clone, Debug, PartialEq)]
pub enum TracesFrom {
    /// Behind this cursor.
    After(TraceCursor),
    /// With the traces right before this cursor.
    Before(TraceCursor),
    /// With the last traces of the list.
    End,
}

/// How far a list is read for one page of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Traces that are tested in memory, for what no index can tell.
    pub max_tested: u64,
    /// How far the list is counted; a list that is tested in memory is then not read behind the page. Absent: to its end.
    pub max_counted: Option<u64>,
}

impl TracesFrom {
    /// The cursor; none at the end of the list.
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

/// As addresses have it: `FIGURE_MICROSECONDS_TIE`.
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
    /// Parses a cursor of this order; none when the text is not one.
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
