//! Constraints on scores of a name: type, range, categories.
//!
//! Invariant: a [`ScoreConfig`] that passed [`ScoreConfig::faults`] without any decides for every value
//! whether it is valid.

use serde::{Deserialize, Serialize};

use crate::issue::Issue;
use crate::named::named_enum;
use crate::score::{ScoreDataType, ScoreValue};
use crate::time::Timestamp;

/// The longest name in characters.
const MAX_NAME_CHARS: usize = 35;
/// The longest name of a score with a direction, in characters.
const MAX_SCORE_NAME_CHARS: usize = 500;

/// One category of a categorical or boolean config.
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Category {
    /// The number it counts as.
    pub value: f64,
    /// The text of the category.
    pub label: String,
}

named_enum!(
    /// The better direction of the values of a score.
    ScoreDirection {
        HigherIsBetter = "higher_is_better",
        LowerIsBetter = "lower_is_better",
    }
);

/// Name, type and range of scores.
#[derive(Clone, Debug, PartialEq)]
pub struct ScoreConfig {
    /// Its id.
    pub id: String,
    /// The name of its scores.
    pub name: String,
    /// The type of its scores; corrections have no configs.
    pub data_type: ScoreDataType,
    /// No new scores may refer to it.
    pub is_archived: bool,
    /// Smallest number, for numeric ones.
    pub min_value: Option<f64>,
    /// Largest number, for numeric ones.
    pub max_value: Option<f64>,
    /// For categorical and boolean ones.
    pub categories: Option<Vec<Category>>,
    /// The better direction of its values; absent if unknown, and for texts.
    pub direction: Option<ScoreDirection>,
    /// Description.
    pub description: Option<String>,
    /// Creation time.
    pub created_at: Timestamp,
    /// Time of the last change.
    pub updated_at: Timestamp,
}

/// The categories of every boolean config.
#[must_use]
pub fn boolean_categories() -> Vec<Category> {
    [("True", 1.0), ("False", 0.0)]
        .map(|(label, value)| Category { value, label: label.to_owned() })
        .into()
}

impl ScoreConfig {
    /// Everything that is wrong with it.
    #[must_use]
    pub fn faults(&self) -> Vec<Issue> {
        let mut faults = Vec::new();
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || "_ .()-".contains(c);
        let n_chars = self.name.chars().count();
        if n_chars == 0 || n_chars > MAX_NAME_CHARS || !self.name.chars().all(is_allowed) {
            faults.push(Issue::new(
                "name",
                "1 to 35 letters, digits, blanks and _ . ( ) - are expected",
            ));
        }
        faults.extend(self.value_faults());
        faults
    }

    /// As [`Self::faults`], for the direction of a score, which may have any name.
    #[must_use]
    pub fn direction_faults(&self) -> Vec<Issue> {
        let mut faults = self.value_faults();
        if !(1..=MAX_SCORE_NAME_CHARS).contains(&self.name.chars().count()) {
            faults.push(Issue::new("name", "1 to 500 characters are expected"));
        }
        faults
    }

    /// As [`Self::faults`], without the name.
    #[must_use]
    pub fn value_faults(&self) -> Vec<Issue> {
        let mut faults = Vec::new();
        if self.data_type == ScoreDataType::Correction {
            faults
                .push(Issue::new("dataType", "NUMERIC, BOOLEAN, CATEGORICAL or TEXT is expected"));
        }
        if self.data_type == ScoreDataType::Text && self.direction.is_some() {
            faults.push(Issue::new("direction", "a TEXT config has no direction"));
        }
        self.range_faults(&mut faults);
        self.category_faults(&mut faults);
        faults
    }

    fn range_faults(&self, faults: &mut Vec<Issue>) {
        for (field, bound) in [("minValue", self.min_value), ("maxValue", self.max_value)] {
            let Some(bound) = bound else { continue };
            if self.data_type != ScoreDataType::Numeric {
                faults.push(Issue::new(field, "only a NUMERIC config has bounds"));
            } else if !bound.is_finite() {
                faults.push(Issue::new(field, "a finite number is expected"));
            }
        }
        if let (Some(min), Some(max)) = (self.min_value, self.max_value)
            && max <= min
        {
            faults.push(Issue::new("maxValue", "has to be greater than minValue"));
        }
    }

    fn category_faults(&self, faults: &mut Vec<Issue>) {
        let mut put = |message: &str| faults.push(Issue::new("categories", message));
        match (self.data_type, &self.categories) {
            (ScoreDataType::Categorical, None) => put("a CATEGORICAL config needs categories"),
            (ScoreDataType::Categorical, Some(list)) if list.is_empty() => {
                put("a CATEGORICAL config needs categories");
            }
            (ScoreDataType::Categorical, Some(list)) => {
                let mut labels: Vec<&str> = list.iter().map(|c| c.label.as_str()).collect();
                labels.sort_unstable();
                if labels.windows(2).any(|pair| pair[0] == pair[1]) {
                    put("two categories have the same label");
                }
                if labels.iter().any(|label| label.is_empty()) {
                    put("a label is empty");
                }
                let mut values: Vec<f64> = list.iter().map(|c| c.value).collect();
                values.sort_by(f64::total_cmp);
                if values.windows(2).any(|pair| pair[0] == pair[1]) {
                    put("two categories have the same value");
                }
            }
            (ScoreDataType::Boolean, Some(list)) if *list != boolean_categories() => {
                put("a BOOLEAN config has the categories True (1) and False (0) and no others");
            }
            (ScoreDataType::Numeric | ScoreDataType::Text, Some(_)) => {
                put("only a CATEGORICAL config has categories");
            }
            _ => {}
        }
    }

    /// The number that a category counts as.
    #[must_use]
    pub fn number_of(&self, label: &str) -> Option<f64> {
        let categories = self.categories.as_deref().unwrap_or_default();
        let found = categories.iter().find(|category| category.label == label);
        found.map(|category| category.value)
    }

    /// Whether a score with this value may refer to it.
    ///
    /// # Errors
    /// The field of the score that does not fit, and why.
    pub fn check(&self, value: &ScoreValue) -> Result<(), Issue> {
        if self.is_archived {
            return Err(Issue::new("configId", "the score config is archived"));
        }
        if value.data_type() != self.data_type {
            let message = format!("the score config is for {} scores", self.data_type);
            return Err(Issue::new("dataType", message));
        }
        match value {
            ScoreValue::Numeric(number) => {
                if let Some(min) = self.min_value.filter(|min| number < min) {
                    return Err(Issue::new("value", format!("less than {min}, the least allowed")));
                }
                if let Some(max) = self.max_value.filter(|max| number > max) {
                    return Err(Issue::new("value", format!("more than {max}, the most allowed")));
                }
                Ok(())
            }
            ScoreValue::Categorical(label) if self.number_of(label).is_none() => {
                let categories = self.categories.as_deref().unwrap_or_default();
                let labels: Vec<&str> = categories.iter().map(|c| c.label.as_str()).collect();
                let message = format!("must be one of {}; got {label:?}", labels.join(", "));
                Err(Issue::new("value", message))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(data_type: ScoreDataType) -> ScoreConfig {
        ScoreConfig {
            id: "c".to_owned(),
            name: "quality".to_owned(),
            data_type,
            is_archived: false,
            min_value: None,
            max_value: None,
            categories: None,
            direction: None,
            description: None,
            created_at: Timestamp::from_millis(0),
            updated_at: Timestamp::from_millis(0),
        }
    }

    fn labels(list: &[(&str, f64)]) -> Option<Vec<Category>> {
        let category =
            |(label, value): &(&str, f64)| Category { value: *value, label: (*label).to_owned() };
        Some(list.iter().map(category).collect())
    }

    fn fields(config: &ScoreConfig) -> Vec<String> {
        config.faults().iter().map(Issue::field).collect()
    }

    #[test]
    fn each_type_takes_its_own_fields_and_refuses_the_others() {
        let mut numeric = config(ScoreDataType::Numeric);
        (numeric.min_value, numeric.max_value) = (Some(1.0), Some(5.0));
        assert_eq!(fields(&numeric), [""; 0]);
        numeric.max_value = Some(1.0);
        assert_eq!(fields(&numeric), ["maxValue"]);
        numeric.categories = labels(&[("a", 1.0)]);
        assert_eq!(fields(&numeric), ["maxValue", "categories"]);

        let mut text = config(ScoreDataType::Text);
        text.min_value = Some(0.0);
        text.name = "no/slash".to_owned();
        text.direction = Some(ScoreDirection::HigherIsBetter);
        assert_eq!(fields(&text), ["name", "direction", "minValue"]);

        let mut boolean = config(ScoreDataType::Boolean);
        boolean.categories = Some(boolean_categories());
        assert_eq!(fields(&boolean), [""; 0]);
        boolean.categories = labels(&[("yes", 1.0), ("no", 0.0)]);
        assert_eq!(fields(&boolean), ["categories"]);
        assert_eq!(fields(&config(ScoreDataType::Correction)), ["dataType"]);
    }

    #[test]
    fn the_direction_of_a_score_may_have_the_name_of_any_score() {
        let mut numeric = config(ScoreDataType::Numeric);
        numeric.name = "is the answer relevant? / v2 (judged by a model)".to_owned();
        assert_eq!(fields(&numeric), ["name"]);
        assert_eq!(numeric.direction_faults(), []);
        numeric.name = String::new();
        numeric.max_value = Some(f64::NAN);
        let faults: Vec<String> = numeric.direction_faults().iter().map(Issue::field).collect();
        assert_eq!(faults, ["maxValue", "name"]);
    }

    #[test]
    fn categories_have_unique_labels_and_values() {
        let mut config = config(ScoreDataType::Categorical);
        assert_eq!(fields(&config), ["categories"]);
        for wrong in [&[][..], &[("a", 1.0), ("a", 2.0)], &[("a", 1.0), ("b", 1.0)], &[("", 1.0)]] {
            config.categories = labels(wrong);
            assert_eq!(fields(&config), ["categories"], "{wrong:?}");
        }
        config.categories = labels(&[("good", 1.0), ("bad", 0.0)]);
        assert_eq!(fields(&config), [""; 0]);
        assert_eq!(config.number_of("good"), Some(1.0));
    }

    #[test]
    fn a_value_fits_by_type_range_and_category() {
        let field = |config: &ScoreConfig, value| match config.check(&value) {
            Ok(()) => String::new(),
            Err(issue) => issue.field(),
        };
        let mut numeric = config(ScoreDataType::Numeric);
        (numeric.min_value, numeric.max_value) = (Some(0.0), Some(1.0));
        assert_eq!(field(&numeric, ScoreValue::Numeric(1.0)), "");
        assert_eq!(field(&numeric, ScoreValue::Numeric(1.1)), "value");
        assert_eq!(field(&numeric, ScoreValue::Numeric(-0.1)), "value");
        assert_eq!(field(&numeric, ScoreValue::Boolean(true)), "dataType");
        let mut categorical = config(ScoreDataType::Categorical);
        categorical.categories = labels(&[("good", 1.0)]);
        let category = |text: &str| ScoreValue::Categorical(text.to_owned());
        assert_eq!(field(&categorical, category("good")), "");
        assert_eq!(field(&categorical, category("other")), "value");
        categorical.is_archived = true;
        assert_eq!(field(&categorical, category("good")), "configId");
    }
}
