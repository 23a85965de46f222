//! The optional columns of the observation rows of a trace.

/// A column in addition to the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RowColumn {
    /// Bar on the time axis.
    Time,
    /// Latency.
    Duration,
    /// Time during which no child observation ran.
    SelfTime,
    /// Tokens.
    Tokens,
    /// Cost.
    Cost,
}

impl RowColumn {
    /// All columns with their URL names, labels, and the CSS classes of grids without them.
    pub const ALL: [(Self, &'static str, &'static str, &'static str); 5] = [
        (Self::Time, "time", "Time bar", " no-time"),
        (Self::Duration, "duration", "Latency", " no-took"),
        (Self::SelfTime, "self", "Self time", " no-own"),
        (Self::Tokens, "tokens", "Tokens", " no-tok"),
        (Self::Cost, "cost", "Cost", " no-cost"),
    ];

    /// The valid names, for error messages.
    pub const NAMES: &'static str = "a list of time, duration, self, tokens, cost";

    /// Parses a URL name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        let found = Self::ALL.iter().find(|(_, known, ..)| *known == name);
        found.map(|(own, ..)| *own)
    }

    /// The URL name.
    #[must_use]
    pub fn name(self) -> &'static str {
        let found = Self::ALL.iter().find(|(own, ..)| *own == self);
        found.map_or("", |(_, name, ..)| name)
    }
}
