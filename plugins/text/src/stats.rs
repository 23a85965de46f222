//! Counts of the characters, words and lines of a text.

/// The counts of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextStats {
    /// Bytes of UTF-8.
    pub bytes: usize,
    /// Unicode characters.
    pub chars: usize,
    /// Runs of characters other than white space.
    pub words: usize,
    /// Runs of end marks before white space or the end; at least 1 for a text with words.
    pub sentences: usize,
    /// Line breaks plus 1; 0 for an empty text.
    pub lines: usize,
    /// Letters and digits.
    pub alnum: usize,
    /// Letters.
    pub letters: usize,
    /// Spoken syllables of English words, estimated.
    pub syllables: usize,
}

impl TextStats {
    /// The counts of `text`.
    #[must_use]
    pub fn of(text: &str) -> Self {
        let words = text.split_whitespace().count();
        Self {
            bytes: text.len(),
            chars: text.chars().count(),
            words,
            sentences: sentence_ends(text).max(usize::from(words > 0)),
            lines: if text.is_empty() { 0 } else { text.matches('\n').count() + 1 },
            alnum: text.chars().filter(|character| character.is_alphanumeric()).count(),
            letters: text.chars().filter(|character| character.is_alphabetic()).count(),
            syllables: text.split_whitespace().map(syllables).sum(),
        }
    }
}

fn sentence_ends(text: &str) -> usize {
    const MARKS: &str = ".!?…。！？";
    let words = text.split_whitespace();
    words.filter(|word| word.ends_with(|character| MARKS.contains(character))).count()
}

fn syllables(word: &str) -> usize {
    let letters: Vec<u8> = word
        .bytes()
        .filter(u8::is_ascii_alphabetic)
        .map(|letter| letter.to_ascii_lowercase())
        .collect();
    if letters.is_empty() {
        return 0;
    }
    let is_vowel = |letter: &u8| b"aeiouy".contains(letter);
    let runs = letters.chunk_by(|a, b| is_vowel(a) == is_vowel(b));
    let n_runs = runs.filter(|run| run.first().is_some_and(is_vowel)).count();
    let has_silent_e = n_runs > 1 && letters.ends_with(b"e") && !letters.ends_with(b"le");
    (n_runs - usize::from(has_silent_e)).max(1)
}
