//! Migration of traces that were stored before the types, models and prompts of their observations became
//! marks.

use perpend_db::{Arg, MigrationMode, Options, Pool, STEPS, migrate};

use crate::Store;
use crate::testing::TempDatabase;

const TRACE: &str = "
    INSERT INTO traces (number, tenant, trace_id, revision, stale, first_seen, last_seen, n_open, has_marker,
                        started_at, environment, is_public, level, n_observations, n_debug, n_default,
                        n_warning, n_error, latency_us, total_cost, detail)
    VALUES ($1, 1, $2, 0, 0, 0, 0, 0, 0, $1, 'prod', 0, 'DEFAULT', 0, 0, 0, 0, 0, 0, 0, $3)";
const STEP: &str = "
    INSERT INTO observations (tenant, trace, id, kind, name, started_at, level, environment, is_root, model,
                              prompt_name, detail, place, created_at, updated_at)
    VALUES (1, $1, $2, $3, '', 0, 'DEFAULT', 'prod', 0, $4, $5, '{}', 0, 0, 0)";
const MARKS: &str =
    "SELECT trace, mark, started_at, environment FROM trace_marks ORDER BY trace, mark";
const DETAILS: &str = "SELECT detail FROM traces ORDER BY number";

#[tokio::test]
async fn older_traces_get_the_marks_of_their_observations() {
    let before = STEPS.iter().position(|step| step.name == "marks of steps");
    for database in TempDatabase::each().await {
        let pool = Pool::open(database.url(), &Options::default()).await;
        let store = Store::over(pool.unwrap());
        migrate(&store.pool, &STEPS[..before.unwrap()], MigrationMode::Migrate).await.unwrap();
        for (number, detail) in [(1, "{}"), (2, r#"{"bookmarked":true,"tags":["vip"]}"#), (3, "{}")]
        {
            let id = format!("t{number}");
            let args = [Arg::Int(Some(number)), id.as_str().into(), detail.into()];
            store.pool.change(TRACE, &args).await.unwrap();
        }
        let many: Vec<String> = (0..101).map(|n| format!("m{n:04}")).collect();
        let many = many.iter().enumerate();
        let many =
            many.map(|(at, model)| (3, format!("s{at}"), "SPAN", Some(model.as_str()), None));
        let few = [
            (1, "t-t1", "SPAN", Some("record"), None),
            (2, "a", "GENERATION", Some("large \"x\""), Some("greet")),
            (2, "b", "GENERATION", Some("large \"x\""), Some("")),
            (2, "c", "TOOL", None, None),
        ];
        let few =
            few.map(|(trace, id, kind, model, prompt)| (trace, id.to_owned(), kind, model, prompt));
        for (trace, id, kind, model, prompt) in few.into_iter().chain(many) {
            let args: [Arg<'_>; 5] = [
                Arg::Int(Some(trace)),
                id.as_str().into(),
                kind.into(),
                model.into(),
                prompt.into(),
            ];
            store.pool.change(STEP, &args).await.unwrap();
        }
        migrate(&store.pool, STEPS, MigrationMode::Migrate).await.unwrap();
        let marks: Vec<(i64, String, i64, String)> = store.pool.select(MARKS, &[]).await.unwrap();
        let of = |trace: i64| -> Vec<&str> {
            let own = marks.iter().filter(|(number, ..)| *number == trace);
            own.map(|(_, mark, ..)| mark.as_str()).collect()
        };
        assert_eq!(of(1), [""; 0], "the record of a trace is no observation");
        assert_eq!(of(2), ["kGENERATION", "kTOOL", "olarge \"x\"", "pgreet", "tvip"]);
        assert_eq!(of(3).len(), 101, "a kind, and as many models as a trace keeps");
        assert!(
            marks
                .iter()
                .all(|(trace, _, start, environment)| start == trace && environment == "prod")
        );
        let details: Vec<(String,)> = store.pool.select(DETAILS, &[]).await.unwrap();
        let detail: serde_json::Value = serde_json::from_str(&details[1].0).unwrap();
        assert_eq!(
            detail,
            serde_json::json!({
                "bookmarked": true, "tags": ["vip"],
                "steps": ["kGENERATION", "kTOOL", "olarge \"x\"", "pgreet"],
            })
        );
        // A changed trace and a deleted one update their marks.
        let later =
            "UPDATE traces SET started_at = 9, detail = '{\"steps\":[\"kTOOL\"]}' WHERE number = 2";
        store.pool.change(later, &[]).await.unwrap();
        let gone = "DELETE FROM traces WHERE number = 3";
        store.pool.change(gone, &[]).await.unwrap();
        let marks: Vec<(i64, String, i64, String)> = store.pool.select(MARKS, &[]).await.unwrap();
        assert_eq!(marks, [(2, "kTOOL".to_owned(), 9, "prod".to_owned())]);
        store.close().await;
    }
}
