//! How many traces came since.

use super::*;
use crate::Among;

#[tokio::test]
async fn what_came_since_is_counted_in_its_time_and_its_environments() {
    on_each_database(|store| async move {
        let p = project("p");
        let steps = (1..=6).map(|n| Observation {
            environment: match n % 2 {
                0 => "even".to_owned(),
                _ => "odd".to_owned(),
            },
            ..span(n, n, None)
        });
        let steps = steps.collect();
        let write = store.telemetry.write_batch(&p, batch(steps), at(0));
        write.await.unwrap();
        let (even, both) = (["even".to_owned()], ["odd".to_owned(), "even".to_owned()]);
        for (since, until, among, limit, expected) in [
            (2, None, Among::Without(&[]), 9, (4, false)),
            (2, None, Among::Without(&["odd"]), 9, (2, false)),
            (2, None, Among::Only(&even), 9, (2, false)),
            (2, Some(6), Among::Only(&even), 9, (1, false)),
            (2, Some(6), Among::Only(&both), 9, (3, false)),
            (2, Some(1), Among::Only(&both), 9, (0, false)),
            (2, None, Among::Only(&even), 2, (1, true)),
            (6, None, Among::Without(&[]), 9, (0, false)),
        ] {
            let range = (at(since), until.map(at));
            let counted = store.telemetry.traces_since(&p, range, among, limit);
            assert_eq!(counted.await.unwrap(), expected, "{range:?} {among:?}");
        }
    })
    .await;
}
