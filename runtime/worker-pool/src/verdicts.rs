//! Verdicts of earlier checks: the same schema and value are not checked twice.
//!
//! A key names the project. Without it, a project could find out by timing which values another one checked.

use std::sync::Mutex;
use std::time::Duration;

use hashlink::LruCache;
use perpend_domain::ids::ProjectId;
use perpend_domain::plugin::Digest;
use perpend_worker_protocol::{
    CheckError, Mismatch, SchemaAnswer, SchemaCheck, SchemaKind, ValueReport,
};
use tokio::time::Instant;

use crate::queue::lock;

/// Memory of all verdicts together; beyond it the least recently used are dropped.
const MAX_BYTES: usize = 16 << 20;
/// A verdict that takes more is not kept.
const MAX_VERDICT_BYTES: usize = 256 << 10;
/// What a key and the bookkeeping of the cache take, beside the texts.
const ENTRY_BYTES: usize = 256;
/// Whether a check ends in time depends on the machine too, so that this verdict is tried again later. Until
/// then the same request does not cost the whole limit again.
const TOO_MUCH_WORK_FOR: Duration = Duration::from_secs(300);

#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    project: ProjectId,
    kind: SchemaKind,
    schema: Digest,
    /// `None` for the schema alone.
    value: Option<Digest>,
}

/// A check, by digests.
pub(crate) struct Asked {
    schema: Key,
    values: Vec<Key>,
}

impl Asked {
    pub(crate) fn new(project: &ProjectId, check: &SchemaCheck) -> Self {
        let schema = Key {
            project: project.clone(),
            kind: check.kind,
            schema: Digest::of(check.schema.as_bytes()),
            value: None,
        };
        let of_value =
            |value: &String| Key { value: Some(Digest::of(value.as_bytes())), ..schema.clone() };
        Self { values: check.values.iter().map(of_value).collect(), schema }
    }

    /// The only key that a verdict about the whole check is about: with several values, any of them may be
    /// the reason.
    fn single(&self) -> Option<&Key> {
        match self.values.as_slice() {
            [] => Some(&self.schema),
            [value] => Some(value),
            _ => None,
        }
    }
}

/// Why a check ended without a verdict about its values.
#[derive(Clone)]
enum Refusal {
    Unusable(Mismatch),
    TooMuchWork { until: Instant },
}

impl Refusal {
    fn answer(self) -> Result<SchemaAnswer, CheckError> {
        match self {
            Self::Unusable(why) => Ok(Err(why)),
            Self::TooMuchWork { .. } => Err(CheckError::TooMuchWork),
        }
    }
}

/// For a schema alone: nothing is wrong with it, or why it cannot be used.
type Verdict = Result<ValueReport, Refusal>;

fn size(verdict: &Verdict) -> usize {
    let text = |mismatch: &Mismatch| {
        2 * size_of::<String>() + mismatch.pointer.len() + mismatch.message.len()
    };
    let texts = match verdict {
        Ok(held) => {
            let filled = held.with_defaults.as_ref().map_or(0, String::len);
            filled + held.mismatches.iter().map(text).sum::<usize>()
        }
        Err(Refusal::Unusable(why)) => text(why),
        Err(Refusal::TooMuchWork { .. }) => 0,
    };
    ENTRY_BYTES + texts
}

pub(crate) struct Verdicts(Mutex<Kept>);

struct Kept {
    verdicts: LruCache<Key, Verdict>,
    n_bytes: usize,
}

impl Default for Verdicts {
    fn default() -> Self {
        Self(Mutex::new(Kept { verdicts: LruCache::new_unbounded(), n_bytes: 0 }))
    }
}

impl Verdicts {
    /// The answer to a check, where all of it is known.
    pub(crate) fn known(
        &self,
        asked: &Asked,
        now: Instant,
    ) -> Option<Result<SchemaAnswer, CheckError>> {
        let mut kept = lock(&self.0);
        let mut find = |key: &Key| match kept.verdicts.get(key)? {
            Err(Refusal::TooMuchWork { until }) if *until <= now => None,
            verdict => Some(verdict.clone()),
        };
        match find(&asked.schema) {
            // It cannot be used, whatever the values are.
            Some(Err(refusal)) => return Some(refusal.answer()),
            None if asked.values.is_empty() => return None,
            _ => {}
        }
        let mut all = Vec::with_capacity(asked.values.len());
        for key in &asked.values {
            match find(key)? {
                Ok(held) => all.push(held),
                Err(refusal) => return Some(refusal.answer()),
            }
        }
        Some(Ok(Ok(all)))
    }

    /// Keeps what a check gave. What failed through no fault of its own is no verdict.
    pub(crate) fn learn(
        &self,
        asked: &Asked,
        answer: &Result<SchemaAnswer, CheckError>,
        now: Instant,
    ) {
        let refusal = match answer {
            Ok(Ok(all)) => {
                self.keep(&asked.schema, Ok(ValueReport::default()));
                for (key, held) in asked.values.iter().zip(all) {
                    self.keep(key, Ok(held.clone()));
                }
                return;
            }
            Ok(Err(why)) => Refusal::Unusable(why.clone()),
            Err(CheckError::TooMuchWork) => Refusal::TooMuchWork { until: now + TOO_MUCH_WORK_FOR },
            Err(_) => return,
        };
        if let Some(key) = asked.single() {
            self.keep(key, Err(refusal));
        }
    }

    fn keep(&self, key: &Key, verdict: Verdict) {
        let n_bytes = size(&verdict);
        if MAX_VERDICT_BYTES < n_bytes {
            return;
        }
        let mut kept = lock(&self.0);
        kept.n_bytes += n_bytes;
        let mut gone = kept.verdicts.insert(key.clone(), verdict);
        loop {
            kept.n_bytes -= gone.as_ref().map_or(0, size);
            if kept.n_bytes <= MAX_BYTES {
                return;
            }
            gone = kept.verdicts.remove_lru().map(|(_, verdict)| verdict);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(project: &str, schema: &str, values: &[&str]) -> Asked {
        let check = SchemaCheck {
            schema: schema.to_owned(),
            kind: SchemaKind::Any,
            values: values.iter().map(|value| (*value).to_owned()).collect(),
        };
        Asked::new(&ProjectId::new(project).unwrap(), &check)
    }

    fn held(message: &str) -> ValueReport {
        ValueReport { mismatches: vec![Mismatch::whole(message)], with_defaults: None }
    }

    #[test]
    fn a_check_is_known_where_each_of_its_values_was_checked_for_the_same_project_and_schema() {
        let (verdicts, now) = (Verdicts::default(), Instant::now());
        let both = vec![held("one"), held("two")];
        verdicts.learn(&asked("p", "S", &["1", "2"]), &Ok(Ok(both.clone())), now);
        let known = |project: &str, schema: &str, values: &[&str]| {
            verdicts.known(&asked(project, schema, values), now)
        };
        assert_eq!(known("p", "S", &["1", "2"]), Some(Ok(Ok(both))));
        assert_eq!(known("p", "S", &["2"]), Some(Ok(Ok(vec![held("two")]))));
        assert_eq!(known("p", "S", &[]), Some(Ok(Ok(vec![]))));
        assert_eq!(known("p", "S", &["1", "3"]), None);
        assert_eq!(known("p", "T", &["1"]), None);
        assert_eq!(known("q", "S", &["1"]), None);
    }

    #[test]
    fn a_schema_that_cannot_be_used_is_refused_with_every_value_and_a_batch_proves_nothing_of_one()
    {
        let (verdicts, now) = (Verdicts::default(), Instant::now());
        let too_much = Err(CheckError::TooMuchWork);
        verdicts.learn(&asked("p", "S", &["1", "2"]), &too_much, now);
        verdicts.learn(&asked("p", "S", &["3"]), &Err(CheckError::Failed("x".into())), now);
        let known =
            |schema: &str, values: &[&str]| verdicts.known(&asked("p", schema, values), now);
        for values in [&["1"][..], &["2"], &["3"], &[]] {
            assert_eq!(known("S", values), None);
        }
        let why = Mismatch::whole("not a schema");
        verdicts.learn(&asked("p", "bad", &[]), &Ok(Err(why.clone())), now);
        assert_eq!(known("bad", &["1"]), Some(Ok(Err(why))));
    }

    #[test]
    fn a_check_that_was_too_much_work_is_tried_again_later() {
        let (verdicts, now) = (Verdicts::default(), Instant::now());
        let one = asked("p", "S", &["1"]);
        verdicts.learn(&one, &Err(CheckError::TooMuchWork), now);
        let before = now + TOO_MUCH_WORK_FOR - Duration::from_nanos(1);
        let known = verdicts.known(&one, before);
        assert_eq!(known, Some(Err(CheckError::TooMuchWork)));
        assert_eq!(verdicts.known(&one, now + TOO_MUCH_WORK_FOR), None);
        verdicts.learn(&one, &Ok(Ok(vec![held("one")])), now + TOO_MUCH_WORK_FOR);
        let known = verdicts.known(&one, now + TOO_MUCH_WORK_FOR);
        assert_eq!(known, Some(Ok(Ok(vec![held("one")]))));
    }

    #[test]
    fn memory_is_bounded_and_the_least_recently_used_go_first() {
        let (verdicts, now) = (Verdicts::default(), Instant::now());
        let text = "x".repeat(MAX_VERDICT_BYTES - 2 * ENTRY_BYTES);
        let name = |n: usize| n.to_string();
        let n_all = 3 * MAX_BYTES / MAX_VERDICT_BYTES;
        for n in 0..n_all {
            let answer = Ok(Ok(vec![held(&text)]));
            verdicts.learn(&asked("p", "S", &[&name(n)]), &answer, now);
            // Used again and again: it stays.
            assert!(verdicts.known(&asked("p", "S", &["0"]), now).is_some());
            assert!(lock(&verdicts.0).n_bytes <= MAX_BYTES);
        }
        let is_known = |n| verdicts.known(&asked("p", "S", &[&name(n)]), now).is_some();
        assert!(is_known(n_all - 1) && !is_known(1));
        let kept: usize = lock(&verdicts.0).verdicts.iter().map(|(_, each)| size(each)).sum();
        assert_eq!(lock(&verdicts.0).n_bytes, kept);
        // One that is too large would drop many others.
        let large = Ok(Ok(vec![held(&"x".repeat(MAX_VERDICT_BYTES))]));
        verdicts.learn(&asked("p", "S", &["large"]), &large, now);
        assert_eq!(verdicts.known(&asked("p", "S", &["large"]), now), None);
    }
}
