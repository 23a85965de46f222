//! Query parameters and JSON bodies, with errors that name the field.

use std::str::FromStr;

use assay_domain::time::Timestamp;
use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::App;
use crate::problem::{Code, Issue, Problem};

/// A query parameter, for checking and for the API description.
#[derive(Clone, Copy, Debug)]
pub struct Param {
    /// Its name.
    pub name: &'static str,
    /// `string`, `integer`, `number`, `boolean`, `date-time` or `array`.
    pub kind: &'static str,
    /// For people.
    pub text: &'static str,
}

/// Shorthand for the tables of parameters.
#[must_use]
pub const fn param(name: &'static str, kind: &'static str, text: &'static str) -> Param {
    Param { name, kind, text }
}

/// The query of a request. An empty value counts as absent, except where [`Params::raw`] is asked.
#[derive(Clone, Debug, Default)]
pub struct Params(Vec<(String, String)>);

impl FromRequestParts<App> for Params {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Problem> {
        Ok(Self::parse(parts.uri.query().unwrap_or("")))
    }
}

impl Params {
    /// Reads a query string.
    #[must_use]
    pub fn parse(query: &str) -> Self {
        Self(
            form_urlencoded::parse(query.as_bytes())
                .into_owned()
                .collect(),
        )
    }

    /// The last value by this name, the empty one included.
    #[must_use]
    pub fn raw(&self, name: &str) -> Option<&str> {
        let mut found = self.0.iter().rev().filter(|(key, _)| key == name);
        found.next().map(|(_, value)| value.as_str())
    }

    /// The last value by this name that is not empty.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        self.raw(name).filter(|value| !value.is_empty())
    }

    /// Every value of a repeated parameter.
    #[must_use]
    pub fn all(&self, name: &str) -> Vec<String> {
        let values = self
            .0
            .iter()
            .filter(|(key, value)| key == name && !value.is_empty());
        values.map(|(_, value)| value.clone()).collect()
    }

    /// The members of a comma list.
    #[must_use]
    pub fn list(&self, name: &str) -> Vec<String> {
        let members = self.text(name).unwrap_or("").split(',').map(str::trim);
        members
            .filter(|member| !member.is_empty())
            .map(str::to_owned)
            .collect()
    }

    /// A value that parses.
    ///
    /// # Errors
    /// 400 that names the parameter.
    pub fn parsed<T>(&self, name: &str) -> Result<Option<T>, Problem>
    where
        T: FromStr<Err: std::fmt::Display>,
    {
        let parse = |text: &str| {
            text.parse()
                .map_err(|error| Problem::query(name, format!("{error}")))
        };
        self.text(name).map(parse).transpose()
    }

    /// A value out of a closed list, in any case.
    ///
    /// # Errors
    /// 400 that lists what is allowed.
    pub fn choice<T: Copy>(
        &self,
        name: &str,
        all: &[T],
        text: fn(T) -> &'static str,
    ) -> Result<Option<T>, Problem> {
        let Some(raw) = self.text(name) else {
            return Ok(None);
        };
        choose(raw, all, text)
            .map(Some)
            .map_err(|message| Problem::query(name, message))
    }

    /// A comma list out of a closed list, in any case.
    ///
    /// # Errors
    /// 400 that lists what is allowed.
    pub fn choices<T: Copy>(
        &self,
        name: &str,
        all: &[T],
        text: fn(T) -> &'static str,
    ) -> Result<Vec<T>, Problem> {
        let members = self.list(name);
        let chosen = members
            .iter()
            .map(|raw| choose(raw, all, text))
            .collect::<Result<_, _>>();
        chosen.map_err(|message| Problem::query(name, message))
    }

    /// A whole number within bounds.
    ///
    /// # Errors
    /// 400 that names the bounds.
    pub fn int(&self, name: &str, min: u32, max: u32, default: u32) -> Result<u32, Problem> {
        let Some(text) = self.text(name) else {
            return Ok(default);
        };
        match text.parse::<u32>() {
            Ok(number) if (min..=max).contains(&number) => Ok(number),
            _ => Err(Problem::query(
                name,
                format!("a whole number from {min} to {max} is expected"),
            )),
        }
    }

    /// A finite number.
    ///
    /// # Errors
    /// 400 that names the parameter.
    pub fn number(&self, name: &str) -> Result<Option<f64>, Problem> {
        let Some(text) = self.text(name) else {
            return Ok(None);
        };
        match text.parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(Some(number)),
            _ => Err(Problem::query(name, "a finite number is expected")),
        }
    }

    /// `true` or `false`.
    ///
    /// # Errors
    /// 400 that names the parameter.
    pub fn flag(&self, name: &str) -> Result<Option<bool>, Problem> {
        match self.text(name) {
            None => Ok(None),
            Some("true") => Ok(Some(true)),
            Some("false") => Ok(Some(false)),
            Some(_) => Err(Problem::query(name, "true or false is expected")),
        }
    }

    /// An instant.
    ///
    /// # Errors
    /// 400 that names the parameter.
    pub fn time(&self, name: &str) -> Result<Option<Timestamp>, Problem> {
        let parse =
            |text| Timestamp::parse(text).map_err(|error| Problem::query(name, error.to_string()));
        self.text(name).map(parse).transpose()
    }

    /// The `filter` parameter: a JSON array.
    ///
    /// # Errors
    /// 400 when it is no JSON array.
    pub fn filter(&self) -> Result<Vec<Value>, Problem> {
        match self.text("filter").map(serde_json::from_str) {
            None => Ok(Vec::new()),
            Some(Ok(Value::Array(conditions))) => Ok(conditions),
            Some(_) => Err(Problem::query(
                "filter",
                "a JSON array of conditions is expected",
            )),
        }
    }

    /// Refuses parameters that are not in the table, for the endpoints that are strict.
    ///
    /// # Errors
    /// 400 that names each unknown parameter.
    pub fn only(&self, known: &[Param]) -> Result<(), Problem> {
        let is_unknown = |name: &&str| known.iter().all(|param| param.name != *name);
        let names = self.0.iter().map(|(name, _)| name.as_str());
        let issues: Vec<_> = names
            .filter(is_unknown)
            .map(|name| Issue::new(name, "unknown parameter"))
            .collect();
        match issues.is_empty() {
            true => Ok(()),
            false => Err(Problem::issues(Code::InvalidQuery, issues)),
        }
    }
}

fn choose<T: Copy>(raw: &str, all: &[T], text: fn(T) -> &'static str) -> Result<T, String> {
    let found = all
        .iter()
        .copied()
        .find(|value| text(*value).eq_ignore_ascii_case(raw));
    found.ok_or_else(|| {
        let allowed: Vec<_> = all.iter().map(|value| text(*value)).collect();
        format!("{raw:?} is none of {}", allowed.join(", "))
    })
}

/// A JSON body read into `T`. Unknown fields are ignored unless `T` denies them.
#[derive(Clone, Debug)]
pub struct Body<T>(pub T);

impl<T: DeserializeOwned> FromRequest<App> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        let bytes = read(request, app.config.api_max_body_bytes).await?;
        from_json(&bytes).map(Self)
    }
}

/// Reads a whole body of at most so many bytes.
///
/// # Errors
/// 413 beyond the limit, 400 when the body breaks off.
pub async fn read(request: Request, max_bytes: usize) -> Result<Bytes, Problem> {
    axum::body::to_bytes(request.into_body(), max_bytes)
        .await
        .map_err(|error| {
            let error = error.into_inner();
            if error.is::<http_body_util::LengthLimitError>() {
                let message = format!("the body is larger than {} KiB", max_bytes >> 10);
                Problem::new(Code::TooLarge, message)
            } else {
                Problem::new(Code::InvalidBody, "the body broke off")
            }
        })
}

/// Reads JSON; what does not fit is named by its path.
///
/// # Errors
/// 400 with the path of the field.
pub fn from_json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let path = error.path().iter().filter_map(segment).collect();
        let cause = error.into_inner();
        let message = match cause.classify() {
            serde_json::error::Category::Data => without_position(&cause.to_string()),
            _ => format!("the body is not JSON: {cause}"),
        };
        Problem::issues(Code::InvalidBody, vec![Issue { path, message }])
    })?;
    json.end()
        .map_err(|error| Problem::body("", format!("the body is not JSON: {error}")))?;
    Ok(value)
}

fn segment(segment: &serde_path_to_error::Segment) -> Option<Value> {
    use serde_path_to_error::Segment;
    match segment {
        Segment::Seq { index } => Some((*index).into()),
        Segment::Map { key } => Some(key.as_str().into()),
        Segment::Enum { .. } | Segment::Unknown => None,
    }
}

/// Line and column say little about a body that a library wrote.
fn without_position(message: &str) -> String {
    message
        .split(" at line ")
        .next()
        .unwrap_or(message)
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_values_are_absent_and_repeated_ones_are_kept() {
        let params = Params::parse("a=&b=1&b=2&c=x%2Fy&parent=");
        assert_eq!(params.text("a"), None);
        assert_eq!(params.all("b"), ["1", "2"]);
        assert_eq!(params.text("c"), Some("x/y"));
        assert_eq!(params.raw("parent"), Some(""));
        assert_eq!(params.int("limit", 1, 100, 50).unwrap(), 50);
        assert!(
            params
                .int("b", 3, 4, 3)
                .unwrap_err()
                .message()
                .contains("3 to 4")
        );
    }

    #[test]
    fn times_whose_plus_became_a_blank_are_read() {
        let params = Params::parse("from=2026-03-01T10:00:00+00:00&to=2026-03-01T10:00:00%2B00:00");
        assert_eq!(params.time("from").unwrap(), params.time("to").unwrap());
        assert!(Params::parse("from=yesterday").time("from").is_err());
    }

    #[test]
    fn a_wrong_field_is_named_by_its_path() {
        #[derive(Debug, serde::Deserialize)]
        struct Inner {
            #[expect(dead_code, reason = "only its shape matters")]
            rate: f64,
        }
        #[derive(Debug, serde::Deserialize)]
        struct Outer {
            #[expect(dead_code, reason = "only its shape matters")]
            rules: Vec<Inner>,
        }
        let problem = from_json::<Outer>(br#"{"rules":[{"rate":"x"}]}"#).unwrap_err();
        let message = problem.message();
        assert!(
            message.starts_with("rules[0].rate: invalid type"),
            "{message}"
        );
        let problem = from_json::<Outer>(b"{\"rules\":[").unwrap_err();
        assert!(problem.message().contains("not JSON"));
    }

    #[test]
    fn strict_endpoints_name_unknown_parameters() {
        let problem = Params::parse("limit=1&usrId=2").only(&[param("limit", "integer", "")]);
        assert!(problem.unwrap_err().message().starts_with("usrId"));
    }
}
