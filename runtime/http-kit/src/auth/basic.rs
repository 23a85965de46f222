//! The `Authorization` header.

use axum::http::HeaderValue;
use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

/// Base64 with or without padding.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Credentials of a caller.
#[derive(Clone, PartialEq, Eq)]
pub enum Credentials {
    /// `Basic`: both halves of a key pair.
    Pair {
        /// Before the first colon.
        public_key: String,
        /// Everything after it.
        secret_key: String,
    },
    /// `Bearer`: the public half alone.
    PublicKey(String),
}

impl Credentials {
    /// The public key as sent; a sender that confuses the two halves puts a secret here.
    #[must_use]
    pub fn public_key(&self) -> &str {
        match self {
            Self::Pair { public_key, .. } | Self::PublicKey(public_key) => public_key,
        }
    }

    /// Reads the header. The scheme is case-insensitive, and `Basic%20` is read as `Basic `: some
    /// clients do not percent-decode their configured headers.
    #[must_use]
    pub fn parse(header: &HeaderValue) -> Option<Self> {
        let text = header.to_str().ok()?.trim();
        let (scheme, rest) = match text.find([' ', '%']) {
            Some(at) => text.split_at(at),
            None => return None,
        };
        let value = rest.strip_prefix("%20").unwrap_or(rest).trim();
        if scheme.eq_ignore_ascii_case("basic") {
            // Such clients also percent-encode the padding.
            let value = value.replace("%3D", "=").replace("%3d", "=");
            let decoded = String::from_utf8(BASE64.decode(value).ok()?).ok()?;
            let (public_key, secret_key) = decoded.split_once(':')?;
            return Some(Self::Pair {
                public_key: public_key.to_owned(),
                secret_key: secret_key.to_owned(),
            });
        }
        if scheme.eq_ignore_ascii_case("bearer") && !value.is_empty() {
            return Some(Self::PublicKey(value.to_owned()));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Option<(String, Option<String>)> {
        match Credentials::parse(&HeaderValue::from_str(text).unwrap())? {
            Credentials::Pair { public_key, secret_key } => Some((public_key, Some(secret_key))),
            Credentials::PublicKey(public_key) => Some((public_key, None)),
        }
    }

    #[test]
    fn the_spellings_that_clients_send_are_read_alike() {
        let pair = Some(("pk".to_owned(), Some("s:k".to_owned())));
        for text in ["Basic cGs6czpr", "basic cGs6czpr", "BASIC   cGs6czpr ", "Basic%20cGs6czpr"] {
            assert_eq!(parse(text), pair, "{text}");
        }
        let padded = Some(("pk".to_owned(), Some("sk".to_owned())));
        for text in ["Basic cGs6c2s=", "Basic cGs6c2s", "Basic%20cGs6c2s%3D"] {
            assert_eq!(parse(text), padded, "{text}");
        }
        assert_eq!(parse("Bearer pk-1"), Some(("pk-1".to_owned(), None)));
    }

    #[test]
    fn other_headers_are_rejected() {
        for text in ["", "Basic", "Basic !!!", "Basic cGs=", "Bearer ", "Digest abc", "cGs6c2s="] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
