//! Limits the number of requests in flight and the request rate of a connection. Time is a parameter.
//!
//! Before the first 429, only the number in flight is limited. The first 429 starts a token bucket. Further ones halve its
//! rate, which grows slowly without them. `Retry-After` closes the gate for all requests.

use std::collections::VecDeque;
use std::time::Duration;

/// The rate is measured over this time, in seconds.
const WINDOW: f64 = 10.0;
/// Minimum initial rate of a bucket, in requests per second.
const MIN_START: f64 = 5.0;
const MIN_RATE: f64 = 0.1;
/// Exponential growth rate of a bucket per second.
const GROWTH: f64 = 0.01;
/// Maximum rate of a bucket, as a multiple of its initial rate.
const MAX_GROWTH: f64 = 8.0;
/// Within this time after a cut, in seconds, requests that started before it do not cut the rate again.
const CUT_PAUSE: f64 = 5.0;
/// A bucket is removed after this time without requests, in seconds.
const IDLE: f64 = 60.0;
/// Maximum number of recorded start times.
const MAX_STARTS: usize = 10_000;

/// Seconds since a common origin.
pub(crate) type Seconds = f64;

/// Whether a request may start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Decision {
    /// The request has started.
    Start,
    /// It may start at this time.
    At(Seconds),
    /// It may start when another request ends.
    WhenFree,
}

/// The remaining quotas that the provider reports.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Remaining {
    pub(crate) requests: Option<Quota>,
    pub(crate) tokens: Option<Quota>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Quota {
    pub(crate) n: u64,
    /// Time until the provider resets the quota.
    pub(crate) reset: Option<Duration>,
}

/// The end of a request, as far as the gate is concerned.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum RequestEnd {
    /// Rejected by the rate limit.
    Limited { retry_after: Option<Duration> },
    /// The provider is unavailable and sent `Retry-After`.
    Unavailable { retry_after: Duration },
    /// Any other end, with the used tokens; 0 when unknown.
    Otherwise { tokens: u64 },
}

#[derive(Debug)]
pub(crate) struct Gate {
    max_in_flight: usize,
    in_flight: usize,
    closed_until: Seconds,
    starts: VecDeque<Seconds>,
    bucket: Option<Bucket>,
    /// Exponential moving average of the tokens of a request; 0 while unknown.
    tokens_per_request: f64,
}

#[derive(Debug)]
struct Bucket {
    start_rate: f64,
    rate: f64,
    tokens: f64,
    /// When `rate` and `tokens` were updated.
    at: Seconds,
    last_cut: Seconds,
    last_request: Seconds,
    /// Remaining quota of the provider, and when it resets.
    cap: Option<(f64, Seconds)>,
}

impl Gate {
    pub(crate) fn new(max_in_flight: usize) -> Self {
        Self {
            max_in_flight: max_in_flight.max(1),
            in_flight: 0,
            closed_until: 0.0,
            starts: VecDeque::new(),
            bucket: None,
            tokens_per_request: 0.0,
        }
    }

    /// May be called while requests are in flight.
    pub(crate) fn set_max_in_flight(&mut self, max: usize) {
        self.max_in_flight = max.max(1);
    }

    pub(crate) const fn n_in_flight(&self) -> usize {
        self.in_flight
    }

    /// When the closed gate opens; `None` when it is open.
    pub(crate) fn closed_until(&self, now: Seconds) -> Option<Seconds> {
        (now < self.closed_until).then_some(self.closed_until)
    }

    /// Starts a request, or returns when to try again.
    pub(crate) fn start(&mut self, now: Seconds) -> Decision {
        if now < self.closed_until {
            return Decision::At(self.closed_until);
        }
        if self.max_in_flight <= self.in_flight {
            return Decision::WhenFree;
        }
        let is_idle = |bucket: &Bucket| IDLE <= now - bucket.last_request;
        if self.bucket.as_ref().is_some_and(is_idle) {
            self.bucket = None;
        }
        if let Some(bucket) = &mut self.bucket
            && let Err(at) = bucket.take(now)
        {
            return Decision::At(at);
        }
        self.in_flight += 1;
        self.starts.push_back(now);
        self.forget_starts(now);
        Decision::Start
    }

    /// Returns the slot and the token of a request that [`Self::start`] admitted but that was not sent.
    pub(crate) fn undo(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
        self.starts.pop_back();
        if let Some(bucket) = &mut self.bucket {
            bucket.tokens += 1.0;
            if let Some((left, _)) = &mut bucket.cap {
                *left += 1.0;
            }
        }
    }

    /// Reports the end of a request that [`Self::start`] admitted.
    pub(crate) fn end(&mut self, started: Seconds, now: Seconds, end: RequestEnd) {
        self.in_flight = self.in_flight.saturating_sub(1);
        match end {
            RequestEnd::Limited { retry_after } => self.limited(started, now, retry_after),
            RequestEnd::Unavailable { retry_after } => self.close(now, retry_after),
            RequestEnd::Otherwise { tokens: 0 } => {}
            RequestEnd::Otherwise { tokens } => {
                let tokens = tokens as f64;
                self.tokens_per_request = match self.tokens_per_request {
                    0.0 => tokens,
                    mean => mean.mul_add(0.8, tokens * 0.2),
                };
            }
        }
    }

    /// Caps the bucket at the remaining quota.
    pub(crate) fn remaining(&mut self, now: Seconds, remaining: Remaining) {
        let per_request = self.tokens_per_request.max(1.0);
        let Some(bucket) = &mut self.bucket else {
            return;
        };
        let requests = remaining.requests.map(|left| (left.n as f64, left.reset));
        let tokens = remaining.tokens;
        let tokens = tokens.map(|left| ((left.n as f64 / per_request).floor(), left.reset));
        for (n, reset) in requests.into_iter().chain(tokens) {
            let until = now + reset.map_or(1.0, |reset| reset.as_secs_f64());
            let is_tighter = bucket.cap.is_none_or(|(cap, end)| end <= now || n < cap);
            if is_tighter {
                bucket.cap = Some((n, until));
            }
        }
    }

    fn close(&mut self, now: Seconds, wait: Duration) {
        self.closed_until = self.closed_until.max(now + wait.as_secs_f64());
    }

    /// Opens a closed gate.
    pub(crate) fn reopen(&mut self) {
        self.closed_until = 0.0;
    }

    fn limited(&mut self, started: Seconds, now: Seconds, retry_after: Option<Duration>) {
        if let Some(wait) = retry_after {
            self.close(now, wait);
        }
        self.forget_starts(now);
        let reached = self.starts.len() as f64 / WINDOW;
        match &mut self.bucket {
            None => self.bucket = Some(Bucket::new((reached / 2.0).max(MIN_START), now)),
            Some(bucket) => bucket.cut(started, now),
        }
    }

    fn forget_starts(&mut self, now: Seconds) {
        let is_old = |start: &Seconds| WINDOW < now - start;
        while self.starts.front().is_some_and(is_old) || MAX_STARTS < self.starts.len() {
            self.starts.pop_front();
        }
    }
}

impl Bucket {
    const fn new(rate: f64, now: Seconds) -> Self {
        Self {
            start_rate: rate,
            rate,
            tokens: 0.0,
            at: now,
            last_cut: now,
            last_request: now,
            cap: None,
        }
    }

    /// Takes one token, or returns when one is available.
    fn take(&mut self, now: Seconds) -> Result<(), Seconds> {
        self.grow(now);
        if let Some((left, until)) = self.cap {
            match now < until {
                true if left < 1.0 => return Err(until),
                true => {}
                false => self.cap = None,
            }
        }
        if self.tokens < 1.0 {
            // The rate only grows, so that a token is available by then; the constant compensates rounding.
            return Err(now + (1.0 - self.tokens) / self.rate + 1e-6);
        }
        self.tokens -= 1.0;
        self.last_request = now;
        if let Some((left, _)) = &mut self.cap {
            *left -= 1.0;
        }
        Ok(())
    }

    /// Adds the tokens since the last update: the integral of a rate that grows up to its maximum.
    fn grow(&mut self, now: Seconds) {
        let passed = (now - self.at).max(0.0);
        let highest = self.start_rate * MAX_GROWTH;
        let growing = ((highest / self.rate).ln() / GROWTH).clamp(0.0, passed);
        let factor = (growing * GROWTH).exp();
        let gained = self.rate * (factor - 1.0) / GROWTH + highest * (passed - growing);
        self.rate = (self.rate * factor).clamp(MIN_RATE, highest);
        // The burst is limited to the tokens of one second.
        self.tokens = (self.tokens + gained).min(self.rate.max(1.0));
        self.at = now.max(self.at);
    }

    fn cut(&mut self, started: Seconds, now: Seconds) {
        self.grow(now);
        if started < self.last_cut && now - self.last_cut < CUT_PAUSE {
            return;
        }
        self.rate = (self.rate / 2.0).max(MIN_RATE);
        self.tokens = self.tokens.min(self.rate.max(1.0));
        self.last_cut = now;
    }
}

#[cfg(test)]
mod tests;
