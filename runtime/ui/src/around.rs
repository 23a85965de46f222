//! A text that was found in a longer one, with what stands around it.

use crate::Text;

/// Characters shown before and behind.
const AROUND: usize = 80;

/// A text that was found, with what stands around it.
#[derive(Clone, Debug)]
pub(crate) struct Around {
    pub(crate) before: Text,
    pub(crate) found: Text,
    pub(crate) behind: Text,
}

impl Around {
    /// What stands between these bytes of a text, and around them.
    pub(crate) fn of(whole: &str, (from, to): (usize, usize)) -> Self {
        let before = whole.get(..from).unwrap_or_default();
        let behind = whole.get(to..).unwrap_or_default();
        let start = before.char_indices().rev().nth(AROUND - 1);
        let start = start.map_or(0, |(at, _)| at);
        let end = behind.char_indices().nth(AROUND);
        let end = end.map_or(behind.len(), |(at, _)| at);
        Self {
            before: Text::from(before.get(start..).unwrap_or_default()),
            found: Text::from(whole.get(from..to).unwrap_or_default()),
            behind: Text::from(behind.get(..end).unwrap_or_default()),
        }
    }
}

/// Where `text` first stands in `whole`, in any case: a character may have another length in the other case.
pub(crate) fn first(whole: &str, text: &str) -> Option<(usize, usize)> {
    let wanted: Vec<char> = text.chars().flat_map(char::to_lowercase).collect();
    let (first, _) = wanted.split_first()?;
    let starts = whole
        .char_indices()
        .filter(|(_, c)| c.to_lowercase().next() == Some(*first));
    starts.into_iter().find_map(|(from, _)| {
        let mut left = wanted.as_slice();
        for (at, c) in whole.get(from..)?.char_indices() {
            for lower in c.to_lowercase() {
                left = match left.split_first() {
                    Some((next, rest)) if *next == lower => rest,
                    _ => return None,
                };
            }
            if left.is_empty() {
                return Some((from, from + at + c.len_utf8()));
            }
        }
        None
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn every_text_is_found_where_it_was_put(before in ".{0,100}", text in ".{1,9}", behind in ".{0,100}") {
            let whole = format!("{before}{text}{behind}");
            let (from, to) = first(&whole, &text).unwrap();
            // Of a whole text the lower case depends on what is around a letter.
            let lower = |text: &str| text.chars().flat_map(char::to_lowercase).collect::<String>();
            proptest::prop_assert_eq!(lower(&whole[from..to]), lower(&text));
        }
    }
}
