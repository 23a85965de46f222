//! A labelled value, and sums that several pages show.

use perpend_domain::observation::Usage;

use crate::Text;

#[derive(Debug)]
pub(crate) struct Fact {
    pub(crate) label: &'static str,
    pub(crate) value: Text,
}

pub(crate) fn fact(label: &'static str, value: impl Into<String>) -> Fact {
    Fact {
        label,
        value: Text::from(value.into()),
    }
}

/// All tokens: the given total, else input and output.
#[must_use]
pub fn total_tokens(usage: &Usage) -> u64 {
    let parts = || {
        usage
            .iter()
            .filter(|(key, _)| *key == "input" || *key == "output")
    };
    usage
        .get("total")
        .copied()
        .unwrap_or_else(|| parts().map(|(_, n)| *n).fold(0, u64::saturating_add))
}
