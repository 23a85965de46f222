//! Lenient JSON: walked in place, parsed into a borrowed tree, or copied without a tree.
//!
//! Strict parsers reject an escaped lone surrogate, which `JSON.stringify` produces, and deep nesting that otlp.md truncates
//! (2.2, 6.3).
//!
//! A request body is never parsed into a tree: [`Raw`] finds its parts in the bytes. Trees are built only of JSON in the text
//! of an attribute, with at most [`MAX_NODES`] values.

mod extents;
mod node;

use std::borrow::Cow;

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use base64::engine::{DecodePaddingMode, general_purpose};
use perpend_domain::payload::Payload;
use perpend_domain::text::{of_units, without_nul};
use serde_json::{Map, Value as Json};

use crate::DecodeError;
use crate::limits::{MAX_DEPTH, MAX_NODES};
use extents::Extents;
pub(crate) use node::Node;

/// A checked request body.
#[derive(Debug)]
pub(crate) struct Body<'a> {
    /// Its value.
    bytes: &'a [u8],
    /// Start of the value.
    start: usize,
    extents: Extents,
}

impl<'a> Body<'a> {
    /// Lenient about control characters, deep enough for any legal attribute value.
    pub(crate) fn check(bytes: &'a [u8]) -> Result<Self> {
        // Each level of an attribute value takes four levels of OTLP/JSON.
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        let mut reader = Reader::of_body(bytes, 5 * MAX_DEPTH + 16);
        let mut extents = Extents::new();
        reader.skip_blanks();
        let start = reader.at;
        reader.check_value(0, &mut extents)?;
        let bytes = &bytes[start..reader.at];
        reader.skip_blanks();
        match reader.peek() {
            None => Ok(Self { bytes, start, extents }),
            Some(_) => reader.error("more text after the value"),
        }
    }

    pub(crate) const fn root(&self) -> Raw<'_> {
        Raw { bytes: self.bytes, offset: self.start, extents: &self.extents }
    }

    /// Memory of the index of its large values.
    pub(crate) const fn index_memory(&self) -> usize {
        self.extents.memory()
    }
}

/// A value of a checked body: where it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Raw<'a> {
    bytes: &'a [u8],
    /// Start in the body.
    offset: usize,
    extents: &'a Extents,
}

impl<'a> Raw<'a> {
    /// Bytes that it was sent in.
    pub(crate) const fn len(self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn is_null(self) -> bool {
        self.bytes == b"null"
    }

    pub(crate) fn is_object(self) -> bool {
        self.bytes.first() == Some(&b'{')
    }

    /// The last members of these names; none when this is not an object.
    pub(crate) fn object<const N: usize>(self, names: [&str; N]) -> Option<[Option<Self>; N]> {
        let mut found = [None; N];
        // The body was checked: an error ends the walk early, and cannot happen.
        let _walked = self.reader().each_member(|reader, key| {
            let value = reader.raw()?;
            if let Some(at) = names.iter().position(|name| *name == key) {
                found[at] = Some(value);
            }
            Ok(())
        });
        self.is_object().then_some(found)
    }

    /// The elements; none when this is not an array.
    pub(crate) fn elements(self) -> Option<Elements<'a>> {
        let mut reader = self.reader();
        reader.accept(b'[').then_some(Elements(Some(reader)))
    }

    pub(crate) fn text(self) -> Option<Cow<'a, str>> {
        match self.bytes.first() {
            Some(b'"') => self.reader().string().ok(),
            _ => None,
        }
    }

    /// The number as written.
    pub(crate) fn number(self) -> Option<&'a str> {
        match self.bytes.first() {
            Some(b'-' | b'0'..=b'9') => str::from_utf8(self.bytes).ok(),
            _ => None,
        }
    }

    pub(crate) fn truth(self) -> Option<bool> {
        match self.bytes {
            b"true" => Some(true),
            b"false" => Some(false),
            _ => None,
        }
    }

    /// Walks over the members of the value.
    pub(crate) const fn reader(self) -> Reader<'a> {
        Reader { offset: self.offset, extents: self.extents, ..Reader::of_body(self.bytes, 0) }
    }
}

/// The elements of an array, found one after the other.
pub(crate) struct Elements<'a>(Option<Reader<'a>>);

impl Elements<'_> {
    /// Those of an array that is absent.
    pub(crate) const NONE: Self = Self(None);
}

impl<'a> Iterator for Elements<'a> {
    type Item = Raw<'a>;

    fn next(&mut self) -> Option<Raw<'a>> {
        let reader = self.0.as_mut()?;
        reader.skip_blanks();
        let _comma = reader.accept(b',');
        reader.skip_blanks();
        if reader.peek() == Some(b']') {
            return None;
        }
        reader.raw().ok()
    }
}

/// Reads JSON held as text; none when it is not JSON, or more values than a tree may have. Parts deeper
/// than the limit are null.
pub(crate) fn parse(text: &str) -> Option<Node<'_>> {
    Reader::of_text(text).document().ok()
}

/// Names of members that are looked for have up to 22 characters, each of which may be escaped.
const MAX_KEY_BYTES: usize = 256;

/// An upper bound of the number of values in a text, without parsing it.
pub(crate) fn n_values(text: &str) -> usize {
    let mut reader = Reader::of_text(text);
    let mut n_values = 1;
    while let Some(byte) = reader.peek() {
        match byte {
            // Broken JSON has no tree.
            b'"' if reader.skip_string().is_err() => return 1,
            b'"' => {}
            _ => {
                n_values += usize::from(matches!(byte, b',' | b'[' | b'{'));
                reader.at += 1;
            }
        }
    }
    n_values
}

/// The JSON text held in `text`, compact, with what cannot be stored repaired; none when it is not JSON.
pub(crate) fn compact(text: &str) -> Option<String> {
    let mut reader = Reader::of_text(text);
    let mut out = String::with_capacity(text.len());
    reader.skip_blanks();
    reader.copy_value(0, &mut out).ok()?;
    reader.skip_blanks();
    (reader.at == reader.bytes.len()).then_some(out)
}

/// Whether text may be an object or array.
pub(crate) fn looks_structured(text: &str) -> bool {
    text.trim_start().starts_with(['{', '['])
}

/// The default rule for content (otlp.md 2.3): objects and arrays held as text become JSON.
pub(crate) fn payload(text: &str) -> Payload {
    if looks_structured(text)
        && let Some(json) = compact(text)
    {
        return Payload::Json(json);
    }
    Payload::Text(text.to_owned())
}

/// The rule for JSON-any keys: whatever JSON is held as text, a quoted string or a number too.
pub(crate) fn payload_any(text: &str) -> Payload {
    if text.trim_start().starts_with('"')
        && let Some(Node::Text(inner)) = parse(text)
    {
        return Payload::Text(inner.into_owned());
    }
    compact(text).map_or_else(|| Payload::Text(text.to_owned()), Payload::Json)
}

/// The default rule, as a tree.
pub(crate) fn value(text: &str) -> Json {
    let parsed = looks_structured(text).then(|| parse(text)).flatten();
    parsed.map_or_else(|| Json::String(text.to_owned()), |node| node.to_json())
}

/// The JSON-any rule, as a tree.
pub(crate) fn value_any(text: &str) -> Json {
    parse(text).map_or_else(|| Json::String(text.to_owned()), |node| node.to_json())
}

/// A JSON object held as text; none for anything else.
pub(crate) fn object(text: &str) -> Option<Map<String, Json>> {
    match parse(text)?.to_json() {
        Json::Object(members) => Some(members),
        _ => None,
    }
}

/// Standard base64 with padding.
pub(crate) fn base64_of(bytes: &[u8]) -> String {
    general_purpose::STANDARD.encode(bytes)
}

/// Reads standard or URL-safe base64, padded or not.
pub(crate) fn from_base64(text: &str) -> Option<Vec<u8>> {
    const LENIENT: GeneralPurpose = GeneralPurpose::new(
        &STANDARD,
        GeneralPurposeConfig::new()
            .with_decode_allow_trailing_bits(true)
            .with_decode_padding_mode(DecodePaddingMode::Indifferent),
    );
    if text.contains(['-', '_']) {
        return LENIENT.decode(text.replace('-', "+").replace('_', "/")).ok();
    }
    LENIENT.decode(text).ok()
}

/// Moves over JSON from its start to its end.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    /// The same, where it is known to be UTF-8.
    text: Option<&'a str>,
    at: usize,
    max_depth: usize,
    /// Values that a tree may still have.
    n_left: usize,
    /// Control characters inside strings are an error, as JSON has it.
    is_strict: bool,
    /// The offset in the body, and the ends of large values.
    offset: usize,
    extents: &'a Extents,
}

/// Of a text without an index.
static NO_EXTENTS: Extents = Extents::new();

type Result<T> = std::result::Result<T, DecodeError>;

impl<'a> Reader<'a> {
    /// Of a request body: lenient about control characters and invalid UTF-8.
    const fn of_body(bytes: &'a [u8], max_depth: usize) -> Self {
        Self {
            bytes,
            text: None,
            at: 0,
            max_depth,
            n_left: 0,
            is_strict: false,
            offset: 0,
            extents: &NO_EXTENTS,
        }
    }

    /// Of JSON held as text, by the book.
    const fn of_text(text: &'a str) -> Self {
        Self {
            bytes: text.as_bytes(),
            text: Some(text),
            at: 0,
            max_depth: MAX_DEPTH,
            n_left: MAX_NODES,
            is_strict: true,
            offset: 0,
            extents: &NO_EXTENTS,
        }
    }

    const fn error<T>(&self, reason: &'static str) -> Result<T> {
        Err(DecodeError::Json { reason, at: self.at })
    }

    fn document(mut self) -> Result<Node<'a>> {
        self.skip_blanks();
        let node = self.value(0)?;
        self.skip_blanks();
        if self.at == self.bytes.len() { Ok(node) } else { self.error("more text after the value") }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn skip_blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn accept(&mut self, byte: u8) -> bool {
        let is_next = self.peek() == Some(byte);
        self.at += usize::from(is_next);
        is_next
    }

    fn value(&mut self, depth: usize) -> Result<Node<'a>> {
        let Some(n_left) = self.n_left.checked_sub(1) else {
            return self.error("too many values");
        };
        self.n_left = n_left;
        match self.peek() {
            Some(b'{' | b'[') if depth >= self.max_depth => {
                self.skip_nested()?;
                Ok(Node::Null)
            }
            Some(b'{') => {
                let mut members = Vec::new();
                self.members(|reader| {
                    let key = reader.string()?;
                    reader.colon()?;
                    members.push((key, reader.value(depth + 1)?));
                    Ok(())
                })?;
                Ok(Node::Object(members))
            }
            Some(b'[') => {
                let mut items = Vec::new();
                self.members(|reader| {
                    items.push(reader.value(depth + 1)?);
                    Ok(())
                })?;
                Ok(Node::Array(items))
            }
            Some(b'"') => self.string().map(Node::Text),
            Some(b'-' | b'0'..=b'9') => self.number().map(Node::Number),
            _ => self.word(),
        }
    }

    /// The items between two brackets, or the members between two braces.
    fn members(&mut self, mut one: impl FnMut(&mut Self) -> Result<()>) -> Result<()> {
        let close = if self.peek() == Some(b'{') { b'}' } else { b']' };
        self.at += 1;
        self.skip_blanks();
        if self.accept(close) {
            return Ok(());
        }
        loop {
            self.skip_blanks();
            one(self)?;
            self.skip_blanks();
            if self.accept(close) {
                return Ok(());
            }
            if !self.accept(b',') {
                return self.error("a comma or a closing bracket is missing");
            }
        }
    }

    fn colon(&mut self) -> Result<()> {
        self.skip_blanks();
        if !self.accept(b':') {
            return self.error("a colon is missing");
        }
        self.skip_blanks();
        Ok(())
    }

    fn word(&mut self) -> Result<Node<'a>> {
        let rest = &self.bytes[self.at..];
        let words: [(&[u8], Node<'a>); 3] =
            [(b"null", Node::Null), (b"true", Node::Bool(true)), (b"false", Node::Bool(false))];
        for (word, node) in words {
            if rest.starts_with(word) {
                self.at += word.len();
                return Ok(node);
            }
        }
        self.error("a value is missing")
    }

    fn digits(&mut self) -> Result<()> {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        if start == self.at {
            return self.error("a digit is missing");
        }
        Ok(())
    }

    fn number(&mut self) -> Result<&'a str> {
        let start = self.at;
        self.accept(b'-');
        if self.accept(b'0') {
            if matches!(self.peek(), Some(b'0'..=b'9')) {
                return self.error("a number begins with 0");
            }
        } else {
            self.digits()?;
        }
        if self.accept(b'.') {
            self.digits()?;
        }
        if self.accept(b'e') || self.accept(b'E') {
            let _sign = self.accept(b'+') || self.accept(b'-');
            self.digits()?;
        }
        let text = str::from_utf8(&self.bytes[start..self.at]).unwrap_or_default();
        // Numbers too large for a double are not JSON to most readers.
        if text.len() > 300 || text.contains(['e', 'E']) {
            let is_finite = text.parse::<f64>().is_ok_and(f64::is_finite);
            if !is_finite {
                return self.error("a number is too large");
            }
        }
        Ok(text)
    }

    /// The text from `start` to the current position.
    fn since(&self, start: usize) -> Cow<'a, str> {
        match self.text {
            // Strings begin and end at ASCII characters, so this never cuts one.
            Some(text) => Cow::Borrowed(text.get(start..self.at).unwrap_or_default()),
            None => String::from_utf8_lossy(&self.bytes[start..self.at]),
        }
    }

    /// Moves over plain characters and returns the special one that ended them, not consumed.
    fn plain(&mut self) -> Result<u8> {
        while let Some(word) = self.bytes.get(self.at..).and_then(<[u8]>::first_chunk) {
            if has_special(u64::from_le_bytes(*word)) {
                break;
            }
            self.at += 8;
        }
        while let Some(byte) = self.peek() {
            if byte == b'"' || byte == b'\\' {
                return Ok(byte);
            }
            if byte < 0x20 && self.is_strict {
                return self.error("a control character in a string");
            }
            self.at += 1;
        }
        self.error("a string does not end")
    }

    fn string(&mut self) -> Result<Cow<'a, str>> {
        if !self.accept(b'"') {
            return self.error("a string is missing");
        }
        let start = self.at;
        if self.plain()? == b'"' {
            let text = self.since(start);
            self.at += 1;
            return Ok(without_nul(text));
        }
        let mut text = self.since(start).into_owned();
        loop {
            if self.accept(b'"') {
                return Ok(without_nul(Cow::Owned(text)));
            }
            let (character, _) = self.escape()?;
            text.extend(character.filter(|c| *c != '\0'));
            let start = self.at;
            self.plain()?;
            text.push_str(&self.since(start));
        }
    }

    /// One escape: its character, `None` for U+0000, and whether it was repaired.
    fn escape(&mut self) -> Result<(Option<char>, bool)> {
        #[cfg(test)]
        extents::N_ESCAPES.set(extents::N_ESCAPES.get() + 1);
        self.at += 1;
        let Some(byte) = self.peek() else {
            return self.error("a string does not end");
        };
        self.at += 1;
        let character = match byte {
            b'"' | b'\\' | b'/' => char::from(byte),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => return self.unicode_escape(),
            _ => return self.error("an unknown escape"),
        };
        Ok((Some(character), false))
    }

    fn unicode_escape(&mut self) -> Result<(Option<char>, bool)> {
        let first = self.hex()?;
        if first == 0 {
            return Ok((None, true));
        }
        if let Some(character) = of_units(first, None) {
            return Ok((Some(character), false));
        }
        if self.bytes[self.at..].starts_with(b"\\u") {
            let back = self.at;
            self.at += 2;
            let second = self.hex()?;
            if let Some(character) = of_units(first, Some(second)) {
                return Ok((Some(character), false));
            }
            self.at = back;
        }
        Ok((Some(char::REPLACEMENT_CHARACTER), true))
    }

    fn hex(&mut self) -> Result<u16> {
        let digits = self.bytes.get(self.at..self.at + 4);
        let value = digits.and_then(|digits| {
            digits.iter().try_fold(0_u16, |value, digit| {
                Some(value << 4 | char::from(*digit).to_digit(16)? as u16)
            })
        });
        let Some(value) = value else {
            return self.error("four hex digits are missing");
        };
        self.at += 4;
        Ok(value)
    }

    /// Moves over a value and checks it.
    fn check_value(&mut self, depth: usize, extents: &mut Extents) -> Result<()> {
        let entry = extents.begin(depth, self.at);
        match self.peek() {
            Some(b'{' | b'[') if depth >= self.max_depth => self.skip_nested(),
            Some(open @ (b'{' | b'[')) => self.members(|reader| {
                if open == b'{' {
                    let entry = extents.begin(depth, reader.at);
                    reader.skip_string()?;
                    extents.end(entry, reader.at);
                    reader.colon()?;
                }
                reader.check_value(depth + 1, extents)
            }),
            Some(b'"') => self.skip_string(),
            Some(b'-' | b'0'..=b'9') => self.number().map(|_| ()),
            _ => self.word().map(|_| ()),
        }?;
        extents.end(entry, self.at);
        Ok(())
    }

    /// Moves over a large value of the body, if one is next.
    fn jump(&mut self) -> bool {
        let end = self.extents.end_of(self.offset + self.at);
        self.at = end.map_or(self.at, |end| end - self.offset);
        end.is_some()
    }

    /// The value from `start` to here.
    fn raw_since(&self, start: usize) -> Raw<'a> {
        Raw {
            bytes: &self.bytes[start..self.at],
            offset: self.offset + start,
            extents: self.extents,
        }
    }

    pub(crate) fn is_at_object(&self) -> bool {
        self.peek() == Some(b'{')
    }

    pub(crate) fn is_at_null(&self) -> bool {
        self.peek() == Some(b'n')
    }

    /// Walks over the members of the object that is next: `one` moves over the value of each. Anything
    /// else is moved over.
    pub(crate) fn each_member(
        &mut self,
        mut one: impl FnMut(&mut Self, Cow<'a, str>) -> Result<()>,
    ) -> Result<()> {
        if !self.is_at_object() {
            return self.raw().map(|_| ());
        }
        self.members(|reader| {
            let key = reader.key()?;
            reader.colon()?;
            one(reader, key)
        })
    }

    /// The name of a member. A name longer than every expected one is returned without decoding and matches nothing.
    fn key(&mut self) -> Result<Cow<'a, str>> {
        let start = self.at;
        if !self.jump() {
            self.skip_string()?;
        }
        let name = self.raw_since(start);
        match name.len() <= MAX_KEY_BYTES {
            true => Ok(name.text().unwrap_or_default()),
            false => Ok(Cow::Borrowed("")),
        }
    }

    /// Walks over the elements of the array that is next: `one` moves over each. Anything else is moved
    /// over.
    pub(crate) fn each_element(&mut self, one: impl FnMut(&mut Self) -> Result<()>) -> Result<()> {
        match self.peek() {
            Some(b'[') => self.members(one),
            _ => self.raw().map(|_| ()),
        }
    }

    /// The value that is next, moved over without checking it closely.
    pub(crate) fn raw(&mut self) -> Result<Raw<'a>> {
        let start = self.at;
        match self.peek() {
            Some(b'{' | b'[' | b'"') if self.jump() => {}
            Some(b'{' | b'[') => self.skip_nested()?,
            Some(b'"') => self.skip_string()?,
            _ => {
                let is_end = |byte: u8| b",]} \t\n\r".contains(&byte);
                while self.peek().is_some_and(|byte| !is_end(byte)) {
                    self.at += 1;
                }
            }
        }
        match start == self.at {
            true => self.error("a value is missing"),
            false => Ok(self.raw_since(start)),
        }
    }

    fn skip_string(&mut self) -> Result<()> {
        if !self.accept(b'"') {
            return self.error("a string is missing");
        }
        while self.plain()? != b'"' {
            self.escape()?;
        }
        self.at += 1;
        Ok(())
    }

    /// Moves over a value too deep to be kept, without recursion and without checking it closely.
    fn skip_nested(&mut self) -> Result<()> {
        let mut open = 0_usize;
        loop {
            match self.peek() {
                Some(b'{' | b'[') => open += 1,
                Some(b'}' | b']') => open -= 1,
                Some(b'"') => {
                    self.skip_string()?;
                    continue;
                }
                Some(_) => {}
                None => return self.error("a bracket does not close"),
            }
            self.at += 1;
            if open == 0 {
                return Ok(());
            }
        }
    }

    /// Checks a value and appends it without the blanks between its parts.
    fn copy_value(&mut self, depth: usize, out: &mut String) -> Result<()> {
        match self.peek() {
            Some(b'{' | b'[') if depth >= self.max_depth => {
                self.skip_nested()?;
                out.push_str("null");
            }
            Some(open @ (b'{' | b'[')) => {
                let is_object = open == b'{';
                out.push(char::from(open));
                let mut is_first = true;
                self.members(|reader| {
                    if !std::mem::take(&mut is_first) {
                        out.push(',');
                    }
                    if is_object {
                        reader.copy_string(out)?;
                        reader.colon()?;
                        out.push(':');
                    }
                    reader.copy_value(depth + 1, out)
                })?;
                out.push(if is_object { '}' } else { ']' });
            }
            Some(b'"') => self.copy_string(out)?,
            Some(b'-' | b'0'..=b'9') => out.push_str(self.number()?),
            _ => {
                let start = self.at;
                self.word()?;
                out.push_str(str::from_utf8(&self.bytes[start..self.at]).unwrap_or_default());
            }
        }
        Ok(())
    }

    /// Copies a string as it is written, except for escapes that cannot be stored.
    fn copy_string(&mut self, out: &mut String) -> Result<()> {
        let mut start = self.at;
        if !self.accept(b'"') {
            return self.error("a string is missing");
        }
        loop {
            if self.plain()? == b'"' {
                self.at += 1;
                out.push_str(&self.since(start));
                return Ok(());
            }
            let before = self.at;
            let (character, is_repaired) = self.escape()?;
            if is_repaired {
                let end = std::mem::replace(&mut self.at, before);
                out.push_str(&self.since(start));
                self.at = end;
                out.extend(character);
                start = self.at;
            }
        }
    }
}

/// Whether one of eight bytes is a quote, a backslash or a control character: what may end a run of
/// plain characters. May be true for a byte above 127, but is never false for a special one.
const fn has_special(word: u64) -> bool {
    const ONES: u64 = u64::MAX / 0xff;
    const HIGHS: u64 = ONES << 7;
    const fn below(word: u64, bound: u64) -> u64 {
        word.wrapping_sub(ONES * bound) & !word
    }
    let quote = below(word ^ (ONES * b'"' as u64), 1);
    let backslash = below(word ^ (ONES * b'\\' as u64), 1);
    (below(word, 0x20) | quote | backslash) & HIGHS != 0
}

#[cfg(test)]
mod tests;
