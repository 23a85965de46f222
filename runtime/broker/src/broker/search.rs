//! Case-insensitive search in texts.

/// Bytes of an excerpt on each side of a hit.
const CONTEXT_BYTES: usize = 100;

/// A case-folded search text.
pub(super) struct Needle(String);

impl Needle {
    pub(super) fn new(text: &str) -> Self {
        Self(folded(text))
    }

    /// The byte offsets of the first hits, each with an excerpt.
    pub(super) fn hits(&self, text: &str, limit: usize) -> Vec<(usize, String)> {
        if limit == 0 {
            return Vec::new();
        }
        let folded = folded(text);
        let found = folded.match_indices(&self.0).take(limit);
        found
            .map(|(at, _)| {
                let begin = text.floor_char_boundary(at.saturating_sub(CONTEXT_BYTES));
                let end = at + self.0.len() + CONTEXT_BYTES;
                let end = text.floor_char_boundary(end.min(text.len()));
                (at, text[begin..end].to_owned())
            })
            .collect()
    }
}

/// The text in lower case with unchanged byte offsets: a character whose lower case has another length is kept.
fn folded(text: &str) -> String {
    let mut folded = String::with_capacity(text.len());
    for character in text.chars() {
        let mut lower = character.to_lowercase();
        let one = lower
            .next()
            .filter(|one| lower.next().is_none() && one.len_utf8() == character.len_utf8());
        folded.push(one.unwrap_or(character));
    }
    folded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hits_ignore_case_and_have_the_offsets_of_the_original_text() {
        let text = "Zürich İ ZÜRICH and zürich";
        let found = Needle::new("zÜrich").hits(text, 10);
        let places: Vec<usize> = found.iter().map(|(at, _)| *at).collect();
        assert_eq!(places, [0, 11, 23]);
        for (at, _) in found {
            assert_eq!(text[at..].chars().nth(1).unwrap().to_lowercase().to_string(), "ü");
        }
        assert_eq!(Needle::new("zürich").hits(text, 2).len(), 2);
        assert!(Needle::new("Bern").hits(text, 2).is_empty());
    }

    #[test]
    fn an_excerpt_is_cut_between_characters() {
        let text = format!("{}needle{}", "🙂".repeat(60), "🙂".repeat(60));
        let (at, excerpt) = Needle::new("needle").hits(&text, 1).remove(0);
        assert_eq!(at, 240);
        assert_eq!(excerpt, format!("{}needle{}", "🙂".repeat(25), "🙂".repeat(25)));
    }
}
