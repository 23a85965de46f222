//! Terms of a filter as chips.

use perpend_domain::query::{Parsed, QueryFault, Term};
use perpend_views::{TermChip, Text};

/// One chip per term of the filter `q`.
pub(crate) fn terms(q: &str, parsed: &Parsed) -> Vec<TermChip> {
    let chip = |term: &Term| {
        let fault = term.outcome.as_ref().err();
        let before = q.get(..term.at.start).unwrap_or_default();
        let behind = q.get(term.at.end..).unwrap_or_default();
        TermChip {
            text: Text::from(term.text.as_str()),
            problem: fault.map(|fault| Text::from(fault.message.as_str())),
            without: format!("{} {}", before.trim_end(), behind.trim_start()).trim().to_owned(),
            corrected: fault.and_then(|fault| corrected(q, fault)),
            alone: None,
        }
    };
    parsed.terms.iter().map(chip).collect()
}

/// The filter with the invalid part replaced by the suggestion.
fn corrected(q: &str, fault: &QueryFault) -> Option<String> {
    let (before, behind) = (q.get(..fault.at.start)?, q.get(fault.at.end..)?);
    Some(format!("{before}{}{behind}", fault.guess.as_ref()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use perpend_domain::filter::TRACES;
    use perpend_domain::query::parse;

    #[test]
    fn a_chip_links_to_the_filter_without_its_term() {
        let q = "level:ERROR latncy:>2 \"a b\"";
        let terms = terms(q, &parse(q, TRACES));
        let without: Vec<_> = terms.iter().map(|chip| chip.without.as_str()).collect();
        let wanted = ["latncy:>2 \"a b\"", "level:ERROR \"a b\"", "level:ERROR latncy:>2"];
        assert_eq!(without, wanted);
        let problem = terms[1].problem.as_ref().unwrap();
        assert!(problem.raw().contains("latency"), "{problem}");
        let corrected: Vec<_> = terms.iter().map(|chip| chip.corrected.as_deref()).collect();
        let wanted = "level:ERROR latency:>2 \"a b\"";
        assert_eq!(corrected, [None, Some(wanted), None]);
        let first = |q: &str| super::terms(q, &parse(q, TRACES))[0].corrected.clone();
        assert_eq!(first("level:error").as_deref(), Some("level:ERROR"));
        // There is no link without a suggestion.
        assert_eq!(first("level:x"), None);
        assert_eq!(first("latency:fast"), None);
    }
}
