//! The probability of each choice of a model's reply, from the log-probabilities of the tokens that distinguish the
//! choices. Computed by the host for plug-ins, and by the SDK for their native tests.
//!
//! Invariants:
//! - **Pure, and without dependencies.**
//! - **Bounded.** Tokens come from a provider and choices from a plug-in. The work is linear in the bytes of the reply; while
//!   choices are distinguished, it is [`MAX_CHOICES`] times the alternatives of a token, for each of the at most
//!   [`MAX_CHOICE_BYTES`] tokens of a choice.
//! - **Never NaN.** An unknown distribution is `None`.

/// Maximum number of choices.
pub const MAX_CHOICES: usize = 256;
/// Maximum length of a choice, in bytes.
pub const MAX_CHOICE_BYTES: usize = 1_024;

/// One token of a reply.
#[derive(Clone, Debug, PartialEq)]
pub struct Token<'t> {
    /// The text.
    pub token: &'t str,
    /// Natural logarithm of the probability.
    pub logprob: f32,
    /// Tokens at the same position with their log-probabilities; may include this token.
    pub alternatives: Vec<(&'t str, f32)>,
}

/// The position of the choice in a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place<'p> {
    /// The whole reply, surrounded by optional white space.
    Whole,
    /// The last member with this name of a JSON object: a string, a boolean or a number.
    Member(&'p str),
    /// From a byte offset to the end.
    Offset {
        /// The text of the reply. Must equal the concatenated tokens.
        text: &'p str,
        /// Byte offset in `text`.
        byte: u64,
    },
}

/// The probability of each choice.
#[derive(Clone, Debug, PartialEq)]
pub struct Distribution {
    /// The share of each choice, in order. The sum is 1.
    pub shares: Vec<f64>,
    /// The total probability of the reported tokens that begin a choice, at most 1.
    pub coverage: f64,
}

impl Distribution {
    /// The distribution over `choices`. `None` when no token at `place` begins a choice, and when there are more than
    /// [`MAX_CHOICES`] choices or one is longer than [`MAX_CHOICE_BYTES`].
    #[must_use]
    pub fn of(tokens: &[Token<'_>], choices: &[String], place: Place<'_>) -> Option<Self> {
        let is_long = |choice: &String| MAX_CHOICE_BYTES < choice.len();
        if MAX_CHOICES < choices.len() || choices.iter().any(is_long) {
            return None;
        }
        let reply: String = tokens.iter().map(|token| token.token).collect();
        let start = match place {
            Place::Whole => reply.len() - reply.trim_start().len(),
            Place::Member(name) => start_of_member(&reply, name)?,
            Place::Offset { text, byte } if text == reply => usize::try_from(byte).ok()?,
            Place::Offset { .. } => return None,
        };
        let is_string =
            matches!(place, Place::Member(_)) && reply.as_bytes().get(start) == Some(&b'"');
        let texts: Vec<String> = match is_string {
            true => choices.iter().map(|choice| quoted(choice)).collect(),
            false => choices.to_vec(),
        };
        let masses = masses(tokens, start, &texts)?;
        let total: f64 = masses.iter().sum();
        if !total.is_finite() || total <= 0.0 {
            return None;
        }
        Some(Self {
            shares: masses.iter().map(|mass| mass / total).collect(),
            coverage: total.min(1.0),
        })
    }

    /// The difference between the two largest shares.
    #[must_use]
    pub fn margin(&self) -> f64 {
        let mut shares = self.shares.clone();
        shares.sort_by(|a, b| b.total_cmp(a));
        shares.first().copied().unwrap_or(0.0) - shares.get(1).copied().unwrap_or(0.0)
    }
}

/// The text as a JSON string, with the escapes that models write.
fn quoted(text: &str) -> String {
    let mut json = String::with_capacity(text.len() + 2);
    json.push('"');
    for character in text.chars() {
        match character {
            '"' => json.push_str("\\\""),
            '\\' => json.push_str("\\\\"),
            '\n' => json.push_str("\\n"),
            '\r' => json.push_str("\\r"),
            '\t' => json.push_str("\\t"),
            '\u{8}' => json.push_str("\\b"),
            '\u{c}' => json.push_str("\\f"),
            control if control < ' ' => {
                json.push_str(&format!("\\u{:04x}", u32::from(control)));
            }
            plain => json.push(plain),
        }
    }
    json.push('"');
    json
}

/// Byte offset of the value of the last member with this name.
fn start_of_member(json: &str, name: &str) -> Option<usize> {
    let key = quoted(name);
    let after_key = json.rfind(&key)? + key.len();
    let after_colon = json[after_key..].trim_start().strip_prefix(':')?;
    Some(json.len() - after_colon.trim_start().len())
}

/// The probability of each choice. Follows the reply token by token while several choices are possible.
fn masses(tokens: &[Token<'_>], start: usize, texts: &[String]) -> Option<Vec<f64>> {
    let (first, offset) = token_at(tokens, start)?;
    let mut masses = vec![0.0; texts.len()];
    let mut left: Vec<(usize, &str)> = texts.iter().map(String::as_str).enumerate().collect();
    // The probability of the tokens so far.
    let mut path = 1.0;
    let mut is_over = false;
    for (at, token) in tokens[first..].iter().enumerate() {
        let before = if at == 0 { &token.token[..offset] } else { "" };
        let own = after(token.token, before);
        if own.is_empty() && 1 < left.len() {
            // An empty token does not distinguish choices.
            continue;
        }
        let possible = beginning_with(&left, own);
        if possible.len() < left.len() || left.len() == 1 {
            let alternatives = token.alternatives.iter().filter(|(text, _)| *text != token.token);
            let alternatives = alternatives.map(|(text, logprob)| (after(text, before), *logprob));
            for (text, logprob) in [(own, token.logprob)].into_iter().chain(alternatives) {
                if let [(choice, _)] = beginning_with(&left, text).as_slice() {
                    masses[*choice] += path * f64::from(logprob).exp();
                }
            }
            path *= f64::from(token.logprob).exp();
        }
        if possible.len() <= 1 {
            break;
        }
        left = possible
            .into_iter()
            .map(|(choice, rest)| (choice, rest.get(own.len()..).unwrap_or("")))
            .collect();
        is_over = at + 1 == tokens.len() - first;
    }
    if is_over {
        // The reply ended at the end of one choice, which is a prefix of another.
        for (choice, _) in left.iter().filter(|(_, rest)| rest.is_empty()) {
            masses[*choice] += path;
        }
    }
    Some(masses)
}

/// The index of the token that contains this byte of the reply, and the offset of the byte in it.
fn token_at(tokens: &[Token<'_>], byte: usize) -> Option<(usize, usize)> {
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

/// The token without `before`, the part of the chosen token that precedes the choice.
fn after<'t>(token: &'t str, before: &str) -> &'t str {
    token.strip_prefix(before).unwrap_or_else(|| token.trim_start())
}

/// The choices that start with the text or are a prefix of it.
fn beginning_with<'v>(left: &[(usize, &'v str)], text: &str) -> Vec<(usize, &'v str)> {
    let fits = |rest: &str| rest.starts_with(text) || (!rest.is_empty() && text.starts_with(rest));
    left.iter().copied().filter(|(_, rest)| fits(rest)).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn token<'t>(text: &'t str, alternatives: &[(&'t str, f32)]) -> Token<'t> {
        let own = alternatives.iter().find(|(other, _)| *other == text).map_or(1.0, |(_, p)| *p);
        Token {
            token: text,
            logprob: own.ln(),
            alternatives: alternatives.iter().map(|(other, p)| (*other, p.ln())).collect(),
        }
    }

    fn owned(choices: &[&str]) -> Vec<String> {
        choices.iter().map(|name| (*name).to_owned()).collect()
    }

    fn of(tokens: &[Token<'_>], choices: &[&str]) -> Option<Distribution> {
        Distribution::of(tokens, &owned(choices), Place::Member("choice"))
    }

    fn assert_close(actual: f64, expected: f64) {
        assert!((actual - expected).abs() < 1e-6, "expected {expected}, got {actual}");
    }

    #[test]
    fn alternatives_of_the_deciding_token_are_the_distribution() {
        let tokens = [
            token("{\"reasons\": \"choice of \\\"choice\\\"\", \"choice\"", &[]),
            token(": \"", &[(": \"", 0.6), (":\"", 0.4)]),
            token("A", &[("A", 0.7), ("B", 0.2), ("C", 0.05), ("Z", 0.05)]),
            token("\"}", &[]),
        ];
        let found = of(&tokens, &["A", "B", "C"]).unwrap();
        assert_close(found.coverage, 0.95);
        assert_close(found.shares[0], 0.7 / 0.95);
        assert_close(found.shares[2], 0.05 / 0.95);
        assert_close(found.margin(), 0.5 / 0.95);
    }

    #[test]
    fn choices_with_a_common_prefix_are_distinguished_by_a_later_token() {
        let tokens = [
            token("{\"choice\":\"", &[]),
            token("Yes", &[("Yes", 0.8), ("No", 0.2)]),
            token("", &[]),
            token(", fully", &[(", fully", 0.75), (", partly", 0.25)]),
            token("\"}", &[]),
        ];
        let found = of(&tokens, &["Yes, fully", "Yes, partly", "No"]).unwrap();
        for (share, expected) in found.shares.iter().zip([0.6, 0.2, 0.2]) {
            assert_close(*share, expected);
        }
        assert_close(found.coverage, 1.0);
    }

    #[test]
    fn a_choice_that_is_a_prefix_of_another_is_distinguished_by_its_end() {
        let tokens =
            [token("{\"choice\": \"correct", &[]), token("\"}", &[("\"}", 0.9), ("ness", 0.1)])];
        let found = of(&tokens, &["correct", "correctness"]).unwrap();
        assert_close(found.shares[0], 0.9);
    }

    #[test]
    fn without_a_member_the_whole_reply_is_the_choice() {
        let tokens = [token(" Yes", &[(" Yes", 0.75), (" No", 0.25)])];
        let found = Distribution::of(&tokens, &owned(&["Yes", "No"]), Place::Whole).unwrap();
        assert_close(found.shares[0], 0.75);
        assert_close(found.shares[1], 0.25);
        let tokens = [token("correct", &[])];
        let choices = owned(&["correct", "correctness"]);
        let found = Distribution::of(&tokens, &choices, Place::Whole).unwrap();
        assert_close(found.shares[0], 1.0);
    }

    #[test]
    fn a_boolean_and_a_choice_at_an_offset_are_compared_without_quotation_marks() {
        let tokens = [
            token("{\"choice\": ", &[]),
            token("true", &[("true", 0.6), ("false", 0.2)]),
            token("}", &[]),
        ];
        let found = of(&tokens, &["true", "false"]).unwrap();
        assert_close(found.shares[0], 0.75);
        let tokens = [token("GRADE: ", &[]), token("C", &[("C", 0.6), ("I", 0.4)])];
        let at = |byte, text| {
            Distribution::of(&tokens, &owned(&["C", "I"]), Place::Offset { text, byte })
        };
        assert_close(at(7, "GRADE: C").unwrap().shares[1], 0.4);
        assert_eq!(at(7, "another text"), None);
        assert_eq!(at(u64::MAX, "GRADE: C"), None);
    }

    #[test]
    fn a_reply_without_the_member_or_without_tokens_has_no_distribution() {
        assert_eq!(of(&[token("{\"other\":1}", &[])], &["A"]), None);
        assert_eq!(of(&[], &["A"]), None);
        assert_eq!(Distribution::of(&[], &owned(&["A"]), Place::Whole), None);
    }

    #[test]
    fn too_many_or_too_long_choices_have_no_distribution() {
        let tokens = [token("A", &[])];
        assert!(Distribution::of(&tokens, &owned(&["A"]), Place::Whole).is_some());
        let long = [owned(&["A"]), vec!["x".repeat(MAX_CHOICE_BYTES + 1)]].concat();
        assert_eq!(Distribution::of(&tokens, &long, Place::Whole), None);
        let many = vec!["A".to_owned(); MAX_CHOICES + 1];
        assert_eq!(Distribution::of(&tokens, &many, Place::Whole), None);
    }

    proptest! {
        #[test]
        fn any_tokens_give_shares_that_sum_up_to_one_or_no_distribution(
            texts in prop::collection::vec(("\\PC{0,4}", any::<f32>(), "\\PC{0,4}", any::<f32>()), 0..12),
            choices in prop::collection::vec("\\PC{0,6}", 0..6),
        ) {
            let tokens: Vec<Token<'_>> = texts
                .iter()
                .map(|(token, logprob, other, p)| Token {
                    token,
                    logprob: *logprob,
                    alternatives: vec![(other, *p)],
                })
                .collect();
            let text: String = tokens.iter().map(|token| token.token).collect();
            let byte = text.len() as u64 / 2;
            for place in [Place::Whole, Place::Member("a"), Place::Offset { text: &text, byte }] {
                if let Some(found) = Distribution::of(&tokens, &choices, place) {
                    prop_assert!((found.shares.iter().sum::<f64>() - 1.0).abs() < 1e-6);
                    prop_assert!((0.0..=1.0).contains(&found.coverage));
                    prop_assert!((0.0..=1.0).contains(&found.margin()));
                }
            }
        }
    }
}
