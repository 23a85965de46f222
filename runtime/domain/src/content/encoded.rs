//! Base64 as it is recorded: either alphabet, with or without padding, escaped for a URL, possibly truncated.

use std::borrow::Cow;

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Escapes of base64 in URLs: `+`, `/`, `=` and line ends.
const ESCAPES: [&[u8]; 5] = [b"2B", b"2F", b"3D", b"0D", b"0A"];
/// Line lengths of wrapped base64.
const WRAPPED: [usize; 2] = [64, 76];

/// The length of the leading run of base64 of either alphabet, padding included.
#[must_use]
pub fn run_length(text: &str) -> usize {
    let is_base64 = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/-_".contains(byte);
    let n_data = text.bytes().take_while(|byte| is_base64(byte)).count();
    if n_data == 0 {
        return 0;
    }
    let padding = text.bytes().skip(n_data).take(2);
    n_data + padding.take_while(|byte| *byte == b'=').count()
}

/// The length of base64 after the head of a `data:` URI: wrapped into lines and partly escaped.
pub(crate) fn length_in_address(text: &str) -> usize {
    let bytes = text.as_bytes();
    let (mut at, mut from) = (0, 0);
    loop {
        at += run_length(&text[at..]);
        if let Some(b'%') = bytes.get(at)
            && let Some(escape) = bytes.get(at + 1..at + 3)
            && ESCAPES.iter().any(|known| escape.eq_ignore_ascii_case(known))
        {
            at += 3;
            continue;
        }
        let end = match bytes.get(at..) {
            Some([b'\r', b'\n', ..]) => 2,
            Some([b'\n', ..]) => 1,
            _ => 0,
        };
        // Wrapped lines, not the data followed by a line of text.
        let is_wrapped = 0 < end && WRAPPED.contains(&(at - from));
        if !is_wrapped || run_length(&text[at + end..]) == 0 {
            return at;
        }
        at += end;
        from = at;
    }
}

/// Whether the whole text is base64, possibly wrapped into lines.
#[must_use]
pub fn is_base64(data: &str) -> bool {
    let mut lines = data.split_ascii_whitespace();
    run_length(data) > 0 && lines.all(|line| run_length(line) == line.len())
}

/// The data of a URI without escapes.
fn unescaped(data: &str) -> Cow<'_, str> {
    match data.contains('%') {
        true => percent_encoding::percent_decode_str(data).decode_utf8_lossy(),
        false => Cow::Borrowed(data),
    }
}

/// The number of bytes that `data` decodes to.
#[must_use]
pub fn decoded_length(data: &str) -> u64 {
    if python_literal(data).is_some() {
        return decoded(data).len() as u64;
    }
    let data = unescaped(data);
    let is_data = |byte: &u8| *byte != b'=' && !byte.is_ascii_whitespace();
    let n_chars = data.bytes().filter(is_data).count() as u64;
    n_chars * 3 / 4
}

/// The inside of a bytes literal of Python.
#[must_use]
pub fn python_literal(data: &str) -> Option<&str> {
    let quoted = data.strip_prefix('b')?;
    ['\'', '"'].into_iter().find_map(|quote| {
        let inner = quoted.strip_prefix(quote)?.strip_suffix(quote)?;
        (!inner.is_empty()).then_some(inner)
    })
}

/// The bytes of a Python literal: escaped, or base64; `None` if it is neither.
#[must_use]
pub fn python_bytes(literal: &str) -> Option<Vec<u8>> {
    if !literal.contains('\\') {
        return is_base64(literal).then(|| decoded(literal));
    }
    let mut bytes = Vec::with_capacity(literal.len());
    let mut rest = literal.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        bytes.push(match rest.next()? {
            b'x' => {
                let mut digit = || u8::try_from(char::from(rest.next()?).to_digit(16)?).ok();
                digit()? << 4 | digit()?
            }
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            other => other,
        });
    }
    Some(bytes)
}

/// The bytes of base64; of truncated base64 the complete ones.
#[must_use]
pub fn decoded(data: &str) -> Vec<u8> {
    if let Some(literal) = python_literal(data) {
        return python_bytes(literal).unwrap_or_default();
    }
    let whole: String = unescaped(data).split_ascii_whitespace().collect();
    let data = whole.trim_end_matches('=');
    // One character alone is less than a byte.
    let data = match data.len() % 4 {
        1 => &data[..data.len() - 1],
        _ => data,
    };
    let plain = data.replace('-', "+").replace('_', "/");
    LENIENT.decode(plain).unwrap_or_default()
}

/// The MIME type by the signature of base64 data.
#[must_use]
pub fn sniffed(data: &str) -> Option<&'static str> {
    let first: String = data.chars().take(24).collect();
    let first = unescaped(&first);
    type_of(&decoded(&first[..run_length(&first)]))
}

/// The MIME type by the signature of the bytes.
#[must_use]
pub fn type_of(bytes: &[u8]) -> Option<&'static str> {
    let begins = |with: &[u8]| bytes.starts_with(with);
    let holds = |at: usize, what: &[u8]| bytes.get(at..at + what.len()) == Some(what);
    Some(match () {
        () if begins(b"\x89PNG") => "image/png",
        () if begins(b"\xff\xd8\xff") => "image/jpeg",
        () if begins(b"GIF8") => "image/gif",
        () if begins(b"RIFF") && holds(8, b"WEBP") => "image/webp",
        () if begins(b"RIFF") && holds(8, b"WAVE") => "audio/wav",
        () if begins(b"OggS") => "audio/ogg",
        () if begins(b"ID3") || begins(b"\xff\xfb") => "audio/mpeg",
        () if begins(b"\x1aE\xdf\xa3") => "video/webm",
        () if holds(4, b"ftypavif") => "image/avif",
        () if holds(4, b"ftyp") => "video/mp4",
        () if begins(b"%PDF-") => "application/pdf",
        () => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn either_alphabet_is_decoded_also_when_it_is_cut_off() {
        assert_eq!(decoded("AP8="), [0, 255]);
        assert_eq!(decoded("-_8"), decoded("+/8="));
        assert_eq!(decoded("AP8AA"), [0, 255, 0]);
        assert_eq!(decoded("A"), [0; 0]);
        for data in ["", "AP8=", "AP8", "AP8A", "AP8AAA", "AP8A\nAP8="] {
            assert_eq!(decoded_length(data), decoded(data).len() as u64, "{data}");
        }
    }

    #[test]
    fn data_in_an_address_is_read_with_its_escapes_and_its_lines_and_no_further() {
        let escaped = "iVBORw0KGgo%2B%2f8AA%3D%3D";
        assert_eq!(length_in_address(&format!("{escaped}%20x")), escaped.len());
        assert_eq!(decoded(escaped), decoded("iVBORw0KGgo+/8AA=="));
        assert_eq!(decoded_length(escaped), 12);
        assert_eq!(sniffed("%2F9j%2F4AAQSkZJRg"), Some("image/jpeg"));
        let wrapped = format!("{0}\n{0}\r\nAP8=", "A".repeat(76));
        assert_eq!(length_in_address(&format!("{wrapped}\nand text")), wrapped.len());
        assert_eq!(decoded(&wrapped).len(), 116);
        for (text, length) in
            [("", 0), ("%", 0), ("AP8%", 3), ("AP8%2", 3), ("AP8%2é", 3), ("AP8=\nword", 4)]
        {
            assert_eq!(length_in_address(text), length, "{text}");
        }
    }

    #[test]
    fn a_run_ends_with_its_padding() {
        let lengths = ["", "=", "ab", "ab==", "ab===", "a b", "a-b_c+/"].map(run_length);
        assert_eq!(lengths, [0, 0, 2, 4, 4, 1, 7]);
    }

    #[test]
    fn the_type_is_detected_from_the_first_bytes() {
        let data = ["iVBORw0KGgoAAAANSUhEUg", "/9j/4AAQSkZJRg", "UklGRiQAAABXQVZF"];
        let found = data.map(sniffed);
        assert_eq!(found, [Some("image/png"), Some("image/jpeg"), Some("audio/wav")]);
        assert_eq!(["", "aGVsbG8", "é"].map(sniffed), [None; 3]);
    }
}
