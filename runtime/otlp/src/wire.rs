//! The protobuf wire format, borrowed from the body.
//!
//! A reader of our own because generated ones reject a whole request for one cut character, and for
//! nesting that otlp.md 2.2 wants cut. Fields of an unexpected wire type count as unknown.

use std::borrow::Cow;

use perpend_domain::text::of_bytes;

use crate::DecodeError;

/// One field of a message.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Field<'a> {
    Varint(u64),
    Fixed64(u64),
    Fixed32(u32),
    Bytes(&'a [u8]),
}

impl<'a> Field<'a> {
    /// The bytes of a length-delimited field; empty for any other kind.
    pub(crate) fn bytes(self) -> &'a [u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            _ => &[],
        }
    }

    /// Text with invalid UTF-8 replaced and U+0000 removed.
    pub(crate) fn text(self) -> Cow<'a, str> {
        of_bytes(self.bytes())
    }

    /// Any number as 64 bits.
    pub(crate) fn number(self) -> u64 {
        match self {
            Self::Varint(value) | Self::Fixed64(value) => value,
            Self::Fixed32(value) => u64::from(value),
            Self::Bytes(_) => 0,
        }
    }

    /// A count that fits in 32 bits.
    pub(crate) fn count(self) -> u32 {
        u32::try_from(self.number()).unwrap_or(u32::MAX)
    }
}

/// Bytes by which a text is longer when it is written as JSON than when it was sent. What was no text is three
/// bytes for one by now, and that is part of it.
pub(crate) fn n_grown(text: &str) -> usize {
    const OF_BYTES: [u8; 256] = {
        let mut table = [0; 256];
        let mut byte = 0;
        while byte < 0x20 {
            table[byte] = 5;
            byte += 1;
        }
        let short = *b"\"\\\x08\t\n\x0c\r";
        let mut at = 0;
        while at < short.len() {
            table[short[at] as usize] = 1;
            at += 1;
        }
        table
    };
    let escapes = text.bytes().map(|byte| usize::from(OF_BYTES[usize::from(byte)]));
    let n_replaced = text.matches(char::REPLACEMENT_CHARACTER).count();
    escapes.sum::<usize>() + 2 * n_replaced
}

/// The fields of one message, in order. Stops at the first error, which [`Fields::finish`] returns.
#[derive(Debug)]
pub(crate) struct Fields<'a> {
    rest: &'a [u8],
    error: Option<DecodeError>,
}

impl<'a> Fields<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, error: None }
    }

    /// The error, if there was one.
    pub(crate) fn finish(self) -> Result<(), DecodeError> {
        self.error.map_or(Ok(()), Err)
    }

    #[inline]
    fn varint(&mut self) -> Result<u64, DecodeError> {
        // Tags and most lengths are one byte.
        if let Some((byte, rest)) = self.rest.split_first()
            && byte & 0x80 == 0
        {
            self.rest = rest;
            return Ok(u64::from(*byte));
        }
        self.long_varint()
    }

    fn long_varint(&mut self) -> Result<u64, DecodeError> {
        let mut value = 0_u64;
        for shift in 0..10 {
            let Some((byte, rest)) = self.rest.split_first() else {
                return Err(CUT);
            };
            self.rest = rest;
            value |= u64::from(byte & 0x7f) << (7 * shift).min(63);
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(DecodeError::Protobuf("a number is longer than ten bytes"))
    }

    fn take(&mut self, n_bytes: u64) -> Result<&'a [u8], DecodeError> {
        let split =
            usize::try_from(n_bytes).ok().and_then(|n_bytes| self.rest.split_at_checked(n_bytes));
        let (taken, rest) = split.ok_or(CUT)?;
        self.rest = rest;
        Ok(taken)
    }

    fn fixed<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or(CUT)?;
        self.rest = rest;
        Ok(*taken)
    }

    fn read(&mut self) -> Result<(u32, Field<'a>), DecodeError> {
        // A group, long deprecated, is skipped as a run of fields until its end.
        let mut open_groups = 0_u32;
        loop {
            let tag = u32::try_from(self.varint()?)
                .map_err(|_| DecodeError::Protobuf("a field number is out of range"))?;
            let number = tag >> 3;
            if number == 0 {
                return Err(DecodeError::Protobuf("a field has the number 0"));
            }
            let field = match tag & 7 {
                0 => Field::Varint(self.varint()?),
                1 => Field::Fixed64(u64::from_le_bytes(self.fixed()?)),
                2 => {
                    let length = self.varint()?;
                    Field::Bytes(self.take(length)?)
                }
                3 => {
                    open_groups = open_groups.saturating_add(1);
                    continue;
                }
                4 => {
                    open_groups = open_groups
                        .checked_sub(1)
                        .ok_or(DecodeError::Protobuf("a group ends that never began"))?;
                    if open_groups == 0 && self.rest.is_empty() {
                        return Ok((u32::MAX, Field::Varint(0)));
                    }
                    continue;
                }
                5 => Field::Fixed32(u32::from_le_bytes(self.fixed()?)),
                _ => return Err(DecodeError::Protobuf("a field has an unknown wire type")),
            };
            if open_groups == 0 {
                return Ok((number, field));
            }
        }
    }
}

const CUT: DecodeError = DecodeError::Protobuf("it ends inside a field");

impl<'a> Iterator for Fields<'a> {
    type Item = (u32, Field<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() || self.error.is_some() {
            return None;
        }
        match self.read() {
            Ok(field) => Some(field),
            Err(error) => {
                self.error = Some(error);
                None
            }
        }
    }
}

/// Whether the bytes are fields at all.
pub(crate) fn check(bytes: &[u8]) -> Result<(), DecodeError> {
    let mut fields = Fields::new(bytes);
    while fields.next().is_some() {}
    fields.finish()
}
