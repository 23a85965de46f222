//! How many requests a connection may have in flight, and when the next one may start. Time is a parameter.
//!
//! Until the provider limits us, the number in flight is the only limit. The first 429 starts a token bucket whose
//! rate is halved by further ones and grows slowly without them. `Retry-After` closes the gate for everyone.

use std::collections::VecDeque;
use std::time::Duration;

/// Rates of the last 10 seconds count.
const WINDOW: f64 = 10.0;
/// A bucket starts at least here, in requests per second.
const MIN_START: f64 = 5.0;
const MIN_RATE: f64 = 0.1;
/// Growth per second: a factor of e to the power of this.
const GROWTH: f64 = 0.01;
/// Highest rate, as a multiple of the one the bucket started with.
const MAX_GROWTH: f64 = 8.0;
/// Requests that started before the last cut do not cut again within these seconds.
const CUT_PAUSE: f64 = 5.0;
/// A bucket without requests goes away.
const IDLE: f64 = 60.0;
/// Starts that are remembered, at most.
const MAX_STARTS: usize = 10_000;

/// Seconds since an instant that all callers share.
pub(crate) type Seconds = f64;

/// Whether a request may start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Verdict {
    /// It has started.
    Go,
    /// Not before then.
    At(Seconds),
    /// When another one has finished.
    WhenFree,
}

/// The remaining allowance, as the provider reports it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Remaining {
    pub(crate) requests: Option<Left>,
    pub(crate) tokens: Option<Left>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Left {
    pub(crate) n: u64,
    /// When the provider fills it up again.
    pub(crate) reset: Option<Duration>,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Ended {
    /// The provider limited it.
    Limited { retry_after: Option<Duration> },
    /// The provider is down, and says for how long.
    Unavailable { retry_after: Duration },
    /// It ended in any other way; with the tokens it took, where they are known.
    Otherwise { tokens: u64 },
}

#[derive(Debug)]
pub(crate) struct Gate {
    max_in_flight: usize,
    in_flight: usize,
    closed_until: Seconds,
    starts: VecDeque<Seconds>,
    bucket: Option<Bucket>,
    /// Mean tokens of a request, recent ones weighing more; 0 while unknown.
    tokens_per_request: f64,
}

#[derive(Debug)]
struct Bucket {
    start_rate: f64,
    rate: f64,
    tokens: f64,
    /// When `rate` and `tokens` were as they are.
    at: Seconds,
    last_cut: Seconds,
    last_request: Seconds,
    /// Requests that the provider lets us start until then.
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

    /// The setting may change while calls are in flight.
    pub(crate) fn set_max_in_flight(&mut self, max: usize) {
        self.max_in_flight = max.max(1);
    }

    pub(crate) const fn n_in_flight(&self) -> usize {
        self.in_flight
    }

    /// Until when the gate is closed for everyone.
    pub(crate) fn closed_until(&self, now: Seconds) -> Option<Seconds> {
        (now < self.closed_until).then_some(self.closed_until)
    }

    /// Starts a request, or says when to ask again.
    pub(crate) fn start(&mut self, now: Seconds) -> Verdict {
        if now < self.closed_until {
            return Verdict::At(self.closed_until);
        }
        if self.max_in_flight <= self.in_flight {
            return Verdict::WhenFree;
        }
        let is_idle = |bucket: &Bucket| IDLE <= now - bucket.last_request;
        if self.bucket.as_ref().is_some_and(is_idle) {
            self.bucket = None;
        }
        if let Some(bucket) = &mut self.bucket
            && let Err(at) = bucket.take(now)
        {
            return Verdict::At(at);
        }
        self.in_flight += 1;
        self.starts.push_back(now);
        self.forget_starts(now);
        Verdict::Go
    }

    /// A request that [`Self::start`] admitted was not sent: its place and its token are free again.
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

    /// A request that [`Self::start`] let go has ended.
    pub(crate) fn end(&mut self, started: Seconds, now: Seconds, ended: Ended) {
        self.in_flight = self.in_flight.saturating_sub(1);
        match ended {
            Ended::Limited { retry_after } => self.limited(started, now, retry_after),
            Ended::Unavailable { retry_after } => self.close(now, retry_after),
            Ended::Otherwise { tokens: 0 } => {}
            Ended::Otherwise { tokens } => {
                let tokens = tokens as f64;
                self.tokens_per_request = match self.tokens_per_request {
                    0.0 => tokens,
                    mean => mean.mul_add(0.8, tokens * 0.2),
                };
            }
        }
    }

    /// Caps the bucket at the remaining allowance.
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

    /// Lets requests start again at once, whatever the provider asked for.
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

    /// Takes one token, or says from when on there is one.
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
            // The rate only grows, so that there is a token by then; a little more for rounding.
            return Err(now + (1.0 - self.tokens) / self.rate + 1e-6);
        }
        self.tokens -= 1.0;
        self.last_request = now;
        if let Some((left, _)) = &mut self.cap {
            *left -= 1.0;
        }
        Ok(())
    }

    /// Lets the time since the last look pass: the integral of a rate that grows to its highest.
    fn grow(&mut self, now: Seconds) {
        let passed = (now - self.at).max(0.0);
        let highest = self.start_rate * MAX_GROWTH;
        let growing = ((highest / self.rate).ln() / GROWTH).clamp(0.0, passed);
        let factor = (growing * GROWTH).exp();
        let gained = self.rate * (factor - 1.0) / GROWTH + highest * (passed - growing);
        self.rate = (self.rate * factor).clamp(MIN_RATE, highest);
        // No more at once than a second's worth.
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
