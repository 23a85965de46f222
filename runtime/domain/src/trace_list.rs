//! Lists of traces: which traces, in which order, and where a page of them stands.

use std::fmt;

use crate::filter::Filter;
use crate::list::{Numbered, Paging};
use crate::telemetry::StoredTrace;
use crate::time::Timestamp;

/// Which traces, in which order. Simple parameters are conditions like all others.
#[derive(Clone, Debug)]
pub struct TraceQuery {
    /// Conditions on the columns of `perpend_domain::filter::TRACES`.
    pub filter: Filter,
    /// Order; equal ones by id, and those of a figure by time: the newest first where the largest are.
    pub order: TraceOrder,
    /// Ascending.
    pub ascending: bool,
    /// From 1.
    pub page: u32,
    /// Instead of the number of a page: where the page goes on.
    pub from: Option<TracesFrom>,
    /// Say where the pages before and behind go on.
    pub with_places: bool,
    /// Traces per page.
    pub limit: u32,
    /// Load input, output and the metadata of the root.
    pub with_content: bool,
    /// Load the ids of the observations.
    pub with_observation_ids: bool,
}

impl TraceQuery {
    /// Which part of the list.
    #[must_use]
    pub const fn paging(&self) -> Paging {
        Paging {
            page: self.page,
            limit: self.limit,
        }
    }
}

impl Default for TraceQuery {
    fn default() -> Self {
        Self {
            filter: Filter::default(),
            order: TraceOrder::Timestamp,
            ascending: false,
            page: 1,
            from: None,
            with_places: false,
            limit: 50,
            with_content: false,
            with_observation_ids: false,
        }
    }
}

/// A page of traces, some of which may not have been tested.
#[derive(Clone, Debug, PartialEq)]
pub struct TestedTraces {
    /// Those that fit, among the tested ones.
    pub found: Numbered<StoredTrace>,
    /// How many were not tested: the last in the order of the list.
    pub n_left: u64,
    /// Where this page stands, when that was asked for.
    pub places: Places,
}

/// Where a page of traces stands in its list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Places {
    /// How many traces stand before the page; unknown where they are tested in memory.
    pub n_before: Option<u64>,
    /// The first trace of the page, where others stand before it.
    pub first: Option<TraceCursor>,
    /// The last one, where others stand behind it.
    pub last: Option<TraceCursor>,
}

/// The place of a trace in an order. What arrives meanwhile moves no trace from one side of it to the other.
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

/// Where a page of traces goes on.
#[derive(Clone, Debug, PartialEq)]
pub enum TracesFrom {
    /// Behind this place.
    After(TraceCursor),
    /// Right before it.
    Before(TraceCursor),
}

impl TracesFrom {
    /// The place.
    #[must_use]
    pub const fn cursor(&self) -> &TraceCursor {
        match self {
            Self::After(cursor) | Self::Before(cursor) => cursor,
        }
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
    /// Reads the place in this order; none for what is no place in it.
    #[must_use]
    pub fn read(raw: &str, order: &TraceOrder) -> Option<Self> {
        let mut parts = raw.splitn(3, '_');
        let (figure, at, tie) = (parts.next()?, parts.next()?, parts.next()?);
        let figure = match figure {
            "" => None,
            real if real.contains(['.', 'e']) => {
                let figure: f64 = real.parse().ok()?;
                Some(Figure::Real(figure)).filter(|_| figure.is_finite())
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
        fits.then(|| Self {
            figure,
            at,
            tie: tie.to_owned(),
        })
    }
}

/// What traces are ordered by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TraceOrder {
    /// `timestamp`
    #[default]
    Timestamp,
    /// `id`
    Id,
    /// `name`
    Name,
    /// `userId`
    UserId,
    /// `sessionId`
    SessionId,
    /// `release`
    Release,
    /// `version`
    Version,
    /// `public`
    Public,
    /// `latency`
    Latency,
    /// `totalCost`
    TotalCost,
    /// `totalTokens`; a trace without tokens counts as one with none.
    TotalTokens,
    /// `errorCount`
    ErrorCount,
    /// `score.NAME`: the number of the score of this name that is about the trace itself. A trace with several stands
    /// where the first of them does, and those without one come last, the newest first.
    Score(String),
}

impl TraceOrder {
    /// Whether many traces may have the same value: those are ordered by time.
    #[must_use]
    pub const fn is_figure(&self) -> bool {
        matches!(
            self,
            Self::Latency | Self::TotalCost | Self::TotalTokens | Self::ErrorCount
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_as_it_was_written_in_its_own_order_alone() {
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
            let others = cases
                .iter()
                .filter(|(_, other)| other.figure != cursor.figure);
            for (other, _) in others.filter(|(other, _)| !matches!(other, TraceOrder::Score(_))) {
                assert_eq!(TraceCursor::read(&raw, other), None, "{raw} {other:?}");
            }
        }
        for raw in [
            "",
            "_",
            "__",
            "_5_",
            "_x_a",
            "nan.0_5_a",
            "5_5_a",
            "1e999_5_a",
        ] {
            assert_eq!(
                TraceCursor::read(raw, &TraceOrder::Timestamp),
                None,
                "{raw}"
            );
            assert_eq!(TraceCursor::read(raw, &TraceOrder::Latency), None, "{raw}");
        }
    }
}
