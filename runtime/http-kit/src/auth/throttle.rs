//! Wrong credentials: limited per network, and logged with the address of the client.
//!
//! Invariants:
//! - **Wrong credentials lock nobody out.** A network that fails too often gets 429 for its failures; the right secret is
//!   accepted from it all the same, so an attacker behind the same proxy stops no client.
//! - **A secret that can be guessed is not compared while its network is blocked**, so a right guess and a wrong one get
//!   the same answer. It can be guessed when it has fewer than [`STRONG_CHARS`] characters; the settings of the first start
//!   alone allow that. Where such a secret was accepted from the network within a day, it is compared.
//! - **Memory is bounded, and so is the log.** Keys nobody knows share one count per network; a flood of refusals
//!   is a few lines a minute and the number of those left out.
//! - **No secret reaches the log.** What stands where a public key belongs may be a secret, so an unknown one is
//!   logged only when it looks like a public key.

use std::sync::atomic::{AtomicU64, Ordering};

use ipnet::IpNet;
use perpend_domain::time::Timestamp;

use crate::client_address::ClientAddress;
use crate::limits::{Buckets, Failures, PerKey};
use crate::problem::{Code, Problem};

/// Wrong secrets for one public key from one network that are answered with 401; a minute of 429 follows for wrong ones.
const MAX_FAILURES: usize = 20;
/// Characters from which on a secret cannot be found by trying: those that the server makes have more, and those that the
/// API accepts at least as many.
pub const STRONG_CHARS: usize = 16;
/// For how long a network from which a short secret was accepted may send it again while it is blocked.
const PROVEN_MICROS: i64 = 24 * 3_600 * 1_000_000;
/// Log lines a minute about refusals of one kind.
const MAX_LINES: u32 = 30;
/// Longest unknown public key that is logged.
const MAX_SHOWN: usize = 64;

/// What somebody tried to open.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// A known key pair, by its id.
    Key(String),
    /// A key that does not exist, or has expired.
    UnknownKey,
    /// All projects, with the key of the administrator.
    Administrator,
    /// The pages, with the token of the printed address.
    LoginToken,
}

/// Why credentials were refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Reason {
    Missing,
    WrongSecret,
    UnknownKey,
    WrongAdminKey,
    WrongLoginToken,
    Blocked,
    /// The failure that blocks a network.
    Last,
}

impl Reason {
    const fn text(self) -> &'static str {
        match self {
            Self::Missing => "no credentials that can be read",
            Self::WrongSecret => "wrong secret",
            Self::UnknownKey => "unknown or expired public key",
            Self::WrongAdminKey => "wrong administrator key",
            Self::WrongLoginToken => "wrong login token",
            Self::Blocked | Self::Last => "too many wrong credentials",
        }
    }
}

/// Who tried, for the log.
#[derive(Clone, Copy, Debug)]
pub struct Attempt<'a> {
    pub client: ClientAddress,
    pub request_id: Option<&'a str>,
    /// As sent.
    pub public_key: Option<&'a str>,
}

/// Counts and logs wrong credentials.
#[derive(Debug, Default)]
pub struct Throttle {
    failures: Failures<(Target, IpNet)>,
    /// When a short secret was last accepted.
    proven: PerKey<(Target, IpNet), Timestamp>,
    lines: Buckets<Reason>,
    n_left_out: AtomicU64,
}

fn is_strong(secret: &str) -> bool {
    STRONG_CHARS <= secret.chars().count()
}

fn is_recent(at: Timestamp, now: Timestamp) -> bool {
    (0..PROVEN_MICROS).contains(&now.micros_since(at))
}

/// The answer to credentials that are missing or wrong.
pub(super) fn refused() -> Problem {
    Problem::new(
        Code::AuthenticationFailed,
        "no valid credentials: use Basic authentication with the public key as user and the secret \
         key as password",
    )
}

impl Throttle {
    /// Whether this secret may be compared with the one of the target.
    pub fn may_compare(
        &self,
        target: &Target,
        client: ClientAddress,
        secret: &str,
        now: Timestamp,
    ) -> bool {
        if is_strong(secret) {
            return true;
        }
        let key = (target.clone(), client.network());
        self.failures.blocked_for(&key, now).is_none()
            || self.proven.look(&key, |at| is_recent(*at, now)) == Some(true)
    }

    /// Notes that this secret was right.
    pub fn succeeded(&self, target: Target, client: ClientAddress, secret: &str, now: Timestamp) {
        if !is_strong(secret) {
            let key = (target, client.network());
            let is_needed = |_: &_, at: &mut Timestamp| is_recent(*at, now);
            self.proven.with(key, || now, is_needed, |at| *at = now);
        }
    }

    /// Logs a request without credentials, which is no attempt at any.
    pub(super) fn missing(&self, attempt: Attempt<'_>, now: Timestamp) {
        self.log(Reason::Missing, attempt, now);
    }

    /// Counts and logs wrong credentials; the answer to them.
    pub fn failed(&self, target: Target, attempt: Attempt<'_>, now: Timestamp) -> Problem {
        let key = (target.clone(), attempt.client.network());
        if let Some(seconds) = self.failures.blocked_for(&key, now) {
            self.log(Reason::Blocked, attempt.without_secret(&target), now);
            return Problem::too_many_attempts(seconds);
        }
        let reason = match target {
            Target::Key(_) => Reason::WrongSecret,
            Target::UnknownKey => Reason::UnknownKey,
            Target::Administrator => Reason::WrongAdminKey,
            Target::LoginToken => Reason::WrongLoginToken,
        };
        let attempt = attempt.without_secret(&target);
        self.log(reason, attempt, now);
        let network = attempt.client.network();
        let is_last = self.failures.count((target, network), MAX_FAILURES, now);
        if is_last && let Some(n_left_out) = self.line(Reason::Last, now) {
            let (public_key, reason) = (attempt.public_key, reason.text());
            tracing::warn!(
                client.network = %network, public_key, reason, n_left_out,
                "too many wrong credentials: this network gets 429 for wrong ones for a minute"
            );
        }
        refused()
    }

    fn log(&self, reason: Reason, attempt: Attempt<'_>, now: Timestamp) {
        let Some(n_left_out) = self.line(reason, now) else {
            return;
        };
        let (address, public_key) = (attempt.client, attempt.public_key);
        let (request_id, reason) = (attempt.request_id, reason.text());
        tracing::info!(
            client.address = %address, public_key, request_id, reason, n_left_out, "credentials refused"
        );
    }

    /// Whether another line may be written about this; with the number of lines that were left out before it.
    fn line(&self, reason: Reason, now: Timestamp) -> Option<u64> {
        let standing = self.lines.take(reason, MAX_LINES, now, |_| MAX_LINES);
        match standing.retry_after_seconds {
            None => Some(self.n_left_out.swap(0, Ordering::Relaxed)),
            Some(_) => {
                self.n_left_out.fetch_add(1, Ordering::Relaxed);
                None
            }
        }
    }
}

impl<'a> Attempt<'a> {
    /// Without what stands for a public key and may be a secret: people swap the two halves.
    fn without_secret(self, target: &Target) -> Self {
        let looks_public = |key: &&'a str| {
            let is_plain = key.bytes().all(|byte| byte.is_ascii_graphic());
            key.starts_with("pk-") && key.len() <= MAX_SHOWN && is_plain
        };
        let public_key = match target {
            Target::Key(_) => self.public_key,
            Target::UnknownKey => self.public_key.filter(looks_public),
            Target::Administrator | Target::LoginToken => None,
        };
        Self { public_key, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_micros(1_800_000_000_000_000);

    #[test]
    fn a_flood_of_refusals_is_a_few_log_lines_and_the_number_of_those_left_out() {
        let throttle = Throttle::default();
        let lines: Vec<_> =
            (0..1_000).filter_map(|_| throttle.line(Reason::WrongSecret, NOW)).collect();
        assert_eq!(lines, [0; MAX_LINES as usize]);
        // Another kind of refusal is not hidden by the flood, and says how much there was.
        assert_eq!(throttle.line(Reason::Last, NOW), Some(970));
        let later = NOW.plus_millis(60_000);
        assert_eq!(throttle.line(Reason::WrongSecret, later), Some(0));
    }

    #[test]
    fn a_short_secret_is_compared_in_a_blocked_network_only_where_it_was_accepted_before() {
        let (throttle, target) = (Throttle::default(), Target::Administrator);
        let client = ClientAddress::in_request(&axum::http::Extensions::new());
        let attempt = Attempt { client, request_id: None, public_key: None };
        let compares = |secret, now| throttle.may_compare(&target, client, secret, now);
        assert!(compares("short", NOW));
        for _ in 0..MAX_FAILURES {
            throttle.failed(target.clone(), attempt, NOW);
        }
        assert!(compares("a secret of some length", NOW) && !compares("short", NOW));
        throttle.succeeded(target.clone(), client, "short", NOW);
        assert!(compares("short", NOW));
        let next_day = NOW.plus_millis(24 * 3_600 * 1_000);
        for _ in 0..MAX_FAILURES {
            throttle.failed(target.clone(), attempt, next_day);
        }
        assert!(!compares("short", next_day));
    }

    #[test]
    fn what_may_be_a_secret_is_not_logged() {
        let shown = |target, key| {
            let attempt = Attempt {
                client: ClientAddress::in_request(&axum::http::Extensions::new()),
                request_id: None,
                public_key: Some(key),
            };
            attempt.without_secret(&target).public_key
        };
        let key = Target::Key("id".to_owned());
        assert_eq!(shown(key, "any old text"), Some("any old text"));
        assert_eq!(shown(Target::UnknownKey, "pk-lf-1"), Some("pk-lf-1"));
        let long = format!("pk-{}", "a".repeat(MAX_SHOWN));
        for hidden in ["sk-lf-1", "hunter2", "pk-a\nb", &long] {
            assert_eq!(shown(Target::UnknownKey, hidden), None, "{hidden}");
        }
        assert_eq!(shown(Target::Administrator, "pk-lf-1"), None);
    }
}
