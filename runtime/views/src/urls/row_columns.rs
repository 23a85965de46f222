//! The columns of the rows of a trace, which their reader can choose.

/// A column beside the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RowColumn {
    /// Its bar on the time axis.
    Time,
    /// How long it took.
    Duration,
    /// The time in which none of the steps below it ran.
    SelfTime,
    /// Tokens.
    Tokens,
    /// What it cost.
    Cost,
}

impl RowColumn {
    /// All of them, each with its name in addresses, its label and the class of a grid without it.
    pub const ALL: [(Self, &'static str, &'static str, &'static str); 5] = [
        (Self::Time, "time", "Time bar", " no-time"),
        (Self::Duration, "duration", "Latency", " no-took"),
        (Self::SelfTime, "self", "Self time", " no-own"),
        (Self::Tokens, "tokens", "Tokens", " no-tok"),
        (Self::Cost, "cost", "Cost", " no-cost"),
    ];

    /// What a name in an address may be.
    pub const NAMES: &'static str = "a list of time, duration, self, tokens, cost";

    /// The one with this name in an address.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        let found = Self::ALL.iter().find(|(_, known, ..)| *known == name);
        found.map(|(own, ..)| *own)
    }

    /// Its name in addresses.
    #[must_use]
    pub fn name(self) -> &'static str {
        let found = Self::ALL.iter().find(|(own, ..)| *own == self);
        found.map_or("", |(_, name, ..)| name)
    }
}
