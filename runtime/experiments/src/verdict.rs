//! From a test to a verdict.

use crate::comparison::{InconclusiveCause, NoiseFloor, Verdict};
use crate::number::{items, number};
use crate::tested::Tested;

/// With fewer items that differ, the t interval says little about items that were not seen.
const FEW_MOVED: u64 = 10;
/// An event that `n` items do not show has at most the share `3 / n`, at 95 %.
const RULE_OF_THREE: f64 = 3.0;

/// The circumstances of a verdict.
pub(crate) struct Judged<'a> {
    pub(crate) tested: &'a Tested,
    /// The p-value adjusted for the number of tests.
    pub(crate) p: f64,
    /// 1 if higher is better, -1 if lower is better.
    pub(crate) sign: f64,
    pub(crate) alpha: f64,
    pub(crate) margin: f64,
    /// The largest possible difference of one item, as far as it is known.
    pub(crate) range: f64,
    pub(crate) noise: Option<&'a NoiseFloor>,
}

/// A verdict with its reason.
pub(crate) struct Decision {
    pub(crate) verdict: Verdict,
    pub(crate) cause: Option<InconclusiveCause>,
    pub(crate) reason: Option<String>,
}

impl Judged<'_> {
    /// The verdict.
    pub(crate) fn decide(&self) -> Decision {
        let mean = self.tested.mean;
        let is_real = self.p < self.alpha;
        if is_real && mean != 0.0 && self.margin <= mean.abs() {
            if let Some(noise) = self.noise.filter(|noise| mean.abs() <= noise.floor) {
                return inconclusive(InconclusiveCause::Noise, within_noise(mean, noise));
            }
            let is_better = 0.0 < mean * self.sign;
            let verdict = if is_better { Verdict::Better } else { Verdict::Worse };
            return Decision { verdict, cause: None, reason: None };
        }
        if self.is_equivalent() {
            return Decision { verdict: Verdict::Equivalent, cause: None, reason: None };
        }
        if is_real && mean != 0.0 {
            let reason = format!(
                "a difference exists, but it may be smaller or larger than the margin of {}",
                number(self.margin)
            );
            return inconclusive(InconclusiveCause::Margin, reason);
        }
        if self.margin == 0.0 && self.is_equal() {
            let n = items(self.tested.n);
            let reason = format!(
                "both runs have equal values in {n}; without a margin greater than 0, no number of items shows that they are equivalent"
            );
            return inconclusive(InconclusiveCause::NoMargin, reason);
        }
        inconclusive(InconclusiveCause::FewItems, self.few_items())
    }

    /// Whether no item differs.
    fn is_equal(&self) -> bool {
        0 < self.tested.n && self.tested.larger + self.tested.smaller == 0
    }

    /// Whether the whole interval is within the margin, and enough items differ for it to be believed.
    fn is_equivalent(&self) -> bool {
        let Some(interval) = self.tested.interval else { return false };
        let margin = self.margin;
        let is_within = -margin <= interval.lower && interval.upper <= margin;
        0.0 < margin && is_within && self.unseen() <= margin
    }

    /// The largest mean difference that items like those not seen could add.
    fn unseen(&self) -> f64 {
        let tested = self.tested;
        if tested.has_wide_interval || tested.n_units == 0 || FEW_MOVED <= tested.n_moved {
            return 0.0;
        }
        RULE_OF_THREE * self.range / tested.n_units as f64
    }

    /// The smallest true difference that would have been seen.
    pub(crate) fn smallest_effect(&self) -> Option<f64> {
        let seen = self.tested.smallest_effect(self.alpha);
        match seen {
            Some(seen) => Some(seen.max(self.unseen())),
            None => Some(self.unseen()).filter(|unseen| 0.0 < *unseen),
        }
    }

    /// The number of items that would show the observed difference, or the margin if that is larger.
    pub(crate) fn n_needed(&self) -> Option<u64> {
        let effect = self.tested.mean.abs().max(self.margin);
        if effect <= 0.0 {
            return None;
        }
        let for_test = self.tested.n_needed(effect, self.alpha);
        let unseen = self.unseen() * self.tested.n as f64 / effect;
        let for_unseen = Some(unseen.ceil()).filter(|n| 0.0 < *n && *n < 1e12).map(|n| n as u64);
        for_test.max(for_unseen)
    }

    fn few_items(&self) -> String {
        let n = self.tested.n;
        let mut reason = match self.smallest_effect() {
            Some(smallest) if n == 0 => {
                format!("a difference of less than {} cannot be seen", number(smallest))
            }
            Some(smallest) => {
                let smallest = number(smallest);
                format!("with {} a difference of less than {smallest} cannot be seen", items(n))
            }
            None if n == 1 => "one item does not show the spread of the differences".to_owned(),
            None => {
                format!("{} are too few to estimate the spread of the differences", items(n))
            }
        };
        if let Some(needed) = self.n_needed().filter(|needed| n < *needed) {
            let effect = self.tested.mean.abs().max(self.margin);
            reason.push_str(&format!(
                "; {} would show a difference of {}",
                items(needed),
                number(effect)
            ));
        }
        reason
    }
}

fn inconclusive(cause: InconclusiveCause, reason: String) -> Decision {
    Decision { verdict: Verdict::Inconclusive, cause: Some(cause), reason: Some(reason) }
}

fn within_noise(mean: f64, noise: &NoiseFloor) -> String {
    format!(
        "identical runs differ by {} as well ({} % of {} changed between them); the difference is {}",
        number(noise.floor),
        number(noise.flip_share * 100.0),
        items(noise.n),
        number(mean.abs()),
    )
}
