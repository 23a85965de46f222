//! Budgets of model calls: the limit per window, and the action when it is reached (evaluation.md 1.10).

use serde::{Deserialize, Serialize};

use crate::metrics::Granularity;
use crate::named::named_enum;
use crate::time::Timestamp;

named_enum!(
    /// The window of a budget, in UTC; weeks start on Monday.
    BudgetWindow {
        Day = "day",
        Week = "week",
        Month = "month",
        /// It is never renewed.
        Total = "total",
    }
);

named_enum!(
    /// The action for executions whose next call would exceed the budget.
    OnReached {
        /// They wait for the next window.
        Hold = "hold",
        /// They end without a score.
        Skip = "skip",
    }
);

named_enum!(
    /// The calls that a budget counts.
    BudgetScope {
        Rule = "rule",
        Evaluator = "evaluator",
        Project = "project",
    }
);

/// The largest budget, in US dollars.
pub const MAX_USD: f64 = 1e9;

/// A limit on the cost of model calls.
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Budget {
    /// The period after which the budget is renewed.
    pub window: BudgetWindow,
    /// US dollars, above 0.
    pub usd: f64,
    /// `hold` when absent.
    #[serde(default = "hold")]
    pub on_reached: OnReached,
}

const fn hold() -> OnReached {
    OnReached::Hold
}

/// A budget with its scope.
#[derive(Clone, Debug, PartialEq)]
pub struct ScopedBudget {
    /// The kind of `id`.
    pub scope: BudgetScope,
    /// The id of the rule, evaluator or project.
    pub id: String,
    /// The limit.
    pub budget: Budget,
}

/// A budget whose remainder is too small for a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExhaustedBudget {
    /// The scope of the budget.
    pub scope: BudgetScope,
    /// The action that applies now.
    pub on_reached: OnReached,
    /// Start of the next window; `None` for `total`.
    pub until: Option<Timestamp>,
}

impl BudgetWindow {
    /// Start of the window that contains `at`.
    #[must_use]
    pub fn start(self, at: Timestamp) -> Timestamp {
        self.granularity().map_or(Timestamp::default(), |granularity| granularity.start(at))
    }

    /// Start of the following window; `None` for `total`.
    #[must_use]
    pub fn end(self, at: Timestamp) -> Option<Timestamp> {
        self.granularity().map(|granularity| granularity.next(granularity.start(at)))
    }

    const fn granularity(self) -> Option<Granularity> {
        match self {
            Self::Day => Some(Granularity::Day),
            Self::Week => Some(Granularity::Week),
            Self::Month => Some(Granularity::Month),
            Self::Total => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_follow_the_calendar_and_the_total_never_ends() {
        let at = Timestamp::parse("2026-03-18T10:20:30Z").unwrap();
        let shown = |window: BudgetWindow| {
            let end = window.end(at).map(|end| end.to_string());
            (window.start(at).to_string(), end)
        };
        let day = shown(BudgetWindow::Day);
        assert!(day.0.starts_with("2026-03-18T00:00"), "{day:?}");
        let (start, end) = shown(BudgetWindow::Month);
        assert!(start.starts_with("2026-03-01T00:00") && end.unwrap().starts_with("2026-04-01"));
        assert_eq!(BudgetWindow::Total.start(at), Timestamp::default());
        assert_eq!(BudgetWindow::Total.end(at), None);
    }

    #[test]
    fn on_reached_defaults_to_hold() {
        let budget: Budget = serde_json::from_str(r#"{"window":"day","usd":5}"#).unwrap();
        assert_eq!(budget.on_reached, OnReached::Hold);
        assert!(serde_json::from_str::<Budget>(r#"{"window":"year","usd":5}"#).is_err());
    }
}
