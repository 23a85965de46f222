//! Which values there are in some columns of traces and how often, and counts that end at a bound.

/// A column whose values are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FacetColumn {
    /// Environment.
    Environment,
    /// Name.
    Name,
    /// End user.
    User,
    /// Tags; a trace counts for each of its own.
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
    /// Each, in the order in which they are shown.
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

/// One column, with the values that most traces have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facet {
    /// The column.
    pub column: FacetColumn,
    /// A value and how many traces have it, the most frequent first; none where there is nothing.
    pub values: Vec<(Option<String>, u64)>,
    /// There are more values.
    pub has_more: bool,
}

/// What the newest traces of a range say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facets {
    /// So many were looked at.
    pub n_traces: u64,
    /// These are as many as are looked at: there may be older ones.
    pub is_cut: bool,
    /// One for each column.
    pub facets: Vec<Facet>,
}

/// A number that was counted as far as a bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BoundedCount {
    /// So many were counted.
    pub n: u64,
    /// There are, or may be, more.
    pub is_more: bool,
}
