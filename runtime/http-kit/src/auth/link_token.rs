//! Tokens of one-time links: invitations and resets.

use perpend_catalog::SessionDigest;
use perpend_domain::ids::IdSource;
use sha2::{Digest as _, Sha256};

use super::session::random;

/// A random token of 256 bits and the digest that is stored.
#[must_use]
pub fn new_link_token(ids: &dyn IdSource) -> (String, SessionDigest) {
    let token = random(ids);
    let digest = link_digest(&token);
    (token, digest)
}

/// The digest of the token of a link.
#[must_use]
pub fn link_digest(token: &str) -> SessionDigest {
    Sha256::new().chain_update(b"link/1").chain_update(token).finalize().into()
}
