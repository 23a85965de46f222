//! The receiver of the parts of a request, which also limits its memory.

use perpend_domain::batch::{Batch, Media, SpanLog};
use perpend_domain::observation::Observation;
use perpend_domain::score::NewScore;

/// The memory limit of the request is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryExhausted;

/// Receives the parts of a request. Memory is charged before it is used: a reader holds one decoded span at a time and
/// reserves its memory first.
pub trait Sink {
    /// Reserves memory in addition to the retained one, until the next call.
    ///
    /// # Errors
    /// [`MemoryExhausted`]: reading stops there.
    fn reserve(&mut self, n_bytes: usize) -> Result<(), MemoryExhausted>;

    /// Retains memory until the end of the request.
    ///
    /// # Errors
    /// [`MemoryExhausted`]: reading stops there.
    fn retain(&mut self, n_bytes: usize) -> Result<(), MemoryExhausted>;

    /// Takes an observation.
    ///
    /// # Errors
    /// [`MemoryExhausted`]: reading stops there.
    fn observation(&mut self, observation: Observation) -> Result<(), MemoryExhausted>;

    /// Takes a score.
    ///
    /// # Errors
    /// [`MemoryExhausted`]: reading stops there.
    fn score(&mut self, score: NewScore) -> Result<(), MemoryExhausted>;

    /// Takes a media item.
    ///
    /// # Errors
    /// [`MemoryExhausted`]: reading stops there.
    fn media(&mut self, media: Media) -> Result<(), MemoryExhausted>;

    /// Takes a log record, whose memory was retained before with [`Sink::retain`].
    fn log(&mut self, log: SpanLog);
}

/// An unlimited sink, for tests and for local files.
impl Sink for Batch {
    fn reserve(&mut self, _: usize) -> Result<(), MemoryExhausted> {
        Ok(())
    }

    fn retain(&mut self, _: usize) -> Result<(), MemoryExhausted> {
        Ok(())
    }

    fn observation(&mut self, observation: Observation) -> Result<(), MemoryExhausted> {
        self.observations.push(observation);
        Ok(())
    }

    fn score(&mut self, score: NewScore) -> Result<(), MemoryExhausted> {
        self.scores.push(score);
        Ok(())
    }

    fn media(&mut self, media: Media) -> Result<(), MemoryExhausted> {
        self.media.push(media);
        Ok(())
    }

    fn log(&mut self, log: SpanLog) {
        self.logs.push(log);
    }
}
