//! Words and phrases that the text of this repository avoids. `xtask/phrases.tsv` lists each with a replacement and the
//! number of lines that may still contain it.
//!
//! The maximum only falls: `cargo xtask phrases --write` lowers each one to the current count, and the gate fails when a
//! count is above its maximum.

use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::shell;

const LIST: &str = "xtask/phrases.tsv";

/// Files and folders that are searched.
const CHECKED: &[&str] =
    &["CONTRIBUTING.md", "README.md", "docs", "plugin-sdk", "plugins", "runtime", "xtask"];

/// The list itself, and generated text.
const EXCLUDED: &[&str] = &[
    LIST,
    "docs/openapi.json",
    "plugin-sdk/go/internal",
    "plugin-sdk/javascript/bindings.js",
    "plugin-sdk/python/perpend_plugin/bindings.py",
    "plugin-sdk/rust/bindings",
];

/// Lines that are printed for one phrase.
const MAX_SHOWN: usize = 20;

/// Counts the phrases of `xtask/phrases.tsv`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Print every line that contains this phrase.
    #[arg(long, value_name = "PHRASE")]
    show: Option<String>,
    /// Lower each maximum to the current count.
    #[arg(long)]
    write: bool,
}

struct Phrase {
    /// Lowercase.
    text: String,
    max_lines: usize,
    suggestion: String,
    /// Files, with the number of their lines that use the phrase in its ordinary sense.
    exceptions: Vec<(PathBuf, usize)>,
}

struct Place {
    file: PathBuf,
    line: usize,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<bool> {
    let list = read()?;
    let phrases = parse(&list)?;
    let places = find(&phrases)?;
    if let Some(shown) = &args.show {
        let mut all = phrases.iter().zip(&places);
        let found = all.find(|(phrase, _)| phrase.text == *shown);
        let (phrase, places) = found.with_context(|| format!("{LIST} does not list {shown:?}"))?;
        places.iter().for_each(|place| eprintln!("{}", message(phrase, place)));
        return Ok(true);
    }
    if args.write {
        let counts: Vec<usize> = places.iter().map(Vec::len).collect();
        std::fs::write(shell::root().join(LIST), lowered(&list, &counts))?;
    }
    for (phrase, places) in phrases.iter().zip(&places) {
        eprintln!("{:>5} lines, at most {:>5}: {}", places.len(), phrase.max_lines, phrase.text);
    }
    Ok(true)
}

/// Phrases on more lines than their maximum, as `file:line: "phrase": write "replacement"`.
pub(crate) fn violations() -> anyhow::Result<Vec<String>> {
    let phrases = parse(&read()?)?;
    let places = find(&phrases)?;
    let all = phrases.iter().zip(&places);
    Ok(all.flat_map(|(phrase, places)| excess(phrase, places)).collect())
}

fn excess(phrase: &Phrase, places: &[Place]) -> Vec<String> {
    if places.len() <= phrase.max_lines {
        return Vec::new();
    }
    let shown = places.iter().take(MAX_SHOWN);
    let mut messages: Vec<String> = shown.map(|place| message(phrase, place)).collect();
    if 0 < phrase.max_lines || MAX_SHOWN < places.len() {
        messages.push(format!(
            "{LIST}: {:?} on {} lines, at most {}; `cargo xtask phrases --show {:?}` lists them",
            phrase.text,
            places.len(),
            phrase.max_lines,
            phrase.text
        ));
    }
    messages
}

fn message(phrase: &Phrase, place: &Place) -> String {
    let Place { file, line } = place;
    format!("{}:{line}: {:?}: write {:?}", file.display(), phrase.text, phrase.suggestion)
}

fn read() -> anyhow::Result<String> {
    std::fs::read_to_string(shell::root().join(LIST)).context(LIST)
}

/// A row is `phrase`, maximum number of lines, replacement; or `except`, phrase, file, number of lines.
fn parse(list: &str) -> anyhow::Result<Vec<Phrase>> {
    let mut phrases: Vec<Phrase> = Vec::new();
    for (line, at) in list.lines().zip(1..) {
        if !is_row(line) {
            continue;
        }
        let count = |raw: &str| -> anyhow::Result<usize> {
            raw.parse().with_context(|| format!("{LIST}:{at}: expected a number, got {raw:?}"))
        };
        let columns: Vec<&str> = line.split('\t').collect();
        match columns.as_slice() {
            ["except", text, file, n_lines] => {
                let phrase = phrases.iter_mut().find(|phrase| phrase.text == *text);
                let phrase =
                    phrase.with_context(|| format!("{LIST}:{at}: unknown phrase {text:?}"))?;
                phrase.exceptions.push((PathBuf::from(*file), count(n_lines)?));
            }
            [text, max_lines, suggestion] => phrases.push(Phrase {
                text: text.to_lowercase(),
                max_lines: count(max_lines)?,
                suggestion: (*suggestion).to_owned(),
                exceptions: Vec::new(),
            }),
            _ => anyhow::bail!("{LIST}:{at}: expected 3 columns, or `except` and 3 columns"),
        }
    }
    Ok(phrases)
}

/// Whether a line of the list is neither empty nor a comment.
fn is_row(line: &str) -> bool {
    !line.is_empty() && !line.starts_with('#')
}

/// The list with each maximum lowered to the count of its phrase, in the order of the rows.
fn lowered(list: &str, counts: &[usize]) -> String {
    let mut counts = counts.iter();
    let mut out = String::new();
    for line in list.lines() {
        let columns: Vec<&str> = line.split('\t').collect();
        match columns.as_slice() {
            [text, max_lines, suggestion] if is_row(line) => {
                let max_lines = max_lines.parse().unwrap_or(usize::MAX);
                let max_lines = counts.next().map_or(max_lines, |count| max_lines.min(*count));
                out.push_str(&format!("{text}\t{max_lines}\t{suggestion}"));
            }
            _ => out.push_str(line),
        }
        out.push('\n');
    }
    out
}

/// The lines that contain each phrase.
fn find(phrases: &[Phrase]) -> anyhow::Result<Vec<Vec<Place>>> {
    let mut places: Vec<Vec<Place>> = phrases.iter().map(|_| Vec::new()).collect();
    for file in shell::files()?.into_iter().filter(|file| is_checked(file)) {
        let Ok(text) = std::fs::read_to_string(shell::root().join(&file)) else {
            continue;
        };
        let text = text.to_lowercase();
        for (phrase, places) in phrases.iter().zip(&mut places) {
            let lines = lines_with(phrase, &file, &text).into_iter();
            places.extend(lines.map(|line| Place { file: file.clone(), line }));
        }
    }
    Ok(places)
}

fn is_checked(file: &Path) -> bool {
    let is_in = |paths: &[&str]| paths.iter().any(|path| file.starts_with(path));
    is_in(CHECKED) && !is_in(EXCLUDED)
}

/// The numbers of the lines of a lowercase text that contain a phrase, without the exceptions of the file.
fn lines_with(phrase: &Phrase, file: &Path, text: &str) -> Vec<usize> {
    if !text.contains(&phrase.text) {
        return Vec::new();
    }
    let exceptions = phrase.exceptions.iter().filter(|(path, _)| path == file);
    let n_exceptions: usize = exceptions.map(|(_, n_lines)| *n_lines).sum();
    let lines = text.lines().zip(1..).filter(|(line, _)| contains_words(line, &phrase.text));
    lines.map(|(_, number)| number).skip(n_exceptions).collect()
}

/// Whether a line contains a phrase as whole words. An identifier is one word.
fn contains_words(line: &str, phrase: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(phrase).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + phrase.len()..].chars().next();
        !before.is_some_and(is_word) && !after.is_some_and(is_word)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS: &str = "# comment\n\nthing\t2\tobject\nexcept\tthing\tdocs/a.md\t1\n";

    fn place(line: usize) -> Place {
        Place { file: PathBuf::from("docs/a.md"), line }
    }

    #[test]
    fn a_phrase_is_found_as_whole_words_only() {
        for (line, expected) in [
            ("one thing here", true),
            ("`thing`: here", true),
            ("things and anything", false),
            ("let thing_of = 1;", false),
            ("", false),
        ] {
            assert_eq!(contains_words(line, "thing"), expected, "{line}");
        }
        assert!(contains_words("it is one thing.", "one thing"));
    }

    #[test]
    fn exceptions_of_a_file_are_not_counted() {
        let phrases = parse(ROWS).unwrap();
        let text = "thing\nother\nthing\n";
        assert_eq!(lines_with(&phrases[0], Path::new("docs/a.md"), text), [3]);
        assert_eq!(lines_with(&phrases[0], Path::new("docs/b.md"), text), [1, 3]);
    }

    #[test]
    fn only_a_count_above_the_maximum_is_a_violation() {
        let phrases = parse(ROWS).unwrap();
        assert_eq!(excess(&phrases[0], &[place(1), place(2)]), Vec::<String>::new());
        let messages = excess(&phrases[0], &[place(1), place(2), place(3)]);
        assert_eq!(messages.len(), 4, "{messages:?}");
        assert_eq!(messages[0], "docs/a.md:1: \"thing\": write \"object\"");
    }

    #[test]
    fn a_maximum_is_lowered_and_never_raised() {
        assert_eq!(lowered(ROWS, &[1]), ROWS.replace("thing\t2", "thing\t1"));
        assert_eq!(lowered(ROWS, &[5]), ROWS);
    }

    #[test]
    fn a_row_without_a_number_or_of_an_unknown_phrase_is_refused() {
        assert!(parse("thing\tmany\tobject\n").is_err());
        assert!(parse("thing\t1\n").is_err());
        assert!(parse("except\tthing\tdocs/a.md\t1\n").is_err());
    }

    #[test]
    fn the_list_is_valid() {
        assert!(!parse(&read().unwrap()).unwrap().is_empty());
    }
}
