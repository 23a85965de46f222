//! Costs of traces, sessions and users with missing prices.

use perpend_domain::cost::CostSum;
use perpend_domain::telemetry::{GroupKey, GroupQuery};

use super::*;

/// The first observation of a trace, which calls no model.
fn root(trace: u32) -> Observation {
    let mut root = span(trace, 1, None);
    root.kind = ObservationKind::Span;
    (root.usage, root.computed_cost, root.model) = (Usage::new(), Cost::new(), None);
    root.session_id = Some("s".to_owned());
    root.user_id = Some("u".to_owned());
    root
}

/// A model call with this cost; `None` if its model has no price.
fn call(trace: u32, id: u32, dollars: Option<f64>) -> Observation {
    let mut call = span(trace, id, Some(1));
    call.computed_cost = dollars.map(|dollars| ("total".to_owned(), dollars)).into_iter().collect();
    call
}

fn cost(dollars: f64, n_priced: u64, n_unpriced: u64) -> CostSum {
    CostSum { dollars, n_priced, n_unpriced }
}

async fn of_traces(store: &Store, project: &ProjectId) -> Vec<CostSum> {
    let mut costs = Vec::new();
    for n in 1..=4 {
        let id = trace_id(n);
        let found = store.telemetry.trace(project, &id, false).await;
        costs.push(found.unwrap().unwrap().trace.cost());
    }
    costs
}

#[tokio::test]
async fn a_missing_price_differs_from_zero_and_a_late_price_is_applied() {
    on_each_database(|store| async move {
        let p = project("p1");
        let telemetry = &store.telemetry;
        let spans = vec![
            root(1),
            root(2),
            call(2, 2, Some(0.0)),
            root(3),
            call(3, 2, None),
            root(4),
            call(4, 2, Some(0.5)),
            call(4, 3, None),
        ];
        telemetry.write_batch(&p, batch(spans), at(0)).await.unwrap();
        let free = cost(0.0, 1, 0);
        let mixed = cost(0.5, 1, 1);
        let expected = [CostSum::default(), free, cost(0.0, 0, 1), mixed];
        assert_eq!(of_traces(&store, &p).await, expected);

        // A richer version of one call, and a new call.
        let mut late = call(3, 2, Some(0.25));
        late.attribute_count += 1;
        let more = vec![late, call(4, 4, None)];
        telemetry.write_batch(&p, batch(more), at(1)).await.unwrap();
        let expected = [CostSum::default(), free, cost(0.25, 1, 0), cost(0.5, 1, 2)];
        assert_eq!(of_traces(&store, &p).await, expected);
        let listed = telemetry.traces(&p, &TraceQuery::default()).await.unwrap();
        let listed = listed.items.iter().map(|stored| stored.trace.cost());
        assert_eq!(listed.sum::<CostSum>(), expected.into_iter().sum::<CostSum>());
        for by in [GroupKey::Session, GroupKey::User] {
            let query = GroupQuery::new(by, 10);
            let page = telemetry.trace_groups(&p, &query).await.unwrap();
            let costs: Vec<CostSum> = page.items.iter().map(|group| group.cost).collect();
            assert_eq!(costs, [cost(0.75, 3, 2)]);
        }
    })
    .await;
}
