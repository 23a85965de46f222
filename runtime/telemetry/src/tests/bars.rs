//! Counts of traces over time.

use super::*;
use crate::{Environments, IntervalCounts};

#[tokio::test]
async fn traces_are_counted_in_the_stretch_in_which_they_began_and_in_their_environment() {
    on_each_database(|store| async move {
        let p = project("p");
        let stretches = [(at(0), at(10)), (at(10), at(20)), (at(20), at(30))];
        let began = async |environments: Environments<'_>| {
            let counted = store.telemetry.traces_began(&p, environments, &stretches);
            let counted = counted.await.unwrap().into_iter();
            let counted = counted.map(|own: IntervalCounts| (own.traces, own.with_errors));
            counted.collect::<Vec<_>>()
        };
        let all = Environments::AllBut(&[]);
        assert_eq!(began(all).await, [(0, 0); 3], "nothing was sent yet");
        let starts = [(1, 0, "a"), (2, 9, "b"), (3, 10, "a"), (4, 29, "c"), (5, 30, "a")];
        let spans = starts.map(|(n, start, environment)| {
            let mut root = span(n, n, None);
            (root.start, root.end) = (at(start), Some(at(start + 1)));
            root.environment = environment.to_owned();
            root.level = match n % 2 {
                0 => Level::Error,
                _ => Level::Default,
            };
            root
        });
        let write = store.telemetry.write_batch(&p, batch(spans.to_vec()), at(0));
        write.await.unwrap();
        assert_eq!(began(all).await, [(2, 1), (1, 0), (1, 1)]);
        let no_b = Environments::AllBut(&["b", "b", "none"]);
        assert_eq!(began(no_b).await, [(1, 0), (1, 0), (1, 1)]);
        let some = Environments::Only(&["b", "c", "b"]);
        assert_eq!(began(some).await, [(1, 1), (0, 0), (1, 1)]);
        assert_eq!(began(Environments::Only(&[])).await, [(0, 0); 3]);
        let none = store.telemetry.traces_began(&p, all, &[]);
        assert!(none.await.unwrap().is_empty());
    })
    .await;
}
