//! Selections of the items of a comparison.

use crate::comparison::ItemComparison;

/// A selection of the items of a comparison.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ItemSelection {
    /// All items.
    #[default]
    All,
    /// Items with a worse score than in the baseline.
    Regressed,
    /// Items with a better score than in the baseline.
    Improved,
    /// Items with another score, error or output than in the baseline. [`Self::holds`] does not know outputs.
    Changed,
    /// Items with an error in a run.
    Errors,
    /// Items without a result in a run.
    Missing,
    /// Items whose scores are better by one score and worse by another.
    Disagree,
}

impl ItemSelection {
    /// The selections that have a name: all but [`Self::All`].
    pub const NAMED: [Self; 6] = [
        Self::Regressed,
        Self::Improved,
        Self::Changed,
        Self::Errors,
        Self::Missing,
        Self::Disagree,
    ];

    /// The value of the query parameter `show`; empty for all items.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::All => "",
            Self::Regressed => "regressed",
            Self::Improved => "improved",
            Self::Changed => "changed",
            Self::Errors => "errors",
            Self::Missing => "missing",
            Self::Disagree => "disagree",
        }
    }

    /// The selection with this name, all items for an empty one.
    #[must_use]
    pub fn parse(raw: &str) -> Option<Self> {
        let named = Self::NAMED.into_iter().find(|selection| selection.name() == raw);
        named.or_else(|| raw.is_empty().then_some(Self::All))
    }

    /// Whether an item is part of the selection.
    #[must_use]
    pub const fn holds(self, item: &ItemComparison) -> bool {
        match self {
            Self::All => true,
            Self::Regressed => item.is_regressed,
            Self::Improved => item.is_improved,
            Self::Changed => item.is_changed,
            Self::Errors => item.has_error,
            Self::Missing => item.is_missing,
            Self::Disagree => item.disagrees,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_selection_is_parsed_from_its_name() {
        for selection in ItemSelection::NAMED.into_iter().chain([ItemSelection::All]) {
            assert_eq!(ItemSelection::parse(selection.name()), Some(selection));
        }
        assert_eq!(ItemSelection::parse("odd"), None);
    }
}
