//! Lists of traces: which traces, and in which order.

use crate::filter::Filter;
use crate::list::Paging;

/// Which traces, in which order. Simple parameters are conditions like all others.
#[derive(Clone, Debug)]
pub struct TraceQuery {
    /// Conditions on the columns of `crate::filter::TRACES`.
    pub filter: Filter,
    /// Order; equal ones by id, and those of a figure by time: the newest first where the largest are.
    pub order: TraceOrder,
    /// Ascending.
    pub ascending: bool,
    /// From 1.
    pub page: u32,
    /// Traces per page.
    pub limit: u32,
    /// Load input, output and the metadata of the root.
    pub with_content: bool,
    /// Cut input and output to so many bytes each.
    pub max_content: usize,
    /// Load the ids of the observations.
    pub with_observation_ids: bool,
}

impl TraceQuery {
    /// Which part of the list.
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
    /// `bookmarked`
    Bookmarked,
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
        matches!(self, Self::Latency | Self::TotalCost | Self::TotalTokens | Self::ErrorCount)
    }
}
