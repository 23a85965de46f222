//! Filters: `ATTRIBUTE eq "VALUE"`, with which identity providers look up users.

/// A parsed filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum UserFilter {
    /// By user name, in lower case.
    UserName(String),
    /// By id.
    Id(String),
}

const HELP: &str = "must be userName eq \"VALUE\" or id eq \"VALUE\"";

impl UserFilter {
    /// Parses a filter. Attributes and operators are case-insensitive, values are JSON strings.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let refused = || HELP.to_owned();
        let (attribute, rest) = text.trim().split_once(' ').ok_or_else(refused)?;
        let (operator, value) = rest.trim_start().split_once(' ').ok_or_else(refused)?;
        if !operator.eq_ignore_ascii_case("eq") {
            return Err(refused());
        }
        let value: String = serde_json::from_str(value.trim()).map_err(|_| refused())?;
        match attribute.to_ascii_lowercase().as_str() {
            "username" => Ok(Self::UserName(value.to_lowercase())),
            "id" => Ok(Self::Id(value)),
            _ => Err(refused()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_parsed_case_insensitively() {
        let ada = Ok(UserFilter::UserName("ada@example.com".to_owned()));
        for text in ["userName eq \"ada@example.com\"", " USERNAME EQ  \"Ada@Example.com\" "] {
            assert_eq!(UserFilter::parse(text), ada, "{text}");
        }
        let quoted = UserFilter::parse(r#"id eq "a \"b\" c""#);
        assert_eq!(quoted, Ok(UserFilter::Id("a \"b\" c".to_owned())));
    }

    #[test]
    fn other_filters_are_refused_with_the_expected_form() {
        for text in [
            "",
            "userName",
            "userName eq",
            "userName eq ada",
            "userName co \"ada\"",
            "userName eq \"a\" or id eq \"b\"",
            "title eq \"x\"",
        ] {
            assert!(UserFilter::parse(text).unwrap_err().contains("userName eq"), "{text}");
        }
    }
}
