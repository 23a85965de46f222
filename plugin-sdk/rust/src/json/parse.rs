//! The parser: exactly RFC 8259.

use super::{InvalidJson, Json, Number};

pub(super) fn document(text: &str) -> Result<Json, InvalidJson> {
    let mut reader = Reader { text, at: 0 };
    reader.skip_space();
    let value = reader.value(0)?;
    reader.skip_space();
    match reader.peek() {
        None => Ok(value),
        Some(_) => Err(reader.invalid("text after the value")),
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    fn invalid(&self, reason: &'static str) -> InvalidJson {
        InvalidJson { reason, offset: self.at }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    /// Consumes `byte` if it is next.
    fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn value(&mut self, depth: usize) -> Result<Json, InvalidJson> {
        if depth > Json::MAX_DEPTH {
            return Err(self.invalid("nested too deeply"));
        }
        match self.peek() {
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            Some(b'"') => self.string().map(Json::Text),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.word("true", Json::Bool(true)),
            Some(b'f') => self.word("false", Json::Bool(false)),
            Some(b'n') => self.word("null", Json::Null),
            Some(_) => Err(self.invalid("expected a JSON value")),
            None => Err(self.invalid("unexpected end of the text")),
        }
    }

    fn word(&mut self, word: &str, value: Json) -> Result<Json, InvalidJson> {
        if !self.text[self.at..].starts_with(word) {
            return Err(self.invalid("expected a JSON value"));
        }
        self.at += word.len();
        Ok(value)
    }

    fn array(&mut self, depth: usize) -> Result<Json, InvalidJson> {
        self.at += 1;
        let mut values = Vec::new();
        self.skip_space();
        if self.take(b']') {
            return Ok(Json::Array(values));
        }
        loop {
            self.skip_space();
            values.push(self.value(depth + 1)?);
            self.skip_space();
            if self.take(b']') {
                return Ok(Json::Array(values));
            }
            if !self.take(b',') {
                return Err(self.invalid("expected `,` or `]`"));
            }
        }
    }

    fn object(&mut self, depth: usize) -> Result<Json, InvalidJson> {
        self.at += 1;
        let mut members = Vec::new();
        self.skip_space();
        if self.take(b'}') {
            return Ok(Json::Object(members));
        }
        loop {
            self.skip_space();
            if self.peek() != Some(b'"') {
                return Err(self.invalid("expected a member name"));
            }
            let name = self.string()?;
            self.skip_space();
            if !self.take(b':') {
                return Err(self.invalid("expected `:`"));
            }
            self.skip_space();
            members.push((name, self.value(depth + 1)?));
            self.skip_space();
            if self.take(b'}') {
                return Ok(Json::object(members));
            }
            if !self.take(b',') {
                return Err(self.invalid("expected `,` or `}`"));
            }
        }
    }

    fn number(&mut self) -> Result<Json, InvalidJson> {
        let start = self.at;
        self.take(b'-');
        if !self.take(b'0') {
            self.digits()?;
        }
        if self.take(b'.') {
            self.digits()?;
        }
        if self.take(b'e') || self.take(b'E') {
            if !self.take(b'+') {
                self.take(b'-');
            }
            self.digits()?;
        }
        Ok(Json::Number(Number(self.text[start..self.at].to_owned())))
    }

    fn digits(&mut self) -> Result<(), InvalidJson> {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        if self.at == start { Err(self.invalid("expected a digit")) } else { Ok(()) }
    }

    fn string(&mut self) -> Result<String, InvalidJson> {
        self.at += 1;
        let mut text = String::new();
        loop {
            let plain_from = self.at;
            while !matches!(self.peek(), None | Some(b'"' | b'\\' | 0..=0x1f)) {
                self.at += 1;
            }
            text.push_str(&self.text[plain_from..self.at]);
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(text);
                }
                Some(b'\\') => text.push(self.escape()?),
                Some(_) => return Err(self.invalid("control character in a string")),
                None => return Err(self.invalid("unterminated string")),
            }
        }
    }

    fn escape(&mut self) -> Result<char, InvalidJson> {
        self.at += 1;
        let letter = self.peek();
        self.at += usize::from(letter.is_some());
        match letter {
            Some(b'"') => Ok('"'),
            Some(b'\\') => Ok('\\'),
            Some(b'/') => Ok('/'),
            Some(b'b') => Ok('\u{8}'),
            Some(b'f') => Ok('\u{c}'),
            Some(b'n') => Ok('\n'),
            Some(b'r') => Ok('\r'),
            Some(b't') => Ok('\t'),
            Some(b'u') => self.code_point(),
            _ => Err(self.invalid("invalid escape")),
        }
    }

    /// The code point after `\u`, which can require a second escape. A lone surrogate is valid JSON and not a
    /// character; it becomes the replacement character.
    fn code_point(&mut self) -> Result<char, InvalidJson> {
        let first = self.four_digits()?;
        if !(0xd800..0xdc00).contains(&first) {
            return Ok(char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER));
        }
        let after_first = self.at;
        if self.take(b'\\') && self.take(b'u') {
            let second = self.four_digits()?;
            if (0xdc00..0xe000).contains(&second) {
                let point = 0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00);
                return Ok(char::from_u32(point).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
        }
        self.at = after_first;
        Ok(char::REPLACEMENT_CHARACTER)
    }

    fn four_digits(&mut self) -> Result<u32, InvalidJson> {
        let mut value = 0;
        for _ in 0..4 {
            let digit = self.peek().and_then(|byte| char::from(byte).to_digit(16));
            let digit = digit.ok_or_else(|| self.invalid("expected four hexadecimal digits"))?;
            value = value * 16 + digit;
            self.at += 1;
        }
        Ok(value)
    }
}
