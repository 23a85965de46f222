//! How probable each choice was, from the log-probabilities of the tokens that tell the choices apart.

use perpend_plugin::Json;
use perpend_plugin::model::TokenLogprob;

use crate::shape::object;

/// Below this coverage a distribution says too little to replace the choice.
pub(crate) const MIN_COVERAGE: f64 = 0.9;

/// How probable each choice was.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Distribution {
    /// Each choice with its share; the shares sum up to 1.
    pub(crate) shares: Vec<(String, f64)>,
    /// The probability of the tokens that were seen to begin a choice.
    pub(crate) coverage: f64,
}

impl Distribution {
    /// The distribution over `verdicts`, each with the text that stands for it in the reply, where that text begins at byte
    /// `start` of the reply. `None` when no token there begins a verdict.
    pub(crate) fn of(
        tokens: &[TokenLogprob],
        start: usize,
        verdicts: &[(String, String)],
    ) -> Option<Self> {
        let masses = masses(tokens, start, verdicts)?;
        let seen: f64 = masses.iter().sum();
        if seen <= 0.0 {
            return None;
        }
        let names = verdicts.iter().map(|(name, _)| name.clone());
        Some(Self {
            shares: names.zip(masses.iter().map(|mass| mass / seen)).collect(),
            coverage: seen.min(1.0),
        })
    }

    /// How far the most probable choice is ahead of the next one.
    pub(crate) fn margin(&self) -> f64 {
        let mut shares: Vec<f64> = self.shares.iter().map(|(_, share)| *share).collect();
        shares.sort_by(|a, b| b.total_cmp(a));
        shares.first().copied().unwrap_or(0.0) - shares.get(1).copied().unwrap_or(0.0)
    }

    /// The mean of the numbers of the choices; `None` when too little was seen.
    pub(crate) fn expectation(&self, scores: &[(String, f64)]) -> Option<f64> {
        if self.coverage < MIN_COVERAGE {
            return None;
        }
        let number = |name: &str| {
            scores
                .iter()
                .find(|(choice, _)| choice == name)
                .map_or(0.0, |(_, score)| *score)
        };
        Some(
            self.shares
                .iter()
                .map(|(name, share)| share * number(name))
                .sum(),
        )
    }

    pub(crate) fn to_metadata(&self) -> [(String, Json); 3] {
        let shares = self
            .shares
            .iter()
            .map(|(name, share)| (name.as_str(), Json::from(*share)));
        [
            ("distribution".to_owned(), object(shares)),
            ("margin".to_owned(), Json::from(self.margin())),
            ("coverage".to_owned(), Json::from(self.coverage)),
        ]
    }
}

/// The text that the tokens make together.
pub(crate) fn text_of(tokens: &[TokenLogprob]) -> String {
    tokens.iter().map(|token| token.token.as_str()).collect()
}

/// Where the value of the last member of this name begins in the text of a JSON object.
pub(crate) fn start_of_member(json: &str, name: &str) -> Option<usize> {
    let key = Json::from(name).to_string();
    let after_key = json.rfind(&key)? + key.len();
    let after_colon = json[after_key..].trim_start().strip_prefix(':')?;
    Some(json.len() - after_colon.trim_start().len())
}

/// The probability of each verdict. Follows the reply token by token as long as several verdicts are possible.
fn masses(
    tokens: &[TokenLogprob],
    start: usize,
    verdicts: &[(String, String)],
) -> Option<Vec<f64>> {
    let (first, offset) = token_at(tokens, start)?;
    let mut masses = vec![0.0; verdicts.len()];
    let mut left: Vec<(usize, &str)> = verdicts
        .iter()
        .map(|(_, text)| text.as_str())
        .enumerate()
        .collect();
    // The probability of the path that the reply took.
    let mut path = 1.0;
    for (at, token) in tokens[first..].iter().enumerate() {
        let before = if at == 0 { &token.token[..offset] } else { "" };
        let own = after(&token.token, before);
        let possible = beginning_with(&left, own);
        if possible.len() < left.len() || left.len() == 1 {
            let alternatives = token
                .alternatives
                .iter()
                .filter(|(text, _)| *text != token.token);
            let alternatives = alternatives.map(|(text, logprob)| (after(text, before), *logprob));
            for (text, logprob) in [(own, token.logprob)].into_iter().chain(alternatives) {
                if let [(verdict, _)] = beginning_with(&left, text).as_slice() {
                    masses[*verdict] += path * f64::from(logprob).exp();
                }
            }
            path *= f64::from(token.logprob).exp();
        }
        if possible.len() <= 1 {
            break;
        }
        left = possible
            .into_iter()
            .map(|(verdict, rest)| (verdict, rest.get(own.len()..).unwrap_or("")))
            .collect();
    }
    Some(masses)
}

/// The token that holds this byte of the reply, and the place of the byte in it.
fn token_at(tokens: &[TokenLogprob], byte: usize) -> Option<(usize, usize)> {
    let mut end = 0;
    for (at, token) in tokens.iter().enumerate() {
        let begin = end;
        end += token.token.len();
        let offset = byte - begin;
        if byte < end && token.token.is_char_boundary(offset) {
            return Some((at, offset));
        }
        if byte < end {
            return None;
        }
    }
    None
}

/// What a token adds after `before`, the part of the chosen token that comes before the verdict.
fn after<'t>(token: &'t str, before: &str) -> &'t str {
    token
        .strip_prefix(before)
        .unwrap_or_else(|| token.trim_start())
}

/// The verdicts that a text may begin, or with which it begins.
fn beginning_with<'v>(left: &[(usize, &'v str)], text: &str) -> Vec<(usize, &'v str)> {
    let fits = |rest: &str| rest.starts_with(text) || (!rest.is_empty() && text.starts_with(rest));
    left.iter()
        .copied()
        .filter(|(_, rest)| fits(rest))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(text: &str, alternatives: &[(&str, f32)]) -> TokenLogprob {
        let own = alternatives
            .iter()
            .find(|(other, _)| *other == text)
            .map_or(1.0, |(_, p)| *p);
        TokenLogprob {
            token: text.to_owned(),
            logprob: own.ln(),
            alternatives: alternatives
                .iter()
                .map(|(other, p)| ((*other).to_owned(), p.ln()))
                .collect(),
        }
    }

    fn of(tokens: &[TokenLogprob], verdicts: &[&str]) -> Option<Distribution> {
        let start = start_of_member(&text_of(tokens), "choice")?;
        let quoted = |name: &&str| ((*name).to_owned(), format!("{name:?}"));
        Distribution::of(
            tokens,
            start,
            &verdicts.iter().map(quoted).collect::<Vec<_>>(),
        )
    }

    fn assert_close(found: f64, wanted: f64) {
        assert!((found - wanted).abs() < 1e-6, "{found} is not {wanted}");
    }

    #[test]
    fn alternatives_of_the_deciding_token_are_the_distribution() {
        let tokens = [
            token(
                "{\"reasons\": \"choice of \\\"choice\\\"\", \"choice\"",
                &[],
            ),
            token(": \"", &[(": \"", 0.6), (":\"", 0.4)]),
            token("A", &[("A", 0.7), ("B", 0.2), ("C", 0.05), ("Z", 0.05)]),
            token("\"}", &[]),
        ];
        let found = of(&tokens, &["A", "B", "C"]).unwrap();
        assert_close(found.coverage, 0.95);
        assert_close(found.shares[0].1, 0.7 / 0.95);
        assert_close(found.shares[2].1, 0.05 / 0.95);
        assert_close(found.margin(), 0.5 / 0.95);
        let scores =
            [("A", 1.0), ("B", 0.5), ("C", 0.0)].map(|(name, score)| (name.to_owned(), score));
        assert_close(found.expectation(&scores).unwrap(), 0.8 / 0.95);
    }

    #[test]
    fn choices_with_a_common_beginning_are_told_apart_by_a_later_token() {
        let tokens = [
            token("{\"choice\":\"", &[]),
            token("Yes", &[("Yes", 0.8), ("No", 0.2)]),
            token(", fully", &[(", fully", 0.75), (", partly", 0.25)]),
            token("\"}", &[]),
        ];
        let found = of(&tokens, &["Yes, fully", "Yes, partly", "No"]).unwrap();
        for ((_, share), wanted) in found.shares.iter().zip([0.6, 0.2, 0.2]) {
            assert_close(*share, wanted);
        }
        assert_close(found.coverage, 1.0);
    }

    #[test]
    fn a_choice_that_begins_another_one_is_told_apart_by_its_end() {
        let tokens = [
            token("{\"choice\": \"correct", &[]),
            token("\"}", &[("\"}", 0.9), ("ness", 0.1)]),
        ];
        let found = of(&tokens, &["correct", "correctness"]).unwrap();
        assert_close(found.shares[0].1, 0.9);
    }

    #[test]
    fn a_reply_without_the_member_or_without_tokens_has_no_distribution() {
        assert_eq!(of(&[token("{\"other\":1}", &[])], &["A"]), None);
        assert_eq!(of(&[], &["A"]), None);
    }

    #[test]
    fn little_coverage_gives_no_expectation() {
        let tokens = [token("{\"choice\":\"", &[]), token("A", &[("A", 0.5)])];
        let found = of(&tokens, &["A", "B"]).unwrap();
        assert_close(found.coverage, 0.5);
        assert_eq!(found.expectation(&[("A".to_owned(), 1.0)]), None);
    }
}
