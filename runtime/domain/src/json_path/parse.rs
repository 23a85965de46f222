//! The grammar of RFC 9535.

use serde_json::{Number, Value};

use super::{Comparable, Comparison, JsonPath, Logical, Pattern, Query, Segment, Selector};

/// Bytes of a path.
pub const MAX_PATH_BYTES: usize = 2_000;
/// Filters, parentheses and function calls inside each other.
const MAX_DEPTH: usize = 16;
/// Bytes of a compiled pattern, at most, and the steps that such a pattern takes for each byte of a text.
const PATTERN_SIZES: [(usize, usize); 3] = [(16 << 10, 1), (64 << 10, 4), (256 << 10, 16)];
/// Memory of a search.
const CACHE_BYTES: usize = 256 << 10;
/// Integers are exact in a double.
const MAX_INTEGER: i64 = (1 << 53) - 1;

/// An invalid path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{path}` is not a JSONPath (RFC 9535): {problem} at byte {at}")]
pub struct InvalidPath {
    path: String,
    problem: String,
    at: usize,
}

/// A problem and its place.
type Fault = (usize, String);

impl JsonPath {
    /// Reads a path.
    ///
    /// # Errors
    /// [`InvalidPath`], with the place where reading stopped.
    pub fn parse(text: &str) -> Result<Self, InvalidPath> {
        if MAX_PATH_BYTES < text.len() {
            return Err(InvalidPath {
                path: text.chars().take(40).chain(['…']).collect(),
                problem: format!("at most {MAX_PATH_BYTES} bytes are allowed"),
                at: MAX_PATH_BYTES,
            });
        }
        let mut parser = Parser { text, at: 0, depth: 0 };
        let read = parser.whole();
        let query =
            read.map_err(|(at, problem)| InvalidPath { path: text.to_owned(), problem, at })?;
        Ok(Self { text: text.to_owned(), query })
    }
}

struct Parser<'t> {
    text: &'t str,
    at: usize,
    depth: usize,
}

/// The result type of a function expression.
enum FunctionResult {
    Logical(Logical),
    Value(Comparable),
}

const fn starts_name(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_' || !c.is_ascii()
}

impl Parser<'_> {
    fn whole(&mut self) -> Result<Query, Fault> {
        if !self.take("$") {
            return self.fault("a path begins with `$`");
        }
        let segments = self.segments()?;
        match self.rest().is_empty() {
            true => Ok(Query { is_absolute: true, segments }),
            false => self.fault("a segment is expected, such as `.name`, `['name']` or `[0]`"),
        }
    }

    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn take(&mut self, expected: &str) -> bool {
        let found = self.rest().starts_with(expected);
        if found {
            self.at += expected.len();
        }
        found
    }

    fn expect(&mut self, expected: &str) -> Result<(), Fault> {
        match self.take(expected) {
            true => Ok(()),
            false => self.fault(format!("`{expected}` is expected")),
        }
    }

    fn fault<T>(&self, problem: impl Into<String>) -> Result<T, Fault> {
        Err((self.at, problem.into()))
    }

    fn blanks(&mut self) {
        let rest = self.rest();
        let n = rest.len() - rest.trim_start_matches([' ', '\t', '\n', '\r']).len();
        self.at += n;
    }

    /// Reads something that may hold another of its kind.
    fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T, Fault>) -> Result<T, Fault> {
        self.depth += 1;
        if MAX_DEPTH < self.depth {
            return self.fault(format!("at most {MAX_DEPTH} levels of nesting are allowed"));
        }
        let result = read(self)?;
        self.depth -= 1;
        Ok(result)
    }

    /// Any number of segments, with blanks before each of them.
    fn segments(&mut self) -> Result<Vec<Segment>, Fault> {
        let mut segments = Vec::new();
        loop {
            let before = self.at;
            self.blanks();
            let is_descendant = self.take("..");
            if self.take("[") {
                let selectors = self.selectors()?;
                segments.push(Segment { is_descendant, selectors });
                continue;
            }
            if !is_descendant && !self.take(".") {
                self.at = before;
                return Ok(segments);
            }
            let selector = match self.take("*") {
                true => Selector::Wildcard,
                false => Selector::Name(self.shorthand()?),
            };
            segments.push(Segment { is_descendant, selectors: vec![selector] });
        }
    }

    fn shorthand(&mut self) -> Result<String, Fault> {
        let rest = self.rest();
        if !rest.starts_with(starts_name) {
            return self.fault("a name or `*` is expected");
        }
        let end = rest.find(|c: char| !starts_name(c) && !c.is_ascii_digit());
        let name = rest.get(..end.unwrap_or(rest.len())).unwrap_or_default();
        let name = name.to_owned();
        self.at += name.len();
        Ok(name)
    }

    /// After `[`, up to and with `]`.
    fn selectors(&mut self) -> Result<Vec<Selector>, Fault> {
        let mut selectors = Vec::new();
        loop {
            self.blanks();
            selectors.push(self.selector()?);
            self.blanks();
            if self.take("]") {
                return Ok(selectors);
            }
            self.expect(",")?;
        }
    }

    fn selector(&mut self) -> Result<Selector, Fault> {
        match self.peek() {
            Some('*') => {
                self.at += 1;
                Ok(Selector::Wildcard)
            }
            Some('?') => {
                self.at += 1;
                self.blanks();
                Ok(Selector::Filter(self.nested(Self::or)?))
            }
            Some('\'' | '"') => Ok(Selector::Name(self.string()?)),
            _ => self.index_or_slice(),
        }
    }

    fn index_or_slice(&mut self) -> Result<Selector, Fault> {
        let start = self.integer()?;
        let before = self.at;
        self.blanks();
        if !self.take(":") {
            self.at = before;
            let expected = "a name in quotes, an index, a slice, `*` or `?` is expected";
            return start.map_or_else(|| self.fault(expected), |index| Ok(Selector::Index(index)));
        }
        self.blanks();
        let end = self.integer()?;
        let before = self.at;
        self.blanks();
        let mut step = None;
        if self.take(":") {
            let before = self.at;
            self.blanks();
            step = self.integer()?;
            if step.is_none() {
                self.at = before;
            }
        } else {
            self.at = before;
        }
        Ok(Selector::Slice { start, end, step: step.unwrap_or(1) })
    }

    /// An integer without leading zeros, where there is one.
    fn integer(&mut self) -> Result<Option<i64>, Fault> {
        let rest = self.rest();
        let digits = rest.strip_prefix('-').unwrap_or(rest);
        let n_digits = digits.len() - digits.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let length = rest.len() - digits.len() + n_digits;
        let text = rest.get(..length).unwrap_or_default();
        if text.is_empty() {
            return Ok(None);
        }
        let is_plain = n_digits == 1 || !digits.starts_with('0');
        let number = text.parse().ok().filter(|_| is_plain && text != "-0");
        match number.filter(|number: &i64| number.abs() <= MAX_INTEGER) {
            Some(number) => {
                self.at += length;
                Ok(Some(number))
            }
            None => {
                self.fault("an integer without leading zeros, of at most 2^53 - 1, is expected")
            }
        }
    }

    fn string(&mut self) -> Result<String, Fault> {
        let Some(quote) = self.peek().filter(|c| matches!(c, '\'' | '"')) else {
            return self.fault("a string is expected");
        };
        self.at += 1;
        let mut text = String::new();
        loop {
            let Some(c) = self.peek() else {
                return self.fault("the string has no end");
            };
            if u32::from(c) < 0x20 {
                return self.fault("a control character in a string is written with an escape");
            }
            self.at += c.len_utf8();
            match c {
                c if c == quote => return Ok(text),
                '\\' => text.push(self.escape(quote)?),
                c => text.push(c),
            }
        }
    }

    /// After the backslash.
    fn escape(&mut self, quote: char) -> Result<char, Fault> {
        let Some(c) = self.peek() else {
            return self.fault("the string has no end");
        };
        let escaped = match c {
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            '/' | '\\' => c,
            c if c == quote => c,
            'u' => {
                self.at += 1;
                let high = self.hex()?;
                if !(0xd800..0xe000).contains(&high) {
                    return self.character(high);
                }
                let low = match self.take("\\u") {
                    true => self.hex()?,
                    false => 0,
                };
                if !(0xd800..0xdc00).contains(&high) || !(0xdc00..0xe000).contains(&low) {
                    return self.fault("a surrogate without its other half");
                }
                return self.character(0x1_0000 + ((high - 0xd800) << 10) + (low - 0xdc00));
            }
            _ => return self.fault("not an escape"),
        };
        self.at += c.len_utf8();
        Ok(escaped)
    }

    fn character(&self, code: u32) -> Result<char, Fault> {
        char::from_u32(code).map_or_else(|| self.fault("not a character"), Ok)
    }

    fn hex(&mut self) -> Result<u32, Fault> {
        let digits = self.rest().get(..4);
        let digits = digits.filter(|text| text.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let code = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
        match code {
            Some(code) => {
                self.at += 4;
                Ok(code)
            }
            None => self.fault("four hexadecimal digits are expected"),
        }
    }

    fn or(&mut self) -> Result<Logical, Fault> {
        let mut parts = vec![self.and()?];
        while self.joined("||") {
            parts.push(self.and()?);
        }
        Ok(only(parts, Logical::Or))
    }

    fn and(&mut self) -> Result<Logical, Fault> {
        let mut parts = vec![self.basic()?];
        while self.joined("&&") {
            parts.push(self.basic()?);
        }
        Ok(only(parts, Logical::And))
    }

    /// Whether an operator follows, optionally between blanks.
    fn joined(&mut self, operator: &str) -> bool {
        let before = self.at;
        self.blanks();
        let found = self.take(operator);
        match found {
            true => self.blanks(),
            false => self.at = before,
        }
        found
    }

    fn basic(&mut self) -> Result<Logical, Fault> {
        if self.take("!") {
            self.blanks();
            let inner = match self.peek() {
                Some('(') => self.parenthesis()?,
                Some('$' | '@') => Logical::Exists(self.query()?),
                _ => match self.function()? {
                    FunctionResult::Logical(logical) => logical,
                    FunctionResult::Value(_) => {
                        return self.fault("a truth value is expected after `!`");
                    }
                },
            };
            return Ok(Logical::Not(Box::new(inner)));
        }
        let begin = self.at;
        let left = match self.peek() {
            Some('(') => return self.parenthesis(),
            Some('$' | '@') => {
                let query = self.query()?;
                match self.comparison() {
                    None => return Ok(Logical::Exists(query)),
                    Some(comparison) => {
                        let left = self.node(query, begin)?;
                        return self.compared(left, comparison);
                    }
                }
            }
            Some(c) if c.is_ascii_lowercase() && !self.is_keyword() => match self.function()? {
                FunctionResult::Logical(logical) => return Ok(logical),
                FunctionResult::Value(value) => value,
            },
            _ => Comparable::Literal(self.literal()?),
        };
        match self.comparison() {
            Some(comparison) => self.compared(left, comparison),
            None => self.fault("a comparison is expected"),
        }
    }

    fn parenthesis(&mut self) -> Result<Logical, Fault> {
        self.expect("(")?;
        self.blanks();
        let inner = self.nested(Self::or)?;
        self.blanks();
        self.expect(")")?;
        Ok(inner)
    }

    fn query(&mut self) -> Result<Query, Fault> {
        let is_absolute = self.take("$");
        if !is_absolute {
            self.expect("@")?;
        }
        Ok(Query { is_absolute, segments: self.nested(Self::segments)? })
    }

    /// A query that is compared.
    fn node(&self, query: Query, begin: usize) -> Result<Comparable, Fault> {
        match query.is_singular() {
            true => Ok(Comparable::Node(query)),
            false => Err((begin, "a query that selects at most one node is expected".to_owned())),
        }
    }

    /// The operator, with blanks around it.
    fn comparison(&mut self) -> Option<Comparison> {
        let operators = [
            ("==", Comparison::Equal),
            ("!=", Comparison::NotEqual),
            ("<=", Comparison::LessOrEqual),
            (">=", Comparison::GreaterOrEqual),
            ("<", Comparison::Less),
            (">", Comparison::Greater),
        ];
        let found = operators.iter().find(|(text, _)| self.joined(text));
        found.map(|(_, comparison)| *comparison)
    }

    fn compared(&mut self, left: Comparable, comparison: Comparison) -> Result<Logical, Fault> {
        Ok(Logical::Compare(left, comparison, self.comparable()?))
    }

    fn comparable(&mut self) -> Result<Comparable, Fault> {
        let begin = self.at;
        match self.peek() {
            Some('$' | '@') => {
                let query = self.query()?;
                self.node(query, begin)
            }
            Some(c) if c.is_ascii_lowercase() && !self.is_keyword() => match self.function()? {
                FunctionResult::Value(value) => Ok(value),
                FunctionResult::Logical(_) => {
                    Err((begin, "a truth value cannot be compared".to_owned()))
                }
            },
            _ => Ok(Comparable::Literal(self.literal()?)),
        }
    }

    fn is_keyword(&self) -> bool {
        let rest = self.rest();
        let end = rest.find(|c: char| !c.is_ascii_lowercase() && c != '_' && !c.is_ascii_digit());
        let word = rest.get(..end.unwrap_or(rest.len()));
        matches!(word, Some("true" | "false" | "null"))
    }

    fn literal(&mut self) -> Result<Value, Fault> {
        for (text, value) in
            [("true", Value::Bool(true)), ("false", Value::Bool(false)), ("null", Value::Null)]
        {
            if self.take(text) {
                return Ok(value);
            }
        }
        match self.peek() {
            Some('\'' | '"') => Ok(Value::String(self.string()?)),
            Some('-' | '0'..='9') => self.number(),
            _ => self.fault("a literal, a query or a function is expected"),
        }
    }

    fn number(&mut self) -> Result<Value, Fault> {
        let rest = self.rest();
        let is_part = |c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.' | 'e' | 'E');
        let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        let text = rest.get(..end).unwrap_or_default();
        // The numbers of JSON are those of the RFC.
        match serde_json::from_str::<Number>(text) {
            Ok(number) => {
                self.at += end;
                Ok(Value::Number(number))
            }
            Err(_) => self.fault("a number is expected"),
        }
    }

    fn function(&mut self) -> Result<FunctionResult, Fault> {
        let name = ["length", "count", "value", "match", "search"].into_iter().find(|name| {
            let rest = self.rest().strip_prefix(name);
            rest.is_some_and(|rest| rest.starts_with('('))
        });
        let Some(name) = name else {
            return self
                .fault("one of the functions length, count, value, match, search is expected");
        };
        self.at += name.len() + 1;
        self.blanks();
        let called = self.nested(|parser| parser.arguments(name))?;
        self.blanks();
        self.expect(")")?;
        Ok(called)
    }

    fn arguments(&mut self, name: &str) -> Result<FunctionResult, Fault> {
        Ok(match name {
            "length" => FunctionResult::Value(Comparable::Length(Box::new(self.comparable()?))),
            "count" => FunctionResult::Value(Comparable::Count(self.query()?)),
            "value" => FunctionResult::Value(Comparable::ValueOf(self.query()?)),
            _ => {
                let text = self.comparable()?;
                self.blanks();
                self.expect(",")?;
                self.blanks();
                if !matches!(self.peek(), Some('\'' | '"')) {
                    return self.fault("the pattern must be a string in quotes");
                }
                let begin = self.at;
                let pattern = self.string()?;
                let whole = match name {
                    "match" => format!("^(?:{pattern})$"),
                    _ => pattern,
                };
                let compiled = compiled(&whole);
                let pattern = compiled.map_err(|problem| (begin, problem.to_owned()))?;
                FunctionResult::Logical(Logical::Matches { text, pattern })
            }
        })
    }
}

/// `None` for an invalid pattern.
fn compiled(pattern: &str) -> Result<Option<Pattern>, &'static str> {
    for (max_size, steps_per_byte) in PATTERN_SIZES {
        // A dot is any character except a line break, of which there are two.
        let built = regex::RegexBuilder::new(pattern)
            .crlf(true)
            .size_limit(max_size)
            .dfa_size_limit(CACHE_BYTES)
            .build();
        match built {
            Ok(regex) => {
                return Ok(Some(Pattern { regex, steps_per_byte }));
            }
            Err(regex::Error::CompiledTooBig(_)) => {}
            Err(_) => return Ok(None),
        }
    }
    Err("the pattern is too large")
}

fn only(mut parts: Vec<Logical>, all: fn(Vec<Logical>) -> Logical) -> Logical {
    match parts.pop() {
        Some(last) if parts.is_empty() => last,
        last => {
            parts.extend(last);
            all(parts)
        }
    }
}
