//! Patterns of names, within limits of size: a project may define any number of models.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, OnceLock, PoisonError};

use regex::{Regex, RegexBuilder, RegexSet, RegexSetBuilder};

use crate::model::MAX_PATTERN_SIZE;

/// All patterns of a table together, compiled.
const MAX_SET_SIZE: usize = 8 << 20;
/// A small pattern, compiled.
const SMALL_SIZE: usize = 4 << 10;
/// Size of the matching cache of one thread.
const MAX_CACHE_SIZE: usize = 1 << 20;
/// Patterns of single conditions that stay compiled.
const MAX_COMPILED: usize = 128;

/// With fewer others, any pattern fits into its table; with fewer than [`MAX_SMALL`], any small one does.
const MAX_ANY: usize = 64;
const MAX_SMALL: usize = 1_000;

/// Whether a pattern fits into every table with `n_others` other patterns that were admitted by the same rule. A table may
/// be complete even if this returns `false`.
#[must_use]
pub fn fits_any_table(pattern: &str, n_others: usize) -> bool {
    n_others < MAX_ANY || n_others < MAX_SMALL && compile(pattern, SMALL_SIZE).is_some()
}

/// The patterns of a table, compiled together when first used.
#[derive(Debug, Default)]
pub(super) struct Patterns {
    /// Each with the place of its entry.
    all: Vec<(usize, String)>,
    compiled: OnceLock<Compiled>,
}

#[derive(Debug)]
struct Compiled {
    set: RegexSet,
    /// The place of the entry of each pattern in the set.
    places: Vec<usize>,
}

impl Patterns {
    pub(super) fn new(all: Vec<(usize, String)>) -> Self {
        Self { all, compiled: OnceLock::new() }
    }

    fn compiled(&self) -> &Compiled {
        self.compiled.get_or_init(|| {
            let whole = build(&self.all);
            // Too large together, or one is invalid: each gets an equal share of the size.
            whole.unwrap_or_else(|| {
                let share = MAX_SET_SIZE / self.all.len().max(1);
                let fits = |pattern: &&(usize, String)| compile(&pattern.1, share).is_some();
                let fitting: Vec<(usize, String)> = self.all.iter().filter(fits).cloned().collect();
                build(&fitting)
                    .unwrap_or_else(|| Compiled { set: RegexSet::empty(), places: Vec::new() })
            })
        })
    }

    /// Whether every pattern is in use: none is left out for its size.
    pub(super) fn are_complete(&self) -> bool {
        self.compiled().places.len() == self.all.len()
    }

    /// The places of the entries whose pattern matches.
    pub(super) fn matching(&self, name: &str) -> Vec<usize> {
        if self.all.is_empty() {
            return Vec::new();
        }
        let compiled = self.compiled();
        let matches = compiled.set.matches(name).into_iter();
        matches.filter_map(|at| compiled.places.get(at).copied()).collect()
    }
}

fn build(patterns: &[(usize, String)]) -> Option<Compiled> {
    let set = RegexSetBuilder::new(patterns.iter().map(|(_, text)| text))
        .size_limit(MAX_SET_SIZE)
        .dfa_size_limit(MAX_CACHE_SIZE)
        .build()
        .ok()?;
    Some(Compiled { set, places: patterns.iter().map(|(place, _)| *place).collect() })
}

fn compile(pattern: &str, max_bytes: usize) -> Option<Regex> {
    RegexBuilder::new(pattern)
        .size_limit(max_bytes.min(MAX_PATTERN_SIZE))
        .dfa_size_limit(MAX_PATTERN_SIZE)
        .build()
        .ok()
}

/// Whether a pattern of a single condition matches. The patterns used last stay compiled.
pub(super) fn is_match(pattern: &str, text: &str) -> bool {
    static COMPILED: LazyLock<Mutex<HashMap<String, Option<Regex>>>> =
        LazyLock::new(Mutex::default);
    let known = || COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    let found = known().get(pattern).cloned();
    let regex = found.unwrap_or_else(|| {
        let regex = compile(pattern, MAX_PATTERN_SIZE);
        let mut known = known();
        if MAX_COMPILED <= known.len() {
            known.clear();
        }
        known.insert(pattern.to_owned(), regex.clone());
        regex
    });
    regex.is_some_and(|regex| regex.is_match(text))
}
