//! Totals of traces over random trees: what repeats the steps below counts exactly where nothing below counts,
//! in whatever order the observations arrive.

#![expect(clippy::unwrap_used, reason = "a test says what is wrong by panicking")]

use perpend_domain::fold::fold;
use perpend_domain::ids::{ObservationId, TraceId};
use perpend_domain::observation::{Observation, ObservationKind};
use perpend_domain::patch::{About, Patch, merge};
use perpend_domain::time::Timestamp;
use proptest::prelude::*;

/// One step: where its parent stands among those before it, and what it counts.
#[derive(Clone, Debug)]
struct Step {
    parent: Option<prop::sample::Index>,
    tokens: u16,
    aggregate_tokens: u16,
    aggregate_cents: u8,
}

fn step() -> impl Strategy<Value = Step> {
    // Most steps count nothing, so that aggregates without a counting step below are frequent.
    let sparse = |max: u16| prop_oneof![3 => Just(0), 2 => 1..max];
    (
        any::<Option<prop::sample::Index>>(),
        sparse(1_000),
        sparse(1_000),
        sparse(100),
    )
        .prop_map(|(parent, tokens, aggregate_tokens, cents)| Step {
            parent,
            tokens,
            aggregate_tokens,
            aggregate_cents: u8::try_from(cents).unwrap(),
        })
}

fn parent_of(steps: &[Step], at: usize) -> Option<usize> {
    let parent = steps[at].parent.as_ref()?;
    (at > 0).then(|| parent.index(at))
}

fn observation(steps: &[Step], at: usize) -> Observation {
    let id = |at: usize| ObservationId::new(&format!("o{at}")).unwrap();
    let start = Timestamp::from_millis(at as i64);
    let mut patch = Patch::new(String::new(), start, false, About::Observation(id(at)));
    patch.trace_id = Some(TraceId::new("t").unwrap());
    let mut own = merge([&patch]).unwrap();
    let step = &steps[at];
    own.parent_id = parent_of(steps, at).map(id);
    own.start = start;
    if step.tokens > 0 {
        own.kind = ObservationKind::Generation;
        own.usage.insert("total".to_owned(), step.tokens.into());
    }
    if step.aggregate_tokens > 0 {
        own.aggregate_usage
            .insert("total".to_owned(), step.aggregate_tokens.into());
    }
    if step.aggregate_cents > 0 {
        own.aggregate_computed_cost
            .insert("total".to_owned(), f64::from(step.aggregate_cents) / 100.0);
    }
    own
}

/// Tokens and cents by the definition, one step at a time.
fn expected(steps: &[Step]) -> (u64, u64) {
    let counts =
        |step: &Step| step.tokens > 0 || step.aggregate_tokens > 0 || step.aggregate_cents > 0;
    let is_below = |mut at: usize, above: usize| {
        while let Some(parent) = parent_of(steps, at) {
            if parent == above {
                return true;
            }
            at = parent;
        }
        false
    };
    let mut sums = (0, 0);
    for (at, step) in steps.iter().enumerate() {
        sums.0 += u64::from(step.tokens);
        let is_told_below =
            (0..steps.len()).any(|other| counts(&steps[other]) && is_below(other, at));
        if !is_told_below {
            sums.0 += if step.tokens == 0 {
                u64::from(step.aggregate_tokens)
            } else {
                0
            };
            sums.1 += u64::from(step.aggregate_cents);
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
        let cents = (trace.total_cost * 100.0).round() as u64;
        let tokens = trace.usage.get("total").copied().unwrap_or(0);
        prop_assert_eq!((tokens, cents), expected(&steps));
    }
}
