//! Migration of traces that were stored before observations without a price were counted.

use perpend_db::{Arg, MigrationMode, Options, Pool, STEPS, migrate};

use crate::Store;
use crate::testing::TempDatabase;

const TRACE: &str = "
    INSERT INTO traces (number, tenant, trace_id, revision, stale, first_seen, last_seen, n_open, has_marker,
                        started_at, environment, is_public, level, n_observations, n_debug, n_default,
                        n_warning, n_error, latency_us, total_cost, detail)
    VALUES ($1, 1, $2, 0, 0, 0, 0, 0, 0, 0, 'default', 0, 'DEFAULT', 0, 0, 0, 0, 0, 0, $3, '{}')";
const STEP: &str = "
    INSERT INTO observations (tenant, trace, id, kind, name, started_at, level, environment, is_root,
                              total_tokens, total_cost, detail, place, created_at, updated_at)
    VALUES (1, $1, $2, $3, '', 0, 'DEFAULT', 'default', 0, $4, $5, '{}', 0, 0, 0)";
const COUNTED: &str = "SELECT number, n_priced, n_unpriced FROM traces ORDER BY number";

#[tokio::test]
async fn observations_with_and_without_a_price_are_counted_in_older_traces() {
    let before = STEPS.iter().position(|step| step.name == "unpriced steps");
    for database in TempDatabase::each().await {
        let pool = Pool::open(database.url(), &Options::default()).await;
        let store = Store::over(pool.unwrap());
        migrate(&store.pool, &STEPS[..before.unwrap()], MigrationMode::Migrate).await.unwrap();
        // Nothing, zero, unpriced calls, mixed, and a sum from an aggregate alone.
        for (number, total) in [(1, 0.0), (2, 0.0), (3, 0.0), (4, 0.5), (5, 0.75)] {
            let id = format!("t{number}");
            let args = [Arg::Int(Some(number)), id.as_str().into(), Arg::Float(Some(total))];
            store.pool.change(TRACE, &args).await.unwrap();
        }
        let (model, tokens) = ("GENERATION", Some(7));
        for (trace, id, kind, tokens, cost) in [
            (1, "t-t1", "SPAN", None, None),
            (1, "a", "TOOL", None, None),
            (2, "a", model, tokens, Some(0.0)),
            (3, "a", model, None, None),
            (3, "b", "SPAN", tokens, None),
            (4, "a", model, tokens, Some(0.5)),
            (4, "b", model, tokens, None),
            (4, "c", "SPAN", None, None),
            (5, "a", "AGENT", None, None),
        ] {
            let args: [Arg<'_>; 5] =
                [Arg::Int(Some(trace)), id.into(), kind.into(), Arg::Int(tokens), Arg::Float(cost)];
            store.pool.change(STEP, &args).await.unwrap();
        }
        migrate(&store.pool, STEPS, MigrationMode::Migrate).await.unwrap();
        let counted: Vec<(i64, i64, i64)> = store.pool.select(COUNTED, &[]).await.unwrap();
        assert_eq!(counted, [(1, 0, 0), (2, 1, 0), (3, 0, 2), (4, 1, 1), (5, 1, 0)]);
        store.close().await;
    }
}
