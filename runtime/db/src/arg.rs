//! Values for placeholders.

use std::borrow::Cow;

use perpend_domain::text::storable;

/// A value for a placeholder. Nulls have a type, which PostgreSQL requires.
#[derive(Clone, Debug)]
pub enum Arg<'a> {
    Int(Option<i64>),
    Float(Option<f64>),
    Text(Option<Cow<'a, str>>),
    Blob(Option<Cow<'a, [u8]>>),
}

impl From<i64> for Arg<'_> {
    fn from(value: i64) -> Self {
        Self::Int(Some(value))
    }
}

impl From<i32> for Arg<'_> {
    fn from(value: i32) -> Self {
        Self::Int(Some(value.into()))
    }
}

impl From<bool> for Arg<'_> {
    fn from(value: bool) -> Self {
        Self::Int(Some(i64::from(value)))
    }
}

impl From<Option<i64>> for Arg<'_> {
    fn from(value: Option<i64>) -> Self {
        Self::Int(value)
    }
}

impl From<f64> for Arg<'_> {
    fn from(value: f64) -> Self {
        Self::Float(Some(value))
    }
}

impl From<Option<f64>> for Arg<'_> {
    fn from(value: Option<f64>) -> Self {
        Self::Float(value)
    }
}

impl<'a> From<&'a str> for Arg<'a> {
    fn from(value: &'a str) -> Self {
        Self::Text(Some(storable(value)))
    }
}

impl<'a> From<&'a String> for Arg<'a> {
    fn from(value: &'a String) -> Self {
        value.as_str().into()
    }
}

impl From<String> for Arg<'_> {
    fn from(value: String) -> Self {
        let clean = match storable(&value) {
            Cow::Owned(clean) => Some(clean),
            Cow::Borrowed(_) => None,
        };
        Self::Text(Some(clean.unwrap_or(value).into()))
    }
}

impl<'a> From<Option<&'a str>> for Arg<'a> {
    fn from(value: Option<&'a str>) -> Self {
        Self::Text(value.map(storable))
    }
}

impl<'a> From<&'a Option<String>> for Arg<'a> {
    fn from(value: &'a Option<String>) -> Self {
        value.as_deref().into()
    }
}

impl From<Option<String>> for Arg<'_> {
    fn from(value: Option<String>) -> Self {
        value.map_or(Self::Text(None), Self::from)
    }
}

impl<'a> From<&'a [u8]> for Arg<'a> {
    fn from(value: &'a [u8]) -> Self {
        Self::Blob(Some(value.into()))
    }
}

impl From<Vec<u8>> for Arg<'_> {
    fn from(value: Vec<u8>) -> Self {
        Self::Blob(Some(value.into()))
    }
}

/// Binds values in order, for either driver.
macro_rules! bind_args {
    ($sql:expr, $args:expr) => {{
        let mut query = sqlx::query(AssertSqlSafe($sql));
        for arg in $args {
            query = match arg {
                Arg::Int(value) => query.bind(*value),
                Arg::Float(value) => query.bind(*value),
                Arg::Text(value) => query.bind(value.as_deref()),
                Arg::Blob(value) => query.bind(value.as_deref()),
            };
        }
        query
    }};
}
pub(crate) use bind_args;
