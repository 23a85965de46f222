//! Queries of trace lists.

use crate::filter::Filter;
use crate::list::Paging;

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
}
