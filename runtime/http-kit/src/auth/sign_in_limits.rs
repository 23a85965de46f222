//! Limits of attempts to sign in with a password.
//!
//! Invariants:
//! - **No account is locked.** After some failures an account has one attempt after a growing delay of at most 15
//!   minutes; a browser that signed in before has an allowance of its own.
//! - **The limits reveal nothing**: an account that does not exist has the same ones.
//! - **An attempt counts before it is compared**, so that attempts at the same time do not exceed a limit.
//! - **Memory is bounded** (`limits::PerKey`). State is in this process.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ipnet::IpNet;
use perpend_domain::ids::IdSource;
use perpend_domain::time::Timestamp;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use crate::client_address::ClientAddress;
use crate::limits::PerKey;

/// Failures of an account before its attempts are delayed.
const FREE_FAILURES: u32 = 5;
/// Longest delay in seconds.
const MAX_DELAY_S: i64 = 900;
/// Failures of an account are forgotten after this time without one.
const FORGOTTEN_S: i64 = 3_600;
/// Failures of a network, over all accounts.
const MAX_OF_NETWORK: u32 = 30;
/// Failures of a known browser.
const MAX_OF_DEVICE: u32 = 10;
/// Period of the counts of networks and browsers.
const PERIOD_S: i64 = 600;

/// Digest of an e-mail address.
type EmailDigest = [u8; 32];

#[derive(Clone, Copy, Debug)]
struct Count {
    n: u32,
    /// Time of the last failure of an account; start of the period of a network or a browser.
    at: Timestamp,
}

fn seconds_since(at: Timestamp, now: Timestamp) -> i64 {
    now.micros_since(at) / 1_000_000
}

impl Count {
    /// Seconds until an account with these failures may try again.
    fn delay(self, now: Timestamp) -> Option<u64> {
        let doublings = self.n.checked_sub(FREE_FAILURES)?;
        let delay = 1_i64.checked_shl(doublings.min(20)).unwrap_or(MAX_DELAY_S).min(MAX_DELAY_S);
        let passed = seconds_since(self.at, now);
        // A clock that was set back causes no delay.
        (0..delay).contains(&passed).then(|| (delay - passed).unsigned_abs())
    }

    /// Seconds until the period with too many failures ends.
    fn rest_of_period(self, max: u32, now: Timestamp) -> Option<u64> {
        let passed = seconds_since(self.at, now);
        (max <= self.n && (0..PERIOD_S).contains(&passed))
            .then(|| (PERIOD_S - passed).unsigned_abs())
    }

    fn is_within(self, seconds: i64, now: Timestamp) -> bool {
        (0..seconds).contains(&seconds_since(self.at, now))
    }
}

/// A browser that signed in before, as its cookie proves.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Device(String);

/// Counts failed attempts.
#[derive(Debug)]
pub(crate) struct SignInLimits {
    key: [u8; 32],
    accounts: PerKey<EmailDigest, Count>,
    networks: PerKey<IpNet, Count>,
    devices: PerKey<Device, Count>,
}

/// Who attempts to sign in.
#[derive(Clone, Debug)]
pub(super) struct Attempt<'a> {
    pub(super) email: &'a str,
    pub(super) client: ClientAddress,
    pub(super) device: Option<Device>,
}

impl SignInLimits {
    pub(crate) fn new(ids: &dyn IdSource) -> Self {
        let mut hash = Sha256::new();
        for _ in 0..4 {
            hash.update(ids.uuid().as_bytes());
        }
        Self {
            key: hash.finalize().into(),
            accounts: PerKey::default(),
            networks: PerKey::default(),
            devices: PerKey::default(),
        }
    }

    fn keyed(&self, domain: &str, text: &str) -> [u8; 32] {
        let inner: [u8; 32] = Sha256::new()
            .chain_update(self.key)
            .chain_update(domain)
            .chain_update([0])
            .chain_update(text)
            .finalize()
            .into();
        Sha256::new().chain_update(self.key).chain_update(inner).finalize().into()
    }

    /// The value of the cookie of a browser that signed in to this account.
    pub(super) fn device_cookie(&self, email: &str, ids: &dyn IdSource) -> String {
        let id = ids.uuid().simple().to_string();
        let proof = self.keyed("device", &format!("{id} {email}"));
        format!("{id}.{}", URL_SAFE_NO_PAD.encode(proof))
    }

    /// The browser of a cookie, if it signed in to this account before.
    pub(super) fn device(&self, cookie: &str, email: &str) -> Option<Device> {
        let (id, proof) = cookie.split_once('.')?;
        let proof = URL_SAFE_NO_PAD.decode(proof).ok()?;
        let expected = self.keyed("device", &format!("{id} {email}"));
        let is_known: bool = expected.as_slice().ct_eq(&proof).into();
        is_known.then(|| Device(id.to_owned()))
    }

    /// Counts an attempt as a failure, unless it is refused: then the seconds until the next one.
    pub(super) fn begin(&self, attempt: &Attempt<'_>, now: Timestamp) -> Result<(), u64> {
        let fresh = || Count { n: 0, at: now };
        let in_period = |max: u32| {
            move |count: &mut Count| {
                if !count.is_within(PERIOD_S, now) {
                    *count = Count { n: 0, at: now };
                }
                match count.rest_of_period(max, now) {
                    Some(seconds) => Err(seconds),
                    None => {
                        count.n += 1;
                        Ok(())
                    }
                }
            }
        };
        let is_needed = |count: &mut Count| count.is_within(PERIOD_S, now);
        if let Some(device) = &attempt.device {
            let count = in_period(MAX_OF_DEVICE);
            return self.devices.with(device.clone(), fresh, |_, one| is_needed(one), count);
        }
        let network = attempt.client.network();
        let count = in_period(MAX_OF_NETWORK);
        self.networks.with(network, fresh, |_, one| is_needed(one), count)?;
        let account = self.keyed("email", attempt.email);
        let is_needed = |_: &EmailDigest, count: &mut Count| count.is_within(FORGOTTEN_S, now);
        self.accounts.with(account, fresh, is_needed, |count| {
            if !count.is_within(FORGOTTEN_S, now) {
                *count = Count { n: 0, at: now };
            }
            match count.delay(now) {
                Some(seconds) => Err(seconds),
                None => {
                    *count = Count { n: count.n.saturating_add(1), at: now };
                    Ok(())
                }
            }
        })
    }

    /// Removes the failure that [`Self::begin`] counted, after the right password.
    pub(super) fn succeeded(&self, attempt: &Attempt<'_>, now: Timestamp) {
        let fresh = || Count { n: 0, at: now };
        let undo = |count: &mut Count| count.n = count.n.saturating_sub(1);
        if let Some(device) = &attempt.device {
            return self.devices.with(device.clone(), fresh, |_, _| true, undo);
        }
        self.networks.with(attempt.client.network(), fresh, |_, _| true, undo);
        let account = self.keyed("email", attempt.email);
        self.accounts.with(account, fresh, |_, _| true, |count| *count = Count { n: 0, at: now });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default)]
    struct SequentialIds(std::sync::atomic::AtomicU64);

    impl IdSource for SequentialIds {
        fn uuid(&self) -> uuid::Uuid {
            let n = self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            uuid::Uuid::from_u128(u128::from(n))
        }
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(1_800_000_000_000 + 1_000 * seconds)
    }

    fn attempt(email: &str) -> Attempt<'_> {
        let client = ClientAddress::in_request(&axum::http::Extensions::new());
        Attempt { email, client, device: None }
    }

    #[test]
    fn an_account_has_some_free_attempts_and_then_a_growing_delay_of_15_minutes_at_most() {
        let limits = SignInLimits::new(&SequentialIds::default());
        let ada = attempt("ada");
        for _ in 0..5 {
            assert_eq!(limits.begin(&ada, at(0)), Ok(()));
        }
        assert_eq!(limits.begin(&ada, at(0)), Err(1));
        assert_eq!(limits.begin(&ada, at(1)), Ok(()));
        assert_eq!(limits.begin(&ada, at(2)), Err(1));
        assert_eq!(limits.begin(&ada, at(3)), Ok(()));
        assert_eq!(limits.begin(&attempt("bob"), at(3)), Ok(()), "another account");
        let mut now = 3;
        let mut longest = 0;
        for _ in 0..20 {
            if let Err(seconds) = limits.begin(&ada, at(now)) {
                longest = longest.max(seconds);
                now += seconds.cast_signed();
                assert_eq!(limits.begin(&ada, at(now)), Ok(()));
            }
        }
        assert_eq!(longest, 900);
        limits.succeeded(&ada, at(now));
        assert_eq!(limits.begin(&ada, at(now)), Ok(()));
    }

    #[test]
    fn a_network_has_one_allowance_over_all_accounts() {
        let limits = SignInLimits::new(&SequentialIds::default());
        let emails: Vec<String> = (0..31).map(|n| format!("user-{n}")).collect();
        for email in &emails[..30] {
            assert_eq!(limits.begin(&attempt(email), at(0)), Ok(()));
        }
        assert_eq!(limits.begin(&attempt(&emails[30]), at(1)), Err(599));
        assert_eq!(limits.begin(&attempt(&emails[30]), at(600)), Ok(()));
    }

    #[test]
    fn a_known_browser_has_an_allowance_of_its_own_for_its_account() {
        let ids = SequentialIds::default();
        let limits = SignInLimits::new(&ids);
        let cookie = limits.device_cookie("ada", &ids);
        for _ in 0..6 {
            let _ = limits.begin(&attempt("ada"), at(0));
        }
        let known = Attempt { device: limits.device(&cookie, "ada"), ..attempt("ada") };
        assert!(known.device.is_some());
        for _ in 0..10 {
            assert_eq!(limits.begin(&known, at(0)), Ok(()));
        }
        assert_eq!(limits.begin(&known, at(0)), Err(600));
        assert_eq!(limits.device(&cookie, "bob"), None);
        for forged in ["", "a.b", &cookie[..40]] {
            assert_eq!(limits.device(forged, "ada"), None, "{forged}");
        }
    }
}
