//! Queries of trace lists.

use crate::filter::Filter;
use crate::list::{Cursor, OrderValue, Paging};
use crate::time::Timestamp;

/// A query of traces. Simple parameters become filter conditions.
#[derive(Clone, Debug)]
pub struct TraceQuery {
    /// Conditions on the columns of `crate::filter::TRACES`.
    pub filter: Filter,
    /// Sort key. Ties are ordered by id, or by time for numeric keys.
    pub order: TraceOrder,
    /// Ascending.
    pub ascending: bool,
    /// From 1.
    pub page: u32,
    /// Traces per page.
    pub limit: u32,
    /// Load input, output and the metadata of the root.
    pub with_content: bool,
    /// Most bytes of input and of output.
    pub max_content: usize,
    /// Load the ids of the observations.
    pub with_observation_ids: bool,
}

impl TraceQuery {
    /// Page number and size.
    #[must_use]
    pub const fn paging(&self) -> Paging {
        Paging { page: self.page, limit: self.limit }
    }
}

impl Default for TraceQuery {
    fn default() -> Self {
        Self {
            filter: Filter::default(),
            order: TraceOrder::Timestamp,
            ascending: false,
            page: 1,
            limit: 50,
            with_content: false,
            max_content: usize::MAX,
            with_observation_ids: false,
        }
    }
}

/// Sort keys of traces.
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
    /// `bookmarked`
    Bookmarked,
    /// `latency`
    Latency,
    /// `totalCost`
    TotalCost,
    /// `totalTokens`; absent tokens count as 0.
    TotalTokens,
    /// `errorCount`
    ErrorCount,
    /// `score.NAME`: the value of the score with this name that is about the trace itself. A trace with several scores is
    /// ordered by the first of them; traces without one come last, the newest first.
    Score(String),
}

impl TraceOrder {
    /// Whether the key is a number that many traces may share; ties are ordered by time then.
    #[must_use]
    pub const fn is_figure(&self) -> bool {
        matches!(self, Self::Latency | Self::TotalCost | Self::TotalTokens | Self::ErrorCount)
    }

    /// The text form of a cursor: `VALUE_MICROSECONDS_ID`.
    #[must_use]
    pub fn cursor_text(cursor: &Cursor) -> String {
        let value = match cursor.value {
            Some(OrderValue::Whole(value)) => value.to_string(),
            // With a point or an exponent, which no whole number has.
            Some(OrderValue::Real(value)) => format!("{value:?}"),
            None => String::new(),
        };
        format!("{value}_{}_{}", cursor.at.as_micros(), cursor.id)
    }

    /// Parses a cursor of this order; `None` if the text is invalid.
    #[must_use]
    pub fn parse_cursor(&self, raw: &str) -> Option<Cursor> {
        let mut parts = raw.splitn(3, '_');
        let (value, at, id) = (parts.next()?, parts.next()?, parts.next()?);
        let value = match value {
            "" => None,
            real if real.contains(['.', 'e']) => {
                let value: f64 = real.parse().ok()?;
                if !value.is_finite() {
                    return None;
                }
                Some(OrderValue::Real(value))
            }
            whole => Some(OrderValue::Whole(whole.parse().ok()?)),
        };
        let fits = match (self, value) {
            (Self::Timestamp, None) | (Self::Score(_), None | Some(OrderValue::Real(_))) => {
                !id.is_empty()
            }
            (Self::Latency | Self::TotalTokens | Self::ErrorCount, Some(OrderValue::Whole(_)))
            | (Self::TotalCost, Some(OrderValue::Real(_))) => id.parse::<i64>().is_ok(),
            _ => false,
        };
        let at = Timestamp::from_micros(at.parse().ok()?);
        fits.then(|| Cursor { value, ..Cursor::new(at, id) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_parsed_as_it_was_written_in_its_own_order_alone() {
        let cursor =
            |value, id: &str| Cursor { value, ..Cursor::new(Timestamp::from_micros(-5), id) };
        let score = TraceOrder::Score("a".to_owned());
        let cases = [
            (TraceOrder::Timestamp, cursor(None, "a_b_")),
            (score.clone(), cursor(None, "x")),
            (score, cursor(Some(OrderValue::Real(-1e300)), "x")),
            (TraceOrder::TotalCost, cursor(Some(OrderValue::Real(5.0)), "-7")),
            (TraceOrder::ErrorCount, cursor(Some(OrderValue::Whole(5)), "7")),
        ];
        for (order, cursor) in &cases {
            let raw = TraceOrder::cursor_text(cursor);
            assert_eq!(order.parse_cursor(&raw).as_ref(), Some(cursor));
            let others = cases.iter().filter(|(_, other)| other.value != cursor.value);
            for (other, _) in others.filter(|(other, _)| !matches!(other, TraceOrder::Score(_))) {
                assert_eq!(other.parse_cursor(&raw), None, "{raw} {other:?}");
            }
        }
        for raw in ["", "_", "__", "_5_", "_x_a", "nan.0_5_a", "5_5_a", "1e999_5_a"] {
            assert_eq!(TraceOrder::Timestamp.parse_cursor(raw), None, "{raw}");
            assert_eq!(TraceOrder::Latency.parse_cursor(raw), None, "{raw}");
        }
    }
}
