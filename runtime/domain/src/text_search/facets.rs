//! Frequencies of column values of traces, and bounded counts.

/// A column with counted values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FacetColumn {
    /// Environment.
    Environment,
    /// Name.
    Name,
    /// End user.
    User,
    /// Tags; a trace counts once for each of its tags.
    Tag,
    /// Release.
    Release,
    /// The most severe level of its observations.
    Level,
    /// Kinds of its observations; a trace counts for each.
    Kind,
    /// Models that its observations called; a trace counts for each.
    Model,
    /// Prompts that its observations used; a trace counts for each.
    Prompt,
    /// Names of scores about the trace itself.
    Score,
}

impl FacetColumn {
    /// All columns, in display order.
    pub const ALL: [Self; 10] = [
        Self::Environment,
        Self::Level,
        Self::Name,
        Self::Model,
        Self::Kind,
        Self::Prompt,
        Self::User,
        Self::Tag,
        Self::Release,
        Self::Score,
    ];
}

/// A column with its most frequent values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facet {
    /// The column.
    pub column: FacetColumn,
    /// Values with their number of traces, the most frequent first; `None` for traces without a value.
    pub values: Vec<(Option<String>, u64)>,
    /// There are more values.
    pub has_more: bool,
}

/// The facets of the newest traces of a range.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facets {
    /// Number of examined traces.
    pub n_traces: u64,
    /// The limit was reached: there may be older traces.
    pub is_cut: bool,
    /// One per column.
    pub facets: Vec<Facet>,
}

/// A count up to a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BoundedCount {
    /// The count.
    pub n: u64,
    /// There are, or may be, more.
    pub is_more: bool,
}
