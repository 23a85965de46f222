//! *API request*: the request that returns the rows of a page, as code.
//!
//! Names, filters and ids are untrusted, so each value is quoted for its language: a value cannot end its string, and a shell
//! expands nothing in it.

use std::fmt::Write as _;

use crate::markup::{Html, encode, is_hidden};

/// A GET request of the API.
#[derive(Clone, Debug)]
pub struct ApiRequest {
    /// How the response differs from the page; empty if it does not.
    note: &'static str,
    address: String,
    parameters: Vec<(&'static str, String)>,
}

impl ApiRequest {
    /// A request of this path on the server at `origin`.
    #[must_use]
    pub fn new(origin: &str, path: &str) -> Self {
        Self { note: "", address: format!("{origin}{path}"), parameters: Vec::new() }
    }

    /// Adds a query parameter. Names can repeat.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.parameters.push((name, value.into()));
        self
    }

    /// Sets a sentence about how the response differs from the page.
    #[must_use]
    pub fn with_note(mut self, note: &'static str) -> Self {
        self.note = note;
        self
    }

    /// How the response differs from the page; empty if it does not.
    #[must_use]
    pub const fn note(&self) -> &'static str {
        self.note
    }

    /// The `filter` parameter with invisible characters escaped.
    #[must_use]
    pub fn conditions(&self) -> Option<Html> {
        let mut sent = self.parameters.iter();
        let (_, filter) = sent.find(|(name, _)| *name == "filter")?;
        let mut shown = String::with_capacity(filter.len());
        for c in filter.chars() {
            push_visible(&mut shown, c);
        }
        Some(Html::text(&shown))
    }

    /// The request in each language.
    #[must_use]
    pub fn forms(&self) -> [(&'static str, Html); 3] {
        [("curl", self.curl()), ("Python", self.python()), ("TypeScript", self.typescript())]
            .map(|(language, code)| (language, Html::text(&code)))
    }

    fn curl(&self) -> String {
        let mut code = r#"curl -G -u "$PUBLIC_KEY:$SECRET_KEY""#.to_owned();
        for (name, value) in &self.parameters {
            // Terminals can interpret pasted control characters, and arguments cannot contain NUL.
            let parameter = match value.chars().any(|c| c.is_control() || is_hidden(c)) {
                false => format!("--data-urlencode {}", shell(&format!("{name}={value}"))),
                true => format!("-d {}", shell(&format!("{name}={}", encode(value)))),
            };
            let _ = write!(code, " \\\n  {parameter}");
        }
        let _ = write!(code, " \\\n  {}", shell(&self.address));
        code
    }

    fn python(&self) -> String {
        let mut code = format!(
            "import os\n\nimport requests\n\nanswer = requests.get(\n    {},\n    \
             auth=(os.environ[\"PUBLIC_KEY\"], os.environ[\"SECRET_KEY\"]),\n",
            literal(&self.address)
        );
        if !self.parameters.is_empty() {
            code.push_str("    params=[\n");
            for (name, value) in &self.parameters {
                let _ = writeln!(code, "        ({}, {}),", literal(name), literal(value));
            }
            code.push_str("    ],\n");
        }
        code.push_str(")\nanswer.raise_for_status()\nprint(answer.json())");
        code
    }

    fn typescript(&self) -> String {
        let mut code = format!("const url = new URL({});\n", literal(&self.address));
        for (name, value) in &self.parameters {
            let (name, value) = (literal(name), literal(value));
            let _ = writeln!(code, "url.searchParams.append({name}, {value});");
        }
        code.push_str(
            "const keys = btoa(`${process.env.PUBLIC_KEY}:${process.env.SECRET_KEY}`);\n\
             const answer = await fetch(url, { headers: { authorization: `Basic ${keys}` } });\n\
             if (!answer.ok) throw new Error(await answer.text());\n\
             console.log(await answer.json());",
        );
        code
    }
}

/// Quotes a word for a POSIX shell.
fn shell(raw: &str) -> String {
    format!("'{}'", raw.replace('\'', r"'\''"))
}

/// A string literal for Python and TypeScript: a JSON string with invisible characters escaped.
fn literal(raw: &str) -> String {
    let mut out = String::with_capacity(raw.len() + 2);
    out.push('"');
    for c in raw.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            c => push_visible(&mut out, c),
        }
    }
    out.push('"');
    out
}

/// Appends a character of a JSON string, escaped if it is invisible.
fn push_visible(out: &mut String, c: char) {
    if !(c.is_control() || is_hidden(c) || matches!(c, '\u{2028}' | '\u{2029}')) {
        out.push(c);
        return;
    }
    // Tag characters are encoded as surrogate pairs.
    for unit in &*c.encode_utf16(&mut [0; 2]) {
        let _ = write!(out, "\\u{unit:04x}");
    }
}

#[cfg(test)]
mod tests {
    use percent_encoding::percent_decode_str;
    use proptest::prelude::*;

    use super::*;

    /// Splits a command like a POSIX shell. `None` if the shell would expand anything but the keys.
    fn words(command: &str) -> Option<Vec<String>> {
        let command = command.replace(r#""$PUBLIC_KEY:$SECRET_KEY""#, "KEYS");
        let mut words = vec![String::new()];
        let mut rest = command.as_str();
        while let Some(c) = rest.chars().next() {
            let word = words.last_mut()?;
            let taken = match c {
                '\'' => {
                    let inner = rest[1..].split('\'').next()?;
                    word.push_str(inner);
                    inner.len() + 2
                }
                '\\' if rest.starts_with("\\\n") => 2,
                '\\' => {
                    let next = rest[1..].chars().next()?;
                    word.push(next);
                    1 + next.len_utf8()
                }
                ' ' => {
                    words.push(String::new());
                    1
                }
                c if c.is_ascii_alphanumeric() || matches!(c, '-' | ':' | '/' | '.') => {
                    word.push(c);
                    1
                }
                _ => return None,
            };
            rest = rest.get(taken..)?;
        }
        words.retain(|word| !word.is_empty());
        Some(words)
    }

    /// The query parameters and the URL that curl sends.
    fn sent(command: &str) -> Option<(Vec<(String, String)>, String)> {
        let words = words(command)?;
        let [curl, get, user, _, parameters @ .., address] = words.as_slice() else {
            return None;
        };
        assert_eq!([curl, get, user], ["curl", "-G", "-u"]);
        let parameters = parameters.chunks(2).map(|pair| {
            let (name, value) = pair[1].split_once('=')?;
            let value = match pair[0].as_str() {
                "--data-urlencode" => value.to_owned(),
                "-d" => percent_decode_str(value).decode_utf8().ok()?.into_owned(),
                _ => return None,
            };
            Some((name.to_owned(), value))
        });
        Some((parameters.collect::<Option<_>>()?, address.clone()))
    }

    #[test]
    fn shell_commands_in_names_are_not_executed() {
        let name = "score.x$(touch /tmp/pwned)`id`'; id #\".desc";
        let request = ApiRequest::new("http://localhost:4717", "/api/public/traces")
            .with("limit", "25")
            .with("orderBy", name);
        let expected = r#"curl -G -u "$PUBLIC_KEY:$SECRET_KEY" \
  --data-urlencode 'limit=25' \
  --data-urlencode 'orderBy=score.x$(touch /tmp/pwned)`id`'\''; id #".desc' \
  'http://localhost:4717/api/public/traces'"#;
        assert_eq!(request.curl(), expected);
        assert!(
            request
                .python()
                .contains(r#"("orderBy", "score.x$(touch /tmp/pwned)`id`'; id #\".desc"),"#)
        );
        assert!(request.typescript().contains(
            r#"url.searchParams.append("orderBy", "score.x$(touch /tmp/pwned)`id`'; id #\".desc");"#
        ));
        assert!(!ApiRequest::new("http://h", "/p").python().contains("params"));
    }

    #[test]
    fn conditions_show_all_characters_of_the_sent_filter() {
        let filter =
            serde_json::json!([{ "column": "name", "value": "a<b>\u{202e}\u{7f}\u{e0041}" }]);
        let request = ApiRequest::new("http://h", "/p").with("limit", "25");
        assert!(request.conditions().is_none());
        let shown = request.with("filter", filter.to_string()).conditions();
        let shown = shown.unwrap().to_string();
        assert!(shown.contains("\\u202e\\u007f\\udb40\\udc41"), "{shown}");
        assert!(!shown.contains("<b>"), "{shown}");
        let json = shown.replace("&#60;", "<").replace("&#62;", ">");
        let json = json.replace("&#34;", "\"").replace("&lt;", "<");
        let json = json.replace("&gt;", ">").replace("&quot;", "\"");
        let read: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(read, filter);
    }

    #[test]
    fn invisible_characters_are_escaped() {
        let request = ApiRequest::new("http://h", "/p").with("name", "a\0\u{1b}[2J\u{202e}\r\n");
        for (language, code) in request.forms() {
            let shown = code.to_string();
            let is_visible = |c: char| c == '\n' || !(c.is_control() || is_hidden(c));
            assert!(shown.chars().all(is_visible), "{language}: {shown}");
        }
        let curl = request.curl();
        assert!(curl.contains("-d 'name=a%00%1B%5B2J%E2%80%AE%0D%0A'"), "{curl}");
    }

    proptest! {
        #[test]
        fn any_value_round_trips_in_each_language(value in any::<String>(), path in "[/a-z'$`\"% ]{0,20}") {
            let literal = literal(&value);
            prop_assert_eq!(serde_json::from_str::<String>(&literal).unwrap(), value.clone());
            let request = ApiRequest::new("http://h", &path).with("a", value.clone()).with("b", "c");
            let expected = vec![("a".to_owned(), value), ("b".to_owned(), "c".to_owned())];
            prop_assert_eq!(sent(&request.curl()), Some((expected, format!("http://h{path}"))));
            prop_assert!(request.python().contains(&literal));
            prop_assert!(request.typescript().contains(&literal));
        }

        #[test]
        fn any_text_is_one_shell_word(raw in "[^\0]*") {
            let inner = shell(&raw);
            prop_assert_eq!(words(&format!("{inner}x")), Some(vec![format!("{raw}x")]));
        }
    }
}
