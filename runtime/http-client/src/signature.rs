//! Signatures of requests, with which a receiver recognizes their sender.

use std::fmt::Write as _;

use hmac::{Hmac, Mac as _};
use sha2::Sha256;

/// The signature of a body that is sent at a time, in seconds since 1970: `t=SECONDS,v1=HEX`, where `HEX` is the HMAC-SHA256
/// of the seconds, a dot and the body under the secret.
#[must_use]
pub fn signature(secret: &str, seconds: i64, body: &[u8]) -> String {
    // HMAC takes a key of any length.
    let mac = <Hmac<Sha256> as hmac::KeyInit>::new_from_slice(secret.as_bytes());
    let mut mac = mac.unwrap_or_else(|_| hmac::KeyInit::new(&Default::default()));
    mac.update(seconds.to_string().as_bytes());
    mac.update(b".");
    mac.update(body);
    let digest: [u8; 32] = mac.finalize().into_bytes().into();
    digest.iter().fold(format!("t={seconds},v1="), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_depends_on_secret_time_and_body() {
        let first = signature("secret", 1_700_000_000, b"{}");
        assert!(first.starts_with("t=1700000000,v1="), "{first}");
        assert_eq!(first.len(), "t=1700000000,v1=".len() + 64);
        assert_eq!(first, signature("secret", 1_700_000_000, b"{}"));
        assert_ne!(first, signature("other", 1_700_000_000, b"{}"));
        assert_ne!(first, signature("secret", 1_700_000_001, b"{}"));
        assert_ne!(first, signature("secret", 1_700_000_000, b"{ }"));
    }
}
