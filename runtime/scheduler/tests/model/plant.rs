//! Bugs that the model must find: each changes the database as a fault of the engine would.

use perpend_domain::time::Clock as _;
use perpend_executions::{Lease, MatchBatch, QueueShare};

use crate::support::World;

/// A bug.
#[derive(Clone, Copy, Debug)]
pub(super) enum Plant {
    /// Changes are dropped without making executions.
    LosesWhatCame,
    /// An execution is claimed and never finished.
    NeverFinishes,
    /// A score is written again under another id.
    ScoresTwice,
}

impl Plant {
    pub(super) const ALL: [Self; 3] = [Self::LosesWhatCame, Self::NeverFinishes, Self::ScoresTwice];

    pub(super) async fn act(self, world: &World) {
        let (store, now) = (&world.store, world.clock.now());
        let never = Lease { fence: 1, until: now.plus_millis(1_000_000_000_000) };
        match self {
            Self::LosesWhatCame => {
                let touched = store.telemetry.touched(1).await.unwrap();
                let touched: Vec<i64> = touched.iter().map(|row| row.seq).collect();
                let batch = MatchBatch::default();
                store.commit_matches(&touched, &batch, never, now).await.unwrap();
            }
            Self::NeverFinishes => {
                let queues = store.ledger.execution_queues().await.unwrap();
                if let Some(queue) = queues.first() {
                    let share = QueueShare { queue: queue.id, n: 1 };
                    let claimed = store.ledger.claim_executions(&[share], never, now).await;
                    claimed.unwrap();
                }
            }
            Self::ScoresTwice => {
                if let Some(score) = world.scores().await.pop() {
                    let mut twice = score.written;
                    twice.id = "another".parse().unwrap();
                    let twice = [twice];
                    let written = store.telemetry.put_scores(&world.project, &twice, now);
                    written.await.unwrap();
                }
            }
        }
    }
}
