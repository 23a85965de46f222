//! Base64 as it is recorded: either alphabet, with padding or without, perhaps cut off.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// How far base64 of either alphabet goes, padding included.
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

/// Whether all of it is base64, perhaps in lines.
#[must_use]
pub fn is_base64(data: &str) -> bool {
    let mut lines = data.split_ascii_whitespace();
    run_length(data) > 0 && lines.all(|line| run_length(line) == line.len())
}

/// Bytes that `data` decodes to.
#[must_use]
pub fn decoded_length(data: &str) -> u64 {
    let is_data = |byte: &u8| *byte != b'=' && !byte.is_ascii_whitespace();
    let n_chars = data.bytes().filter(is_data).count() as u64;
    n_chars * 3 / 4
}

/// The bytes of base64; as far as it goes, when it was cut off.
#[must_use]
pub fn decoded(data: &str) -> Vec<u8> {
    let whole: String = data.split_ascii_whitespace().collect();
    let data = whole.trim_end_matches('=');
    // One character alone is less than a byte.
    let data = match data.len() % 4 {
        1 => &data[..data.len() - 1],
        _ => data,
    };
    let plain = data.replace('-', "+").replace('_', "/");
    LENIENT.decode(plain).unwrap_or_default()
}

/// The type that the first bytes of base64 tell.
#[must_use]
pub fn sniffed(data: &str) -> Option<&'static str> {
    let first: String = data.chars().take(24).collect();
    let bytes = decoded(&first[..run_length(&first)]);
    let begins = |with: &[u8]| bytes.starts_with(with);
    let holds = |at: usize, what: &[u8]| bytes.get(at..at + what.len()) == Some(what);
    Some(match () {
        () if begins(b"\x89PNG\r\n") => "image/png",
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
    fn a_run_ends_with_its_padding() {
        let lengths = ["", "=", "ab", "ab==", "ab===", "a b", "a-b_c+/"].map(run_length);
        assert_eq!(lengths, [0, 0, 2, 4, 4, 1, 7]);
    }

    #[test]
    fn the_first_bytes_tell_the_type() {
        let data = [
            "iVBORw0KGgoAAAANSUhEUg",
            "/9j/4AAQSkZJRg",
            "UklGRiQAAABXQVZF",
        ];
        let found = data.map(sniffed);
        assert_eq!(
            found,
            [Some("image/png"), Some("image/jpeg"), Some("audio/wav")]
        );
        assert_eq!(["", "aGVsbG8", "é"].map(sniffed), [None; 3]);
    }
}
