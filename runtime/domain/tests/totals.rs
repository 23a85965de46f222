//! Totals of traces over random trees: an aggregate counts exactly if none of its descendants counts, for any order
//! of the observations; and each observation counts at most once as priced or as unpriced.

#![expect(clippy::unwrap_used, reason = "a test says what is wrong by panicking")]

use perpend_domain::fold::fold;
use perpend_domain::ids::{ObservationId, TraceId};
use perpend_domain::observation::{Observation, ObservationKind};
use perpend_domain::patch::{Patch, PatchSubject, merge};
use perpend_domain::time::Timestamp;
use proptest::prelude::*;

/// One observation: the index of its parent among the earlier ones, and its usage.
#[derive(Clone, Debug)]
struct Step {
    parent: Option<prop::sample::Index>,
    tokens: u16,
    /// Zero is a cost too.
    cents: Option<u8>,
    names_model: bool,
    aggregate_tokens: u16,
    aggregate_cents: u8,
}

impl Step {
    fn counts(&self) -> bool {
        self.tokens > 0
            || self.cents.is_some()
            || self.aggregate_tokens > 0
            || self.aggregate_cents > 0
    }

    fn uses_model(&self) -> bool {
        self.counts() || self.names_model
    }
}

/// The totals of observations.
#[derive(Debug, Default, PartialEq)]
struct Totals {
    tokens: u64,
    cents: u64,
    n_priced: u32,
    n_unpriced: u32,
}

fn step() -> impl Strategy<Value = Step> {
    // Most observations count nothing, so that aggregates without a counting descendant are frequent.
    let sparse = |max: u16| prop_oneof![3 => Just(0), 2 => 1..max];
    (
        any::<Option<prop::sample::Index>>(),
        sparse(1_000),
        prop_oneof![2 => Just(None), 1 => (0..100_u8).prop_map(Some)],
        any::<bool>(),
        sparse(1_000),
        sparse(100),
    )
        .prop_map(|(parent, tokens, cents, names_model, aggregate_tokens, aggregate_cents)| {
            Step {
                parent,
                tokens,
                cents,
                names_model,
                aggregate_tokens,
                aggregate_cents: u8::try_from(aggregate_cents).unwrap(),
            }
        })
}

fn parent_of(steps: &[Step], at: usize) -> Option<usize> {
    let parent = steps[at].parent.as_ref()?;
    (at > 0).then(|| parent.index(at))
}

fn observation(steps: &[Step], at: usize) -> Observation {
    let id = |at: usize| ObservationId::new(&format!("o{at}")).unwrap();
    let start = Timestamp::from_millis(at as i64);
    let mut patch = Patch::new(String::new(), start, false, PatchSubject::Observation(id(at)));
    patch.trace_id = Some(TraceId::new("t").unwrap());
    let mut own = merge([&patch]).unwrap();
    let step = &steps[at];
    own.parent_id = parent_of(steps, at).map(id);
    own.start = start;
    if step.tokens > 0 {
        own.kind = ObservationKind::Generation;
        own.usage.insert("total".to_owned(), u64::from(step.tokens).into());
    }
    if let Some(cents) = step.cents {
        own.cost.insert("total".to_owned(), f64::from(cents) / 100.0);
    }
    own.model = step.names_model.then(|| "unlisted".to_owned());
    if step.aggregate_tokens > 0 {
        own.aggregate_usage.insert("total".to_owned(), u64::from(step.aggregate_tokens).into());
    }
    if step.aggregate_cents > 0 {
        own.aggregate_computed_cost
            .insert("total".to_owned(), f64::from(step.aggregate_cents) / 100.0);
    }
    own
}

/// The totals by the definition, one observation at a time.
fn expected(steps: &[Step]) -> Totals {
    let is_below = |mut at: usize, above: usize| {
        while let Some(parent) = parent_of(steps, at) {
            if parent == above {
                return true;
            }
            at = parent;
        }
        false
    };
    let mut sums = Totals::default();
    for (at, step) in steps.iter().enumerate() {
        let is_any_below = |is_one: fn(&Step) -> bool| {
            (0..steps.len()).any(|other| is_one(&steps[other]) && is_below(other, at))
        };
        let is_told_below = is_any_below(Step::counts);
        sums.tokens += u64::from(step.tokens);
        if !is_told_below && step.tokens == 0 {
            sums.tokens += u64::from(step.aggregate_tokens);
        }
        let aggregate =
            (!is_told_below && step.aggregate_cents > 0).then_some(step.aggregate_cents);
        if let Some(cents) = step.cents.or(aggregate) {
            sums.cents += u64::from(cents);
            sums.n_priced += 1;
        } else if step.tokens > 0 || (step.uses_model() && !is_any_below(Step::uses_model)) {
            sums.n_unpriced += 1;
        }
    }
    sums
}

proptest! {
    #[test]
    fn an_aggregate_counts_where_nothing_below_does_in_any_order(
        (steps, shuffled) in prop::collection::vec(step(), 1..12).prop_flat_map(|steps| {
            let order: Vec<usize> = (0..steps.len()).collect();
            (Just(steps), Just(order).prop_shuffle())
        })
    ) {
        let in_order: Vec<Observation> = (0..steps.len()).map(|at| observation(&steps, at)).collect();
        let arrived: Vec<Observation> = shuffled.iter().map(|at| in_order[*at].clone()).collect();
        let trace = fold(&arrived).unwrap();
        prop_assert_eq!(&trace, &fold(&in_order).unwrap());
        let totals = Totals {
            tokens: trace.usage.get("total").map_or(0, |n| n.to_u64()),
            cents: (trace.total_cost * 100.0).round() as u64,
            n_priced: trace.n_priced,
            n_unpriced: trace.n_unpriced,
        };
        prop_assert_eq!(totals, expected(&steps));
    }
}
