//! Results of backtests.

use perpend_db::Error;
use perpend_domain::backtest::{BacktestScore, SegmentKind};
use perpend_domain::ids::ProjectId;
use perpend_experiments::{BacktestPairs, backtest_scores};

use crate::Store;

impl Store {
    /// The results of a backtest so far, by name of the score.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn backtest_scores(
        &self,
        project: &ProjectId,
        id: &str,
    ) -> Result<Vec<BacktestScore>, Error> {
        let ledger = &self.ledger;
        let mut pairs = BacktestPairs {
            labels: ledger.backtest_labels(project, id, None).await?,
            by_segment: Vec::new(),
            numbers: ledger.backtest_numbers(project, id).await?,
        };
        if !pairs.labels.is_empty() {
            for kind in SegmentKind::ALL {
                let labels = ledger.backtest_labels(project, id, Some(*kind)).await?;
                pairs.by_segment.push((*kind, labels));
            }
        }
        Ok(backtest_scores(&pairs))
    }
}
