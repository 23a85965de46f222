//! Where a request goes, piece by piece, and who answers for the memory that it takes.

use perpend_domain::batch::{Batch, Media, SpanLog};
use perpend_domain::observation::Observation;
use perpend_domain::score::NewScore;

/// There is no room for more of this request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryExhausted;

/// Takes what a request becomes. Everything is charged before it is held: a reader holds one decoded span
/// at a time, and asks for room for that one first.
pub trait Sink {
    /// Makes room for so many bytes beside what is held already, until the next call.
    ///
    /// # Errors
    /// [`MemoryExhausted`]: reading stops there.
    fn reserve(&mut self, n_bytes: usize) -> Result<(), MemoryExhausted>;

    /// So many bytes are held from now on, to the end of the request.
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

    /// Takes a log record, for whose memory room was asked with [`Sink::retain`].
    fn log(&mut self, log: SpanLog);
}

/// All that was sent, without a bound: for tests, and for what a user reads from an own file.
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
