//! Passwords of accounts: rules, hashing and comparison.
//!
//! Invariants:
//! - **Every comparison costs the same**, also for an account that does not exist, has no password or is not active.
//! - **Memory is bounded.** A few hashes of 19 MiB are computed at a time, some requests wait, and the rest get 503.
//! - **No request task is blocked**: hashes are computed on blocking threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use argon2::{Algorithm, Argon2, Params, Version};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use perpend_domain::ids::IdSource;
use subtle::ConstantTimeEq as _;
use tokio::sync::Semaphore;
use zxcvbn::{Score, zxcvbn};

use crate::problem::Problem;

/// Memory of one hash in KiB.
const MEMORY_KIB: u32 = 19 * 1024;
/// Passes over the memory.
const PASSES: u32 = 2;
/// Hashes that are computed at once.
const MAX_AT_ONCE: usize = 4;
/// Requests that wait for a hash.
const MAX_WAITING: usize = 64;
/// Least characters of a password.
const MIN_CHARS: usize = 12;
/// Most characters of a password.
const MAX_CHARS: usize = 1_024;
/// Name of the field in messages.
const FIELD: &str = "password";

/// Hashes and compares passwords.
#[derive(Debug)]
pub struct Passwords {
    places: Arc<Semaphore>,
    n_waiting: AtomicUsize,
}

impl Default for Passwords {
    fn default() -> Self {
        let n_cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self {
            places: Arc::new(Semaphore::new(n_cpus.min(MAX_AT_ONCE))),
            n_waiting: AtomicUsize::new(0),
        }
    }
}

/// Decrements the number of waiting requests on drop, also when a client disconnects.
struct Waiting<'p>(&'p AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Passwords {
    /// Runs work that needs the memory of one hash.
    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Problem> {
        let place = {
            let n_waiting = self.n_waiting.fetch_add(1, Ordering::Relaxed);
            let _waiting = Waiting(&self.n_waiting);
            if MAX_WAITING <= n_waiting {
                return Err(Problem::unavailable("too many people sign in at once; try again"));
            }
            Arc::clone(&self.places).acquire_owned().await.map_err(|_| Problem::internal())?
        };
        let done = tokio::task::spawn_blocking(move || {
            // Held until the memory is free, also when the client disconnects.
            let _place = place;
            work()
        });
        done.await.map_err(|error| {
            let error: &dyn std::error::Error = &error;
            tracing::error!(error, "hashing a password failed");
            Problem::internal()
        })
    }

    /// Checks a new password and hashes it. `context` are texts that it must not be built from, such as the name.
    ///
    /// # Errors
    /// The violated rule; 503 when too many requests wait.
    pub async fn hash_new(
        &self,
        password: &str,
        context: &[&str],
        ids: &dyn IdSource,
    ) -> Result<String, Problem> {
        let n_chars = password.chars().count();
        if !(MIN_CHARS..=MAX_CHARS).contains(&n_chars) {
            let message =
                format!("must have between {MIN_CHARS} and {MAX_CHARS} characters, got {n_chars}");
            return Err(Problem::body(FIELD, message));
        }
        let (password, salt) = (password.to_owned(), ids.uuid().into_bytes());
        let context: Vec<String> = context.iter().map(|one| (*one).to_owned()).collect();
        let hashed = self.run(move || {
            let context: Vec<&str> =
                context.iter().map(String::as_str).chain(["perpend"]).collect();
            match zxcvbn(&password, &context).score() < Score::Three {
                true => None,
                false => Some(hash(&password, &salt)),
            }
        });
        let guessable = "is too easy to guess; use several unrelated words or a longer text";
        hashed.await?.ok_or_else(|| Problem::body(FIELD, guessable))?
    }

    /// Whether the password is the one of this hash. Without a hash it does the same work and returns false.
    ///
    /// # Errors
    /// 503 when too many requests wait.
    pub async fn matches(&self, password: &str, stored: Option<String>) -> Result<bool, Problem> {
        // A longer one cannot be set, and would cost more than others.
        let is_possible = password.len() <= 4 * MAX_CHARS;
        let password = if is_possible { password.to_owned() } else { String::new() };
        let compared = self.run(move || -> Result<bool, Problem> {
            let parsed = stored.as_deref().and_then(StoredHash::parse);
            let (salt, expected) = match parsed {
                Some(StoredHash { salt, hash }) => (salt, Some(hash)),
                None => (vec![0; 16], None),
            };
            let computed = digest(&password, &salt)?;
            let is_equal = expected.map(|expected| computed.as_slice().ct_eq(&expected).into());
            Ok(is_equal.unwrap_or(false))
        });
        Ok(compared.await?? && is_possible)
    }
}

fn digest(password: &str, salt: &[u8]) -> Result<[u8; 32], Problem> {
    let mut out = [0; 32];
    let hashed = Params::new(MEMORY_KIB, PASSES, 1, Some(out.len())).and_then(|params| {
        let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
        argon2.hash_password_into(password.as_bytes(), salt, &mut out)
    });
    match hashed {
        Ok(()) => Ok(out),
        Err(error) => {
            tracing::error!(%error, "hashing a password failed");
            Err(Problem::internal())
        }
    }
}

/// Start of the text of a hash: algorithm, version and parameters.
fn prefix() -> String {
    format!("$argon2id$v=19$m={MEMORY_KIB},t={PASSES},p=1$")
}

fn hash(password: &str, salt: &[u8]) -> Result<String, Problem> {
    let hash = digest(password, salt)?;
    let encode = |bytes: &[u8]| STANDARD_NO_PAD.encode(bytes);
    Ok(format!("{}{}${}", prefix(), encode(salt), encode(&hash)))
}

/// Salt and digest in the text of a hash.
struct StoredHash {
    salt: Vec<u8>,
    hash: Vec<u8>,
}

impl StoredHash {
    fn parse(text: &str) -> Option<Self> {
        let rest = text.strip_prefix(prefix().as_str())?;
        let (salt, hash) = rest.split_once('$')?;
        let decode = |text: &str| STANDARD_NO_PAD.decode(text).ok();
        Some(Self { salt: decode(salt)?, hash: decode(hash)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Ids;

    impl IdSource for Ids {
        fn uuid(&self) -> uuid::Uuid {
            uuid::Uuid::from_u128(7)
        }
    }

    const GOOD: &str = "violet kettle ärgern 42 sails";

    #[tokio::test]
    async fn a_password_matches_its_own_hash_only_and_nothing_matches_without_a_hash() {
        let passwords = Passwords::default();
        let stored = passwords.hash_new(GOOD, &[], &Ids).await.unwrap();
        assert!(stored.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{stored}");
        assert!(passwords.matches(GOOD, Some(stored.clone())).await.unwrap());
        let other = format!("{GOOD} ");
        assert!(!passwords.matches(&other, Some(stored.clone())).await.unwrap());
        assert!(!passwords.matches("", None).await.unwrap());
        assert!(!passwords.matches(&"a".repeat(1 << 16), Some(stored)).await.unwrap());
        assert!(!passwords.matches(GOOD, Some("damaged".to_owned())).await.unwrap());
    }

    #[tokio::test]
    async fn a_new_password_is_refused_when_it_is_short_long_or_easy_to_guess() {
        let passwords = Passwords::default();
        let long = "violet kettle ".repeat(100);
        for (password, context) in [
            ("short text", vec![]),
            (long.as_str(), vec![]),
            ("password1234", vec![]),
            ("ada.lovelace@example.com", vec!["ada.lovelace@example.com"]),
        ] {
            let refused = passwords.hash_new(password, &context, &Ids).await;
            assert!(refused.is_err(), "{password}");
        }
    }

    #[tokio::test]
    async fn a_flood_of_sign_ins_is_refused_before_it_takes_memory() {
        let passwords = Passwords::default();
        passwords.n_waiting.store(MAX_WAITING, Ordering::Relaxed);
        let refused = passwords.matches(GOOD, None).await.unwrap_err();
        assert_eq!(refused.code(), crate::problem::Code::Unavailable);
        assert_eq!(passwords.n_waiting.load(Ordering::Relaxed), MAX_WAITING);
    }
}
