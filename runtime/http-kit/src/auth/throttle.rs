//! Wrong credentials are limited per network and logged with the address of the client.
//!
//! Invariants:
//! - **Wrong credentials lock no client out.** A network that fails too often gets 429 for its failures; the right secret is
//!   still accepted from it, so an attacker behind the same proxy stops no client.
//! - **A secret that can be guessed is not compared while its network is blocked**, so a right guess and a wrong one get
//!   the same response. It can be guessed when it has fewer than [`STRONG_CHARS`] characters; the settings of the first start
//!   alone allow that. Where such a secret was accepted from the network within a day, it is compared.
//! - **Memory and log are bounded.** Unknown keys share one count per network; a flood of refusals
//!   is a few lines a minute and the number of omitted ones.
//! - **No secret reaches the log.** A secret may have been sent in the place of a public key, so an unknown key is
//!   logged only when it looks like a public key.

use std::sync::atomic::{AtomicU64, Ordering};

use ipnet::IpNet;
use perpend_domain::time::Timestamp;

use crate::client_address::ClientAddress;
use crate::limits::{Buckets, Failures, PerKey};
use crate::problem::{Code, Problem};

/// Wrong secrets for one public key from one network that get 401; further ones get 429 for a minute.
const MAX_FAILURES: usize = 20;
/// Least characters of a secret that cannot be guessed: generated secrets have more, and those that the
/// API accepts have at least as many.
pub const STRONG_CHARS: usize = 16;
/// How long a short secret is accepted from a blocked network after it was accepted before.
const PROVEN_MICROS: i64 = 24 * 3_600 * 1_000_000;
/// Log lines a minute about refusals of one kind.
const MAX_LINES: u32 = 30;
/// Longest unknown public key that is logged.
const MAX_SHOWN: usize = 64;

/// The target of an authentication attempt.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum AuthTarget {
    /// A known key pair, by its id.
    Key(String),
    /// A key that does not exist, or a public key alone that is not accepted.
    UnknownKey,
    /// All projects, with the key of the administrator.
    Administrator,
    /// The pages, with the login token.
    LoginToken,
    /// The metrics of this process.
    MetricsToken,
}

/// Why credentials were refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum RefusalReason {
    Missing,
    WrongSecret,
    UnknownKey,
    WrongAdminKey,
    WrongLoginToken,
    WrongMetricsToken,
    Expired,
    Blocked,
    /// The failure that starts a block.
    Last,
}

impl RefusalReason {
    const fn text(self) -> &'static str {
        match self {
            Self::Missing => "missing or malformed credentials",
            Self::WrongSecret => "wrong secret",
            Self::UnknownKey => "unknown or expired public key",
            Self::WrongAdminKey => "wrong administrator key",
            Self::WrongLoginToken => "wrong login token",
            Self::WrongMetricsToken => "wrong metrics token",
            Self::Expired => "expired key pair or secret",
            Self::Blocked | Self::Last => "too many wrong credentials",
        }
    }
}

/// Sender of an authentication attempt, for the log.
#[derive(Clone, Copy, Debug)]
pub struct AuthAttempt<'a> {
    pub client: ClientAddress,
    pub request_id: Option<&'a str>,
    /// As sent.
    pub public_key: Option<&'a str>,
}

/// Counts and logs wrong credentials.
#[derive(Debug, Default)]
pub struct Throttle {
    failures: Failures<(AuthTarget, IpNet)>,
    /// When a short secret was last accepted.
    proven: PerKey<(AuthTarget, IpNet), Timestamp>,
    lines: Buckets<RefusalReason>,
    n_omitted: AtomicU64,
}

fn is_strong(secret: &str) -> bool {
    STRONG_CHARS <= secret.chars().count()
}

fn is_recent(at: Timestamp, now: Timestamp) -> bool {
    (0..PROVEN_MICROS).contains(&now.micros_since(at))
}

/// The response to missing or wrong credentials.
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
        target: &AuthTarget,
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

    /// Records an accepted secret.
    pub fn succeeded(
        &self,
        target: AuthTarget,
        client: ClientAddress,
        secret: &str,
        now: Timestamp,
    ) {
        if !is_strong(secret) {
            let key = (target, client.network());
            let is_needed = |_: &_, at: &mut Timestamp| is_recent(*at, now);
            self.proven.with(key, || now, is_needed, |at| *at = now);
        }
    }

    /// Logs a request without credentials. It does not count as an attempt.
    pub(super) fn missing(&self, attempt: AuthAttempt<'_>, now: Timestamp) {
        self.log(RefusalReason::Missing, attempt, now);
    }

    /// Logs a request with the right secret of a key after its end. It does not count as an attempt.
    pub(super) fn expired(&self, attempt: AuthAttempt<'_>, now: Timestamp) {
        self.log(RefusalReason::Expired, attempt, now);
    }

    /// Counts and logs wrong credentials, and returns the response.
    pub fn failed(&self, target: AuthTarget, attempt: AuthAttempt<'_>, now: Timestamp) -> Problem {
        let key = (target.clone(), attempt.client.network());
        if let Some(seconds) = self.failures.blocked_for(&key, now) {
            self.log(RefusalReason::Blocked, attempt.without_secret(&target), now);
            return Problem::too_many_attempts(seconds);
        }
        let reason = match target {
            AuthTarget::Key(_) => RefusalReason::WrongSecret,
            AuthTarget::UnknownKey => RefusalReason::UnknownKey,
            AuthTarget::Administrator => RefusalReason::WrongAdminKey,
            AuthTarget::LoginToken => RefusalReason::WrongLoginToken,
            AuthTarget::MetricsToken => RefusalReason::WrongMetricsToken,
        };
        let attempt = attempt.without_secret(&target);
        self.log(reason, attempt, now);
        let network = attempt.client.network();
        let is_last = self.failures.count((target, network), MAX_FAILURES, now);
        if is_last && let Some(n_omitted) = self.line(RefusalReason::Last, now) {
            let (public_key, reason) = (attempt.public_key, reason.text());
            tracing::warn!(
                client.network = %network, public_key, reason, n_omitted,
                "too many wrong credentials: this network gets 429 for further ones for a minute"
            );
        }
        refused()
    }

    fn log(&self, reason: RefusalReason, attempt: AuthAttempt<'_>, now: Timestamp) {
        let Some(n_omitted) = self.line(reason, now) else {
            return;
        };
        let (address, public_key) = (attempt.client, attempt.public_key);
        let (request_id, reason) = (attempt.request_id, reason.text());
        tracing::info!(
            client.address = %address, public_key, request_id, reason, n_omitted, "credentials refused"
        );
    }

    /// Permits a log line about this reason, with the number of lines omitted before it.
    fn line(&self, reason: RefusalReason, now: Timestamp) -> Option<u64> {
        let status = self.lines.take(reason, MAX_LINES, now, |_| MAX_LINES);
        match status.retry_after_seconds {
            None => Some(self.n_omitted.swap(0, Ordering::Relaxed)),
            Some(_) => {
                self.n_omitted.fetch_add(1, Ordering::Relaxed);
                None
            }
        }
    }
}

impl<'a> AuthAttempt<'a> {
    /// Without the public key if it may be a secret: callers confuse the two halves.
    fn without_secret(self, target: &AuthTarget) -> Self {
        let looks_public = |key: &&'a str| {
            let is_plain = key.bytes().all(|byte| byte.is_ascii_graphic());
            key.starts_with("pk-") && key.len() <= MAX_SHOWN && is_plain
        };
        let public_key = match target {
            AuthTarget::Key(_) => self.public_key,
            AuthTarget::UnknownKey => self.public_key.filter(looks_public),
            AuthTarget::Administrator | AuthTarget::LoginToken | AuthTarget::MetricsToken => None,
        };
        Self { public_key, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_micros(1_800_000_000_000_000);

    #[test]
    fn a_flood_of_refusals_is_a_few_log_lines_and_the_number_of_omitted_ones() {
        let throttle = Throttle::default();
        let lines: Vec<_> =
            (0..1_000).filter_map(|_| throttle.line(RefusalReason::WrongSecret, NOW)).collect();
        assert_eq!(lines, [0; MAX_LINES as usize]);
        // Another reason is logged despite the flood, with the number of omitted lines.
        assert_eq!(throttle.line(RefusalReason::Last, NOW), Some(970));
        let later = NOW.plus_millis(60_000);
        assert_eq!(throttle.line(RefusalReason::WrongSecret, later), Some(0));
    }

    #[test]
    fn a_short_secret_is_compared_in_a_blocked_network_only_where_it_was_accepted_before() {
        let (throttle, target) = (Throttle::default(), AuthTarget::Administrator);
        let client = ClientAddress::in_request(&axum::http::Extensions::new());
        let attempt = AuthAttempt { client, request_id: None, public_key: None };
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
    fn a_possible_secret_is_not_logged() {
        let shown = |target, key| {
            let attempt = AuthAttempt {
                client: ClientAddress::in_request(&axum::http::Extensions::new()),
                request_id: None,
                public_key: Some(key),
            };
            attempt.without_secret(&target).public_key
        };
        let key = AuthTarget::Key("id".to_owned());
        assert_eq!(shown(key, "any old text"), Some("any old text"));
        assert_eq!(shown(AuthTarget::UnknownKey, "pk-lf-1"), Some("pk-lf-1"));
        let long = format!("pk-{}", "a".repeat(MAX_SHOWN));
        for hidden in ["sk-lf-1", "hunter2", "pk-a\nb", &long] {
            assert_eq!(shown(AuthTarget::UnknownKey, hidden), None, "{hidden}");
        }
        assert_eq!(shown(AuthTarget::Administrator, "pk-lf-1"), None);
    }
}
