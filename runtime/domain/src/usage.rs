//! Names of usage counts: the meaning of each spelling, and whether the count of its side includes it.
//!
//! [`SPELLINGS`] lists the names that providers and instrumentation libraries use, with the package in which each was
//! found. [`DETAILS`] lists the names of parts, which occur inside a `*_details` object (`prompt_tokens_details`,
//! `input_token_details`, …) and after a side (`input_cached_tokens`, `output_reasoning`). Case, underscores, dots and
//! the endings `tokens` and `count` do not matter: see `word`.

mod details;
mod meaning;
mod spellings;

use std::collections::HashMap;
use std::sync::LazyLock;

use Meaning::*;
use Relation::Inside;

pub use details::{CACHED_CONTAINERS, CONTAINERS, DETAILS};
pub use meaning::{Meaning, Relation, Side};
pub use spellings::SPELLINGS;

/// A name as the tables compare it: letters and digits in lower case, without the endings `count` and `tokens`.
fn word(name: &str) -> String {
    let letters = name.bytes().filter(u8::is_ascii_alphanumeric);
    let mut word: String = letters.map(|byte| char::from(byte.to_ascii_lowercase())).collect();
    for ending in ["count", "tokens", "token"] {
        let bare = word.strip_suffix(ending).filter(|bare| !bare.is_empty());
        if let Some(length) = bare.map(str::len) {
            word.truncate(length);
        }
    }
    word
}

/// The meaning of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BucketMeaning {
    /// The counted tokens.
    pub meaning: Meaning,
    /// Whether its side includes it.
    pub relation: Relation,
    /// Of several names for one count, the one with the lowest rank counts.
    pub rank: usize,
    /// Whether it is inside a `*_details` object.
    pub is_in_details: bool,
}

struct Table {
    names: HashMap<String, (Meaning, Relation, usize)>,
    /// By the exact name: names of one meaning that differ in little else are in use with different relations.
    relations: HashMap<&'static str, Relation>,
    containers: HashMap<String, Side>,
    details: HashMap<(Side, String), (Meaning, usize)>,
    cached: Vec<String>,
}

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let mut names = HashMap::new();
    for (rank, (meaning, relation, name, _)) in SPELLINGS.iter().enumerate() {
        names.entry(word(name)).or_insert((*meaning, *relation, rank));
    }
    let relations = SPELLINGS.iter();
    let relations = relations.map(|(_, relation, name, _)| (*name, *relation));
    let containers = CONTAINERS.iter();
    let containers = containers.map(|(side, name, _)| (word(name), *side)).collect();
    let mut details = HashMap::new();
    let listed =
        DETAILS.iter().flat_map(|(meaning, names)| names.iter().map(|name| (*meaning, *name)));
    for (rank, (meaning, name)) in listed.enumerate() {
        // A modality of the cached input is listed under the input.
        let side = meaning.side().unwrap_or(Side::Input);
        details.entry((side, word(name))).or_insert((meaning, SPELLINGS.len() + rank));
    }
    Table {
        names,
        relations: relations.collect(),
        containers,
        details,
        cached: CACHED_CONTAINERS.iter().map(|name| word(name)).collect(),
    }
});

/// The meaning of a name; a dot separates the name of an object from that of its member. `None` for an unknown name.
#[must_use]
pub fn meaning(name: &str) -> Option<BucketMeaning> {
    let table = &*TABLE;
    if let Some((meaning, relation, rank)) = table.names.get(&word(name)) {
        return Some(BucketMeaning {
            meaning: *meaning,
            relation: *table.relations.get(name).unwrap_or(relation),
            rank: *rank,
            is_in_details: false,
        });
    }
    let detail = |side: Side, part: &str, is_in_details: bool| {
        let (meaning, rank) = table.details.get(&(side, word(part)))?;
        Some(BucketMeaning { meaning: *meaning, relation: Inside, rank: *rank, is_in_details })
    };
    if let Some((object, part)) = name.split_once('.') {
        let object = word(object);
        if let Some(side) = table.containers.get(&object) {
            return detail(*side, part, true);
        }
        return match table.cached.contains(&object) {
            true => cached_modality(part, true),
            false => None,
        };
    }
    let flat = [
        (Side::Input, "input"),
        (Side::Output, "output"),
        (Side::Input, "prompt"),
        (Side::Output, "completion"),
    ];
    let after = |prefix: &str| {
        let (head, part) = name.split_at_checked(prefix.len())?;
        (head.eq_ignore_ascii_case(prefix) && !part.is_empty()).then_some(part)
    };
    let found = flat.iter().find_map(|(side, prefix)| detail(*side, after(prefix)?, false));
    found.or_else(|| cached_modality(after("cached_")?, false))
}

fn cached_modality(part: &str, is_in_details: bool) -> Option<BucketMeaning> {
    let (input, rank) = TABLE.details.get(&(Side::Input, word(part)))?;
    let meaning = match input {
        InputText => CachedText,
        InputAudio => CachedAudio,
        InputImage => CachedImage,
        InputVideo => CachedVideo,
        InputDocument => CachedDocument,
        _ => return None,
    };
    Some(BucketMeaning { meaning, relation: Inside, rank: *rank, is_in_details })
}

/// The canonical name of a bucket.
#[must_use]
pub fn canonical_bucket(bucket: &str) -> &str {
    meaning(bucket).map_or(bucket, |named| named.meaning.bucket())
}

/// The side that a bucket belongs to. A bucket of unknown meaning belongs to one if its name begins with `input` or
/// `output` and ends with `tokens`.
#[must_use]
pub fn side_of(bucket: &str) -> Option<Side> {
    if let Some(named) = meaning(bucket) {
        return named.meaning.side();
    }
    let counts_tokens = bucket.ends_with("tokens") && !bucket.contains('.');
    let sides = [("input", Side::Input), ("output", Side::Output)];
    let side = sides.into_iter().find(|(name, _)| bucket.starts_with(name));
    side.filter(|_| counts_tokens).map(|(_, side)| side)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_name_has_one_meaning() {
        let mut known: HashMap<String, Meaning> = HashMap::new();
        for (meaning, relation, name, source) in SPELLINGS {
            assert!(!source.is_empty(), "{name} has no source");
            let other = known.insert(word(name), *meaning);
            assert!(other.is_none_or(|other| other == *meaning), "{name} has two meanings");
            let named = super::meaning(name).unwrap();
            assert_eq!((named.meaning, named.relation), (*meaning, *relation), "{name}");
        }
        for (side, container, _) in CONTAINERS {
            for (meaning, names) in
                DETAILS.iter().filter(|(m, _)| m.side().unwrap_or(Side::Input) == *side)
            {
                for name in *names {
                    let path = format!("{container}.{name}");
                    assert_eq!(super::meaning(&path).unwrap().meaning, *meaning, "{path}");
                }
            }
        }
    }

    #[test]
    fn a_canonical_bucket_means_itself() {
        for (meaning, ..) in SPELLINGS {
            assert_eq!(canonical_bucket(meaning.bucket()), meaning.bucket());
        }
    }

    #[test]
    fn names_of_other_things_have_no_meaning() {
        for name in [
            "cost",
            "seconds",
            "queue_time",
            "web_search_requests",
            "input_priority",
            "output_tokens_per_second",
            "compaction.input_tokens",
            "iterations",
            "",
            "x",
        ] {
            assert_eq!(meaning(name), None, "{name}");
            assert_eq!(side_of(name), None, "{name}");
        }
    }
}
