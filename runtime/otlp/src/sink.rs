//! Where a request goes, piece by piece, and who answers for the memory that it takes.

use perpend_domain::batch::{Batch, Media, SpanLog};
use perpend_domain::observation::Observation;
use perpend_domain::score::NewScore;

/// There is no room for more of this request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// Takes what a request becomes. Everything is charged before it is held: a reader holds one decoded span
/// at a time, and asks for room for that one first.
pub trait Sink {
    /// Makes room for so many bytes beside what is held already, until the next call.
    ///
    /// # Errors
    /// [`Full`]: reading stops there.
    fn make_room(&mut self, n_bytes: usize) -> Result<(), Full>;

    /// So many bytes are held from now on, to the end of the request.
    ///
    /// # Errors
    /// [`Full`]: reading stops there.
    fn hold(&mut self, n_bytes: usize) -> Result<(), Full>;

    /// Takes an observation.
    ///
    /// # Errors
    /// [`Full`]: reading stops there.
    fn observation(&mut self, observation: Observation) -> Result<(), Full>;

    /// Takes a score.
    ///
    /// # Errors
    /// [`Full`]: reading stops there.
    fn score(&mut self, score: NewScore) -> Result<(), Full>;

    /// Takes a media item.
    ///
    /// # Errors
    /// [`Full`]: reading stops there.
    fn media(&mut self, media: Media) -> Result<(), Full>;

    /// Takes a log record, for whose memory room was asked with [`Sink::hold`].
    fn log(&mut self, log: SpanLog);
}

/// All that was sent, without a bound: for tests, and for what a user reads from an own file.
impl Sink for Batch {
    fn make_room(&mut self, _: usize) -> Result<(), Full> {
        Ok(())
    }

    fn hold(&mut self, _: usize) -> Result<(), Full> {
        Ok(())
    }

    fn observation(&mut self, observation: Observation) -> Result<(), Full> {
        self.observations.push(observation);
        Ok(())
    }

    fn score(&mut self, score: NewScore) -> Result<(), Full> {
        self.scores.push(score);
        Ok(())
    }

    fn media(&mut self, media: Media) -> Result<(), Full> {
        self.media.push(media);
        Ok(())
    }

    fn log(&mut self, log: SpanLog) {
        self.logs.push(log);
    }
}
