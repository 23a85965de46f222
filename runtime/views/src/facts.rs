//! Labelled values of several pages.

use crate::format::clock;
use perpend_domain::observation::Usage;
use perpend_domain::quantity::Quantity;
use perpend_domain::time::Timestamp;
use perpend_domain::usage::{Side, side_of};

use crate::{Html, Text};

#[derive(Debug)]
pub(crate) struct Fact {
    pub(crate) label: &'static str,
    pub(crate) value: Html,
}

pub(crate) fn fact(label: &'static str, value: impl Into<String>) -> Fact {
    Fact { label, value: Text::from(value.into()).into() }
}

/// A time, with microseconds if `is_exact`.
pub(crate) fn fact_at(label: &'static str, at: Timestamp, is_exact: bool) -> Fact {
    let iso = at.to_iso_micros();
    let value = match is_exact {
        true => Html::time(&iso, &iso.replace('T', " ").replace('Z', " UTC")),
        false => utc_time(at),
    };
    Fact { label, value }
}

/// A UTC time to the second; a script converts it to the time zone of the browser.
#[must_use]
pub fn utc_time(at: Timestamp) -> Html {
    Html::time(&at.to_iso_micros(), &format!("{} UTC", clock(at)))
}

/// The reported total, or else the sum of input and output tokens.
#[must_use]
pub fn total_tokens(usage: &Usage) -> u64 {
    let parts = || usage.iter().filter(|(key, _)| *key == "input" || *key == "output");
    usage.get("total").copied().unwrap_or_else(|| parts().map(|(_, n)| *n).sum()).to_u64()
}

/// The sum of the buckets of this side; absent without any.
#[must_use]
pub fn side_tokens(usage: &Usage, side: Side) -> Option<u64> {
    let own = || usage.iter().filter(|(key, _)| side_of(key) == Some(side));
    let n = own().map(|(_, n)| *n).sum::<Quantity>().to_u64();
    own().next().is_some().then_some(n)
}
