//! The values of an answer: as a JSON Schema for the model, and as a check of the reply.

use perpend_plugin::Json;

use crate::answer::Value;
use crate::config::{DataType, ScoreShape};

/// The values of an answer.
#[derive(Clone, Debug)]
pub(crate) enum Shape<'c> {
    /// A number; both ends belong to the range.
    Number { min: Option<f64>, max: Option<f64> },
    /// True or false.
    Boolean,
    /// One category, or several of them.
    Category { categories: &'c [String], several: bool },
    /// One choice, which has a number.
    Choice(&'c [(String, f64)]),
}

impl<'c> Shape<'c> {
    pub(crate) fn of(data_type: DataType, score: &'c ScoreShape) -> Self {
        match data_type {
            DataType::Numeric => Self::Number { min: score.min_value, max: score.max_value },
            DataType::Boolean => Self::Boolean,
            DataType::Categorical => Self::Category {
                categories: score.categories.as_deref().unwrap_or_default(),
                several: score.should_allow_multiple_matches,
            },
        }
    }

    /// The schema of a value, with the description for the model.
    pub(crate) fn schema(&self, description: &str) -> Json {
        let mut members = match self {
            Self::Number { min, max } => {
                let bounds = [("minimum", min), ("maximum", max)].into_iter();
                let bounds = bounds.filter_map(|(key, end)| end.map(|end| (key, Json::from(end))));
                [("type", Json::from("number"))].into_iter().chain(bounds).collect()
            }
            Self::Boolean => vec![("type", Json::from("boolean"))],
            Self::Category { categories, several: false } => one_of(categories.iter()),
            Self::Category { categories, several: true } => vec![
                ("type", Json::from("array")),
                ("items", object(one_of(categories.iter()))),
                ("minItems", Json::from(1_usize)),
                ("maxItems", Json::from(categories.len())),
                ("uniqueItems", Json::from(true)),
            ],
            Self::Choice(scores) => one_of(scores.iter().map(|(choice, _)| choice)),
        };
        if !description.is_empty() {
            members.push(("description", Json::from(description)));
        }
        object(members)
    }

    /// The value of an answer.
    ///
    /// # Errors
    /// The reason why the answer is malformed.
    pub(crate) fn read(&self, answer: &Json) -> Result<Value, String> {
        match (self, answer) {
            (Self::Number { min, max }, Json::Number(number)) => {
                in_range(number.as_f64(), *min, *max)
            }
            (Self::Boolean, Json::Bool(yes)) => Ok(Value::Boolean(*yes)),
            (Self::Category { several: false, .. } | Self::Choice(_), Json::Text(text)) => {
                self.verdict(text)
            }
            (Self::Category { categories, several: true }, Json::Array(names)) => {
                several(categories, names)
            }
            (_, other) => Err(format!("{other} is not {}", self.expected())),
        }
    }

    /// The value of a category or choice.
    ///
    /// # Errors
    /// When it is not one of the offered values.
    pub(crate) fn verdict(&self, text: &str) -> Result<Value, String> {
        let text = text.trim();
        match self {
            Self::Choice(scores) => scores
                .iter()
                .find(|(choice, _)| choice == text)
                .map(|(_, score)| Value::Number(*score)),
            Self::Category { categories, .. } => {
                let is_offered = categories.iter().any(|category| category == text);
                is_offered.then(|| Value::Categories(vec![text.to_owned()]))
            }
            Self::Number { .. } | Self::Boolean => None,
        }
        .ok_or_else(|| format!("{} is not {}", Json::from(text), self.expected()))
    }

    /// Each verdict as plain text; `None` when the values are not a closed set.
    pub(crate) fn verdicts(&self) -> Option<Vec<String>> {
        match self {
            Self::Boolean => Some(["true", "false"].map(str::to_owned).into()),
            Self::Category { categories, several: false } => Some(categories.to_vec()),
            Self::Choice(scores) => Some(scores.iter().map(|(choice, _)| choice.clone()).collect()),
            Self::Category { .. } | Self::Number { .. } => None,
        }
    }

    fn expected(&self) -> String {
        let list = |names: &mut dyn Iterator<Item = &String>| {
            names.map(String::as_str).collect::<Vec<_>>().join(", ")
        };
        match self {
            Self::Number { min, max } => {
                let end = |end: &Option<f64>| end.map_or("any".to_owned(), |end| end.to_string());
                format!("a number from {} to {}", end(min), end(max))
            }
            Self::Boolean => "true or false".to_owned(),
            Self::Category { categories, several: false } => {
                format!("one of {}", list(&mut categories.iter()))
            }
            Self::Category { categories, several: true } => {
                format!("a list of different ones of {}", list(&mut categories.iter()))
            }
            Self::Choice(scores) => {
                format!("one of {}", list(&mut scores.iter().map(|(choice, _)| choice)))
            }
        }
    }
}

fn in_range(number: f64, min: Option<f64>, max: Option<f64>) -> Result<Value, String> {
    let fits = number.is_finite()
        && min.is_none_or(|min| min <= number)
        && max.is_none_or(|max| number <= max);
    match fits {
        true => Ok(Value::Number(number)),
        false => Err(format!("{number} is not {}", Shape::Number { min, max }.expected())),
    }
}

fn several(categories: &[String], names: &[Json]) -> Result<Value, String> {
    let shape = Shape::Category { categories, several: true };
    let mut found: Vec<String> = Vec::new();
    for name in names {
        match name {
            Json::Text(text) if categories.contains(text) && !found.contains(text) => {
                found.push(text.clone())
            }
            other => return Err(format!("{other} is not in {}", shape.expected())),
        }
    }
    match found.is_empty() {
        true => Err(format!("[] is not {}", shape.expected())),
        false => Ok(Value::Categories(found)),
    }
}

fn one_of<'a>(names: impl Iterator<Item = &'a String>) -> Vec<(&'static str, Json)> {
    let names: Vec<Json> = names.map(|name| Json::from(name.as_str())).collect();
    vec![("type", Json::from("string")), ("enum", Json::Array(names))]
}

/// An object with these members.
pub(crate) fn object<'a>(members: impl IntoIterator<Item = (&'a str, Json)>) -> Json {
    let members = members.into_iter().map(|(name, value)| (name.to_owned(), value));
    Json::Object(members.collect())
}

/// The schema of an object that has exactly these members, in this order.
pub(crate) fn closed<'a>(
    members: impl IntoIterator<Item = (&'a str, Json)>,
) -> Vec<(&'static str, Json)> {
    let members: Vec<_> = members.into_iter().collect();
    let names: Vec<&str> = members.iter().map(|(name, _)| *name).collect();
    vec![
        ("type", Json::from("object")),
        ("required", Json::from(names)),
        ("properties", object(members)),
        ("additionalProperties", Json::from(false)),
    ]
}

/// The schema of a text that the model writes.
pub(crate) fn text_schema(description: &str) -> Json {
    let description = (!description.is_empty()).then(|| ("description", Json::from(description)));
    object([("type", Json::from("string"))].into_iter().chain(description))
}
