//! A cache of schema checks.
//!
//! A key includes the project. Otherwise a project could determine by timing which values another project checked.

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

/// Maximum memory of all entries; the least recently used are evicted.
const MAX_BYTES: usize = 16 << 20;
/// Larger verdicts are not cached.
const MAX_VERDICT_BYTES: usize = 256 << 10;
/// Memory of an entry without its texts.
const ENTRY_BYTES: usize = 256;
/// How long a check over its limits is cached. It is tried again later, because its duration also depends on the load of the
/// machine.
const TOO_MUCH_WORK_FOR: Duration = Duration::from_secs(300);

#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    project: ProjectId,
    kind: SchemaKind,
    schema: Digest,
    /// `None` for the schema alone.
    value: Option<Digest>,
}

/// The keys of a check.
pub(crate) struct CheckKeys {
    schema: Key,
    values: Vec<Key>,
}

impl CheckKeys {
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

    /// The key to which a verdict about the whole check applies; `None` with several values, any of which may be the cause.
    fn single(&self) -> Option<&Key> {
        match self.values.as_slice() {
            [] => Some(&self.schema),
            [value] => Some(value),
            _ => None,
        }
    }
}

/// A check that ended without a result for its values.
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

/// The result for a value, or for a schema alone.
type Verdict = Result<ValueReport, Refusal>;

fn size(verdict: &Verdict) -> usize {
    let text = |mismatch: &Mismatch| {
        2 * size_of::<String>() + mismatch.pointer.len() + mismatch.message.len()
    };
    let texts = match verdict {
        Ok(report) => {
            let with_defaults = report.with_defaults.as_ref().map_or(0, String::len);
            with_defaults + report.mismatches.iter().map(text).sum::<usize>()
        }
        Err(Refusal::Unusable(why)) => text(why),
        Err(Refusal::TooMuchWork { .. }) => 0,
    };
    ENTRY_BYTES + texts
}

pub(crate) struct VerdictCache(Mutex<Entries>);

struct Entries {
    verdicts: LruCache<Key, Verdict>,
    n_bytes: usize,
}

impl Default for VerdictCache {
    fn default() -> Self {
        Self(Mutex::new(Entries { verdicts: LruCache::new_unbounded(), n_bytes: 0 }))
    }
}

impl VerdictCache {
    /// The result of a check, if all of its parts are cached.
    pub(crate) fn get(
        &self,
        keys: &CheckKeys,
        now: Instant,
    ) -> Option<Result<SchemaAnswer, CheckError>> {
        let mut entries = lock(&self.0);
        let mut find = |key: &Key| match entries.verdicts.get(key)? {
            Err(Refusal::TooMuchWork { until }) if *until <= now => None,
            verdict => Some(verdict.clone()),
        };
        match find(&keys.schema) {
            // The schema is unusable for all values.
            Some(Err(refusal)) => return Some(refusal.answer()),
            None if keys.values.is_empty() => return None,
            _ => {}
        }
        let mut all = Vec::with_capacity(keys.values.len());
        for key in &keys.values {
            match find(key)? {
                Ok(report) => all.push(report),
                Err(refusal) => return Some(refusal.answer()),
            }
        }
        Some(Ok(Ok(all)))
    }

    /// Caches the result of a check. Failures that the schema did not cause are not cached.
    pub(crate) fn insert(
        &self,
        keys: &CheckKeys,
        answer: &Result<SchemaAnswer, CheckError>,
        now: Instant,
    ) {
        let refusal = match answer {
            Ok(Ok(all)) => {
                self.insert_verdict(&keys.schema, Ok(ValueReport::default()));
                for (key, report) in keys.values.iter().zip(all) {
                    self.insert_verdict(key, Ok(report.clone()));
                }
                return;
            }
            Ok(Err(why)) => Refusal::Unusable(why.clone()),
            Err(CheckError::TooMuchWork) => Refusal::TooMuchWork { until: now + TOO_MUCH_WORK_FOR },
            Err(_) => return,
        };
        if let Some(key) = keys.single() {
            self.insert_verdict(key, Err(refusal));
        }
    }

    fn insert_verdict(&self, key: &Key, verdict: Verdict) {
        let n_bytes = size(&verdict);
        if MAX_VERDICT_BYTES < n_bytes {
            return;
        }
        let mut entries = lock(&self.0);
        entries.n_bytes += n_bytes;
        let mut evicted = entries.verdicts.insert(key.clone(), verdict);
        loop {
            entries.n_bytes -= evicted.as_ref().map_or(0, size);
            if entries.n_bytes <= MAX_BYTES {
                return;
            }
            evicted = entries.verdicts.remove_lru().map(|(_, verdict)| verdict);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(project: &str, schema: &str, values: &[&str]) -> CheckKeys {
        let check = SchemaCheck {
            schema: schema.to_owned(),
            kind: SchemaKind::Any,
            values: values.iter().map(|value| (*value).to_owned()).collect(),
        };
        CheckKeys::new(&ProjectId::new(project).unwrap(), &check)
    }

    fn report(message: &str) -> ValueReport {
        ValueReport { mismatches: vec![Mismatch::whole(message)], with_defaults: None }
    }

    #[test]
    fn a_check_is_cached_when_each_value_was_checked_for_the_same_project_and_schema() {
        let (verdicts, now) = (VerdictCache::default(), Instant::now());
        let both = vec![report("one"), report("two")];
        verdicts.insert(&keys("p", "S", &["1", "2"]), &Ok(Ok(both.clone())), now);
        let cached = |project: &str, schema: &str, values: &[&str]| {
            verdicts.get(&keys(project, schema, values), now)
        };
        assert_eq!(cached("p", "S", &["1", "2"]), Some(Ok(Ok(both))));
        assert_eq!(cached("p", "S", &["2"]), Some(Ok(Ok(vec![report("two")]))));
        assert_eq!(cached("p", "S", &[]), Some(Ok(Ok(vec![]))));
        assert_eq!(cached("p", "S", &["1", "3"]), None);
        assert_eq!(cached("p", "T", &["1"]), None);
        assert_eq!(cached("q", "S", &["1"]), None);
    }

    #[test]
    fn an_unusable_schema_is_cached_for_all_values_and_a_failed_batch_for_no_value() {
        let (verdicts, now) = (VerdictCache::default(), Instant::now());
        let too_much = Err(CheckError::TooMuchWork);
        verdicts.insert(&keys("p", "S", &["1", "2"]), &too_much, now);
        verdicts.insert(&keys("p", "S", &["3"]), &Err(CheckError::Failed("x".into())), now);
        let cached = |schema: &str, values: &[&str]| verdicts.get(&keys("p", schema, values), now);
        for values in [&["1"][..], &["2"], &["3"], &[]] {
            assert_eq!(cached("S", values), None);
        }
        let why = Mismatch::whole("not a schema");
        verdicts.insert(&keys("p", "bad", &[]), &Ok(Err(why.clone())), now);
        assert_eq!(cached("bad", &["1"]), Some(Ok(Err(why))));
    }

    #[test]
    fn a_check_over_its_limits_is_tried_again_later() {
        let (verdicts, now) = (VerdictCache::default(), Instant::now());
        let one = keys("p", "S", &["1"]);
        verdicts.insert(&one, &Err(CheckError::TooMuchWork), now);
        let before = now + TOO_MUCH_WORK_FOR - Duration::from_nanos(1);
        let cached = verdicts.get(&one, before);
        assert_eq!(cached, Some(Err(CheckError::TooMuchWork)));
        assert_eq!(verdicts.get(&one, now + TOO_MUCH_WORK_FOR), None);
        verdicts.insert(&one, &Ok(Ok(vec![report("one")])), now + TOO_MUCH_WORK_FOR);
        let cached = verdicts.get(&one, now + TOO_MUCH_WORK_FOR);
        assert_eq!(cached, Some(Ok(Ok(vec![report("one")]))));
    }

    #[test]
    fn memory_is_bounded_and_the_least_recently_used_entries_are_evicted() {
        let (verdicts, now) = (VerdictCache::default(), Instant::now());
        let text = "x".repeat(MAX_VERDICT_BYTES - 2 * ENTRY_BYTES);
        let name = |n: usize| n.to_string();
        let n_all = 3 * MAX_BYTES / MAX_VERDICT_BYTES;
        for n in 0..n_all {
            let answer = Ok(Ok(vec![report(&text)]));
            verdicts.insert(&keys("p", "S", &[&name(n)]), &answer, now);
            // Used frequently, so that it is not evicted.
            assert!(verdicts.get(&keys("p", "S", &["0"]), now).is_some());
            assert!(lock(&verdicts.0).n_bytes <= MAX_BYTES);
        }
        let is_known = |n| verdicts.get(&keys("p", "S", &[&name(n)]), now).is_some();
        assert!(is_known(n_all - 1) && !is_known(1));
        let total: usize = lock(&verdicts.0).verdicts.iter().map(|(_, each)| size(each)).sum();
        assert_eq!(lock(&verdicts.0).n_bytes, total);
        // A large entry would evict many others.
        let large = Ok(Ok(vec![report(&"x".repeat(MAX_VERDICT_BYTES))]));
        verdicts.insert(&keys("p", "S", &["large"]), &large, now);
        assert_eq!(verdicts.get(&keys("p", "S", &["large"]), now), None);
    }
}
