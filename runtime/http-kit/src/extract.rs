//! Query parameters and JSON bodies, with errors that name the field.

mod schema_issues;
mod size;

pub use schema_issues::all_issues;

use std::str::FromStr;

use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{FromRequest, FromRequestParts, RawPathParams, Request};
use axum::http::request::Parts;
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use perpend_domain::text::whole_characters;
use perpend_domain::time::Timestamp;
use serde::Deserialize as _;
use serde::de::DeserializeOwned;
use serde_json::Value;
use utoipa::ToSchema;

use crate::admission::read;
use crate::problem::{Code, Issue, MAX_LISTED, Problem};
use crate::{AppState, Web};

/// Characters of a rejected value that a message quotes.
const MAX_VALUE_CHARS: usize = 100;
/// The message for an absent field.
pub const MISSING: &str = "is required";
/// Levels in the path of an issue about the depth itself.
const MAX_SHOWN_LEVELS: usize = 8;

/// A query parameter, for validation and for the API description.
#[derive(Clone, Copy, Debug)]
pub struct Param {
    /// Name.
    pub name: &'static str,
    /// Type: `string`, `integer`, `number`, `boolean`, `date-time` or `array`.
    pub kind: &'static str,
    /// Description.
    pub text: &'static str,
    /// Whether the parameter is required.
    pub is_required: bool,
}

/// An optional parameter.
#[must_use]
pub const fn param(name: &'static str, kind: &'static str, text: &'static str) -> Param {
    Param { name, kind, text, is_required: false }
}

impl Param {
    /// A required parameter.
    #[must_use]
    pub const fn required(self) -> Self {
        Self { is_required: true, ..self }
    }
}

/// The query of a request. An empty value counts as absent, except for [`Params::raw`].
#[derive(Clone, Debug, Default)]
pub struct Params(Vec<(String, String)>);

impl<S: Send + Sync> FromRequestParts<S> for Params {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let params = Self::parse(parts.uri.query().unwrap_or(""));
        let with_nul = params.0.iter().filter(|(_, value)| value.contains('\0'));
        let issues: Vec<_> = with_nul.map(|(name, _)| Issue::new(name, NUL)).collect();
        match issues.is_empty() {
            true => Ok(params),
            false => Err(Problem::issues(Code::InvalidQuery, issues)),
        }
    }
}

impl Params {
    /// Parses a query string.
    #[must_use]
    pub fn parse(query: &str) -> Self {
        Self(form_urlencoded::parse(query.as_bytes()).into_owned().collect())
    }

    /// The last value of this name, including an empty one.
    #[must_use]
    pub fn raw(&self, name: &str) -> Option<&str> {
        let mut found = self.0.iter().rev().filter(|(key, _)| key == name);
        found.next().map(|(_, value)| value.as_str())
    }

    /// The last non-empty value of this name.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        self.raw(name).filter(|value| !value.is_empty())
    }

    /// Every value of a repeated parameter, including empty ones.
    #[must_use]
    pub fn raw_all(&self, name: &str) -> Vec<&str> {
        let values = self.0.iter().filter(|(key, _)| key == name);
        values.map(|(_, value)| value.as_str()).collect()
    }

    /// Every non-empty value of a repeated parameter.
    #[must_use]
    pub fn all(&self, name: &str) -> Vec<String> {
        let values = self.0.iter().filter(|(key, value)| key == name && !value.is_empty());
        values.map(|(_, value)| value.clone()).collect()
    }

    /// The elements of a comma-separated list.
    #[must_use]
    pub fn list(&self, name: &str) -> Vec<String> {
        let members = self.text(name).unwrap_or("").split(',').map(str::trim);
        members.filter(|member| !member.is_empty()).map(str::to_owned).collect()
    }

    /// A value of a type with a parser.
    ///
    /// # Errors
    /// 400 that names the parameter.
    pub fn parsed<T>(&self, name: &str) -> Result<Option<T>, Problem>
    where
        T: FromStr<Err: std::fmt::Display>,
    {
        let parse =
            |text: &str| text.parse().map_err(|error| Problem::query(name, format!("{error}")));
        self.text(name).map(parse).transpose()
    }

    /// One of a closed list of values, case-insensitive.
    ///
    /// # Errors
    /// 400 that lists the allowed values.
    pub fn choice<T: Copy>(
        &self,
        name: &str,
        all: &[T],
        text: fn(T) -> &'static str,
    ) -> Result<Option<T>, Problem> {
        let Some(raw) = self.text(name) else {
            return Ok(None);
        };
        choose(raw, all, text).map(Some).map_err(|message| Problem::query(name, message))
    }

    /// A comma-separated list of values from a closed list, case-insensitive.
    ///
    /// # Errors
    /// 400 that lists the allowed values.
    pub fn choices<T: Copy>(
        &self,
        name: &str,
        all: &[T],
        text: fn(T) -> &'static str,
    ) -> Result<Vec<T>, Problem> {
        let members = self.list(name);
        let chosen = members.iter().map(|raw| choose(raw, all, text)).collect::<Result<_, _>>();
        chosen.map_err(|message| Problem::query(name, message))
    }

    /// An integer within bounds.
    ///
    /// # Errors
    /// 400 that names the bounds.
    pub fn int(&self, name: &str, min: u32, max: u32, default: u32) -> Result<u32, Problem> {
        let Some(text) = self.text(name) else {
            return Ok(default);
        };
        match text.parse::<u32>() {
            Ok(number) if (min..=max).contains(&number) => Ok(number),
            _ => {
                let message = format!("must be an integer from {min} to {max}, got {text:?}");
                Err(Problem::query(name, message))
            }
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
            _ => Err(Problem::query(name, format!("must be a finite number, got {text:?}"))),
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
            Some(other) => {
                Err(Problem::query(name, format!("must be `true` or `false`, got {other:?}")))
            }
        }
    }

    /// A timestamp.
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
    /// 400 for anything else.
    pub fn filter(&self) -> Result<Vec<Value>, Problem> {
        match self.text("filter").map(serde_json::from_str) {
            None => Ok(Vec::new()),
            Some(Ok(Value::Array(conditions))) => Ok(conditions),
            Some(_) => Err(Problem::query("filter", "must be a JSON array of conditions")),
        }
    }

    /// Refuses parameters that are not in the table.
    ///
    /// # Errors
    /// 400 that names each unknown parameter.
    pub fn only(&self, known: &[Param]) -> Result<(), Problem> {
        let is_unknown = |name: &&str| known.iter().all(|param| param.name != *name);
        let names = self.0.iter().map(|(name, _)| name.as_str());
        let issues: Vec<_> =
            names.filter(is_unknown).map(|name| Issue::new(name, "unknown parameter")).collect();
        match issues.is_empty() {
            true => Ok(()),
            false => Err(Problem::issues(Code::InvalidQuery, issues)),
        }
    }
}

fn choose<T: Copy>(raw: &str, all: &[T], text: fn(T) -> &'static str) -> Result<T, String> {
    let found = all.iter().copied().find(|value| text(*value).eq_ignore_ascii_case(raw));
    found.ok_or_else(|| {
        let allowed: Vec<_> = all.iter().map(|value| text(*value)).collect();
        must_be_one_of(&allowed, raw)
    })
}

/// The message for a value outside a closed list.
pub fn must_be_one_of(allowed: &[&str], value: &str) -> String {
    let mut value = value.to_owned();
    if let Some((end, _)) = value.char_indices().nth(MAX_VALUE_CHARS) {
        value.truncate(end);
        value.push('…');
    }
    match allowed {
        [only] => format!("must be `{only}`; got `{value}`"),
        [one, other] => format!("must be `{one}` or `{other}`; got `{value}`"),
        all => format!("must be one of `{}`; got `{value}`", all.join("`, `")),
    }
}

/// The message for U+0000. PostgreSQL cannot store it, and SQLite must not hold texts that PostgreSQL cannot.
const NUL: &str = "the character U+0000 cannot be stored";

/// Layer of the API: refuses path parameters that are not UTF-8 or contain U+0000.
pub async fn readable_path(
    params: Result<RawPathParams, RawPathParamsRejection>,
    request: Request,
    next: Next,
) -> Response {
    let issue = match params {
        Ok(params) => {
            let with_nul = params.iter().find(|(_, value)| value.contains('\0'));
            with_nul.map(|(name, _)| Issue::new(name, NUL))
        }
        Err(RawPathParamsRejection::InvalidUtf8InPathParam(error)) => {
            Some(Issue::new("", error.to_string()))
        }
        // The path has no parameters.
        Err(_) => None,
    };
    match issue {
        Some(issue) => Problem::issues(Code::InvalidRequest, vec![issue]).into_response(),
        None => next.run(request).await,
    }
}

/// A JSON body. Unknown fields are ignored unless `T` denies them.
#[derive(Clone, Debug)]
pub struct Body<T>(pub T);

impl<S: AppState, T: DeserializeOwned + ToSchema + 'static> FromRequest<S> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &S) -> Result<Self, Problem> {
        let web = app.web();
        let bytes = read_json(web, request, web.config.api_max_body_bytes).await?;
        // Derived deserializers accept a list in the place of an object.
        if bytes.trim_ascii_start().starts_with(b"[") {
            return Err(Problem::body("", "the body must be an object, got a list"));
        }
        without_nul(&bytes)?;
        let value = from_json(&bytes).map_err(|first| all_issues::<T>(&bytes, first))?;
        Ok(Self(value))
    }
}

/// As [`Body`], for records that programs send in bulk: characters that no database can store are replaced, by the
/// reader or by the store, and do not fail the request.
#[derive(Clone, Debug)]
pub struct LenientJson<T>(pub T);

impl<S: AppState, T: DeserializeOwned> FromRequest<S> for LenientJson<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &S) -> Result<Self, Problem> {
        let web = app.web();
        let bytes = read_json(web, request, web.config.api_max_body_bytes).await?;
        from_json(&whole_characters(&bytes)).map(Self)
    }
}

/// Reads a JSON body and charges the memory of the parsed body to the request.
///
/// # Errors
/// As [`read`]; 413 for too many values.
pub async fn read_json(web: &Web, request: Request, max_bytes: usize) -> Result<Vec<u8>, Problem> {
    let body = read(web, request, max_bytes).await?;
    size::charge(&body, web.config.api_max_body_values)?;
    Ok(body.bytes)
}

/// Deserializes an optional member that must be an object: derived deserializers also accept a list.
pub fn object<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: DeserializeOwned,
{
    let value = Option::<serde_json::Map<String, Value>>::deserialize(deserializer)?;
    let deserialize = |members| serde_path_to_error::deserialize(Value::Object(members));
    let custom =
        |error: serde_path_to_error::Error<serde_json::Error>| match error.path().to_string() {
            path if path == "." => serde::de::Error::custom(error.into_inner()),
            path => serde::de::Error::custom(format!("{path}: {}", error.into_inner())),
        };
    value.map(|members| deserialize(members).map_err(custom)).transpose()
}

/// Refuses U+0000 and names each field that contains it.
fn without_nul(bytes: &[u8]) -> Result<(), Problem> {
    // JSON allows the character as an escape only; a body without it is not parsed twice.
    let may_have_one = str::from_utf8(bytes).is_ok_and(|text| text.contains("\\u0000"));
    if !may_have_one {
        return Ok(());
    }
    let mut issues = Vec::new();
    find_nul(&from_json(bytes)?, &mut Vec::new(), &mut issues);
    match issues.is_empty() {
        true => Ok(()),
        false => Err(Problem::issues(Code::InvalidBody, issues)),
    }
}

fn find_nul(value: &Value, path: &mut Vec<Value>, issues: &mut Vec<Issue>) {
    let issue = |path: &[Value]| Issue { path: path.to_vec(), message: NUL.to_owned() };
    match value {
        _ if MAX_LISTED <= issues.len() => {}
        Value::String(text) if text.contains('\0') => issues.push(issue(path)),
        Value::Array(list) => {
            for (at, each) in list.iter().enumerate() {
                path.push(at.into());
                find_nul(each, path, issues);
                path.pop();
            }
        }
        Value::Object(members) => {
            for (key, member) in members {
                path.push(key.as_str().into());
                if key.contains('\0') {
                    issues.push(issue(path));
                }
                find_nul(member, path, issues);
                path.pop();
            }
        }
        _ => {}
    }
}

/// Parses JSON; a mismatch is reported with its path.
///
/// # Errors
/// 400 with the path of the field.
pub fn from_json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut json).map_err(body_problem)?;
    json.end().map_err(|error| Problem::body("", format!("the body is not JSON: {error}")))?;
    Ok(value)
}

/// As [`from_json`], for a body that was parsed before its kind was known.
///
/// # Errors
/// As [`from_json`].
pub fn from_value<T: DeserializeOwned>(value: &Value) -> Result<T, Problem> {
    serde_path_to_error::deserialize(value).map_err(body_problem)
}

fn body_problem(error: serde_path_to_error::Error<serde_json::Error>) -> Problem {
    let mut path: Vec<Value> = error.path().iter().filter_map(segment).collect();
    let cause = error.into_inner();
    let text = cause.to_string();
    let message = match cause.classify() {
        serde_json::error::Category::Data => plain_message(&text),
        _ if text.starts_with("recursion limit") => {
            path.truncate(MAX_SHOWN_LEVELS);
            "must be nested at most 127 levels deep".to_owned()
        }
        _ => format!("the body is not JSON: {text}"),
    };
    let missing = message.strip_prefix("missing field `");
    if let Some(name) = missing.and_then(|rest| rest.strip_suffix('`')) {
        path.push(name.into());
        let message = MISSING.to_owned();
        return Problem::issues(Code::InvalidBody, vec![Issue { path, message }]);
    }
    Problem::issues(Code::InvalidBody, vec![Issue { path, message }])
}

fn segment(segment: &serde_path_to_error::Segment) -> Option<Value> {
    use serde_path_to_error::Segment;
    match segment {
        Segment::Seq { index } => Some((*index).into()),
        Segment::Map { key } => Some(key.as_str().into()),
        Segment::Enum { .. } | Segment::Unknown => None,
    }
}

/// Removes line and column, and replaces the names of Rust types by those of JSON. The value between the two parts of the
/// message is kept.
fn plain_message(message: &str) -> String {
    let message = message.rsplit_once(" at line ").map_or(message, |(text, _)| text);
    let Some((found, expected)) = message.rsplit_once(", expected ") else {
        return message.to_owned();
    };
    let found = match found {
        "invalid type: map" => "invalid type: object",
        "invalid type: sequence" => "invalid type: list",
        other => other,
    };
    let expected = match expected {
        "a sequence" => "a list",
        "a map" => "an object",
        "f64" => "a number",
        "i64" => "an integer",
        "u32" | "u64" => "an integer of at least 0",
        other if other.starts_with("struct ") => "an object",
        other => other,
    };
    format!("{found}, expected {expected}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mismatch_is_reported_with_types_of_json() {
        #[derive(Debug, serde::Deserialize)]
        struct Numbers {
            #[serde(rename = "n")]
            _n: Vec<f64>,
        }
        for (body, expected) in [
            (r#""x""#, r#"invalid type: string "x", expected an object"#),
            (r#"{"n":{}}"#, "n: invalid type: object, expected a list"),
            (r#"{"n":["1"]}"#, r#"n[0]: invalid type: string "1", expected a number"#),
            (
                r#"{"n":["x, expected f64 at line 1"]}"#,
                r#"n[0]: invalid type: string "x, expected f64 at line 1", expected a number"#,
            ),
        ] {
            let problem = from_json::<Numbers>(body.as_bytes()).unwrap_err();
            assert!(problem.message().ends_with(expected), "{}", problem.message());
        }
    }

    #[test]
    fn empty_values_are_absent_and_repeated_ones_are_collected() {
        let params = Params::parse("a=&b=1&b=2&c=x%2Fy&parent=");
        assert_eq!(params.text("a"), None);
        assert_eq!(params.all("b"), ["1", "2"]);
        assert_eq!(params.text("c"), Some("x/y"));
        assert_eq!(params.raw("parent"), Some(""));
        assert_eq!(params.int("limit", 1, 100, 50).unwrap(), 50);
        assert!(params.int("b", 3, 4, 3).unwrap_err().message().contains("3 to 4"));
    }

    #[test]
    fn a_timestamp_whose_plus_became_a_space_is_parsed() {
        let params = Params::parse("from=2026-03-01T10:00:00+00:00&to=2026-03-01T10:00:00%2B00:00");
        assert_eq!(params.time("from").unwrap(), params.time("to").unwrap());
        assert!(Params::parse("from=yesterday").time("from").is_err());
    }

    #[test]
    fn an_invalid_field_is_named_by_its_path() {
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
        assert!(message.starts_with("rules[0].rate: invalid type"), "{message}");
        let problem = from_json::<Outer>(b"{\"rules\":[").unwrap_err();
        assert!(problem.message().contains("not JSON"));
        let problem = from_json::<Outer>(br#"{"rules":[{}]}"#).unwrap_err();
        assert_eq!(problem.message(), "rules[0].rate: is required");
    }

    #[test]
    fn each_field_with_u0000_is_named() {
        let body = br#"{"name":"a\u0000","list":[1,{"k\u0000":"b\\u0000"}],"plain":"\\u0000"}"#;
        let problem = without_nul(body).unwrap_err();
        let issues = format!("{problem:?}");
        for path in [r#"[String("name")]"#, r#"Number(1), String("k\0")]"#] {
            assert!(issues.contains(path), "{issues}");
        }
        assert!(without_nul(br#"{"plain":"\\u0000"}"#).is_ok());
    }

    #[test]
    fn unknown_parameters_are_named() {
        let problem = Params::parse("limit=1&usrId=2").only(&[param("limit", "integer", "")]);
        assert!(problem.unwrap_err().message().starts_with("usrId"));
    }
}
