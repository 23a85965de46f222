//! Configuration changes while a scheduler is running.

use futures_util::future::{Either, select};
use perpend_scheduler::Breakpoint;
use rand::RngExt as _;
use rand::seq::IndexedRandom as _;

use super::{History, shown};
use crate::support::StayAt;

impl History<'_> {
    /// The configuration changes while a scheduler is between its reads, or between them and its commit. Then
    /// data arrives and meets the new configuration.
    pub(super) async fn race(&mut self) -> Result<(), String> {
        let request = self.request();
        self.arrive(request).await;
        let places = [Breakpoint::Read, Breakpoint::Decided];
        let at = *places.choose(&mut self.random).unwrap();
        let stay = StayAt::at(at);
        let scheduler = self.scheduler_with(Some(stay.clone()));
        let working = std::pin::pin!(scheduler.run_until_idle());
        let arrived = std::pin::pin!(stay.arrived());
        let ended = match select(working, arrived).await {
            Either::Left((ended, _)) => ended,
            Either::Right((_, working)) => {
                self.note(|| format!("a scheduler is at {at:?}"));
                self.configure().await;
                // Only new observations: the end of an observation that the pass has already read is decided
                // in both passes.
                let own = self.new_observation();
                self.note(|| format!("ingest {}", shown(std::slice::from_ref(&own))));
                self.observations.insert(own.id.clone(), own.clone());
                self.arrive(vec![own]).await;
                self.note(|| "the scheduler continues".to_owned());
                stay.let_go();
                working.await
            }
        };
        ended.map_err(|error| error.to_string())?;
        self.all_seen();
        Ok(())
    }

    /// Changes the configuration of rules and evaluators.
    async fn configure(&mut self) {
        match self.random.random_range(0..8) {
            0..3 => self.make_rule().await,
            3..5 => self.edit_rule().await,
            5 => {
                self.delete_rule().await;
                self.make_rule().await;
            }
            6 => self.add_version().await,
            _ => self.save_connection().await,
        }
    }

    /// Adds a version to an evaluator.
    async fn add_version(&mut self) {
        let Some(id) = self.any_rule() else { return };
        self.note(|| format!("another version of the evaluator of {id}"));
        self.world.add_version(&id).await;
    }
}
