//! The batch of an OTLP request: each part is charged to the account of the request
//! before it is stored in memory.

use perpend_domain::batch::{Media, SpanLog};
use perpend_domain::observation::Observation;
use perpend_domain::pricing::PriceTable;
use perpend_domain::score::NewScore;
use perpend_http_kit::admission::{Account, ChargedBody};
use perpend_http_kit::problem::{Code, Problem};
use perpend_otlp::{DecodeError, MemoryExhausted, Sink};
use perpend_telemetry::{BatchBuilder, SerializedObservation};

/// Memory limit of small requests.
const ALLOWANCE: usize = 96 << 20;
/// Memory limit of larger requests, as a multiple of the decoded size: the body, and four copies of the texts of
/// a single span.
const MAX_TIMES: usize = 5;
/// Added to the limit of larger requests, for a hundred thousand values of a span.
const EXTRA: usize = 28 << 20;
/// Memory for a media item in addition to its bytes.
const BYTES_PER_MEDIA: usize = 1 << 10;

/// A batch under construction.
pub(super) struct ChargedBatch<'p> {
    pub(super) preparing: BatchBuilder,
    prices: &'p PriceTable,
    account: Account,
    max_bytes: usize,
    /// Charged bytes, body included.
    n_charged: usize,
    n_held: usize,
    problem: Option<Problem>,
}

impl<'p> ChargedBatch<'p> {
    /// An empty batch. The body is already charged.
    pub(super) fn new(body: &ChargedBody, prices: &'p PriceTable) -> Self {
        let n_bytes = body.bytes.len();
        Self {
            preparing: BatchBuilder::default(),
            prices,
            account: body.account.clone(),
            max_bytes: ALLOWANCE.max(MAX_TIMES * n_bytes + EXTRA),
            n_charged: n_bytes,
            n_held: n_bytes,
            problem: None,
        }
    }

    /// The problem for an error of the reader.
    pub(super) fn problem(self, error: &DecodeError) -> Problem {
        match error {
            DecodeError::Full => self.problem.unwrap_or_else(Problem::internal),
            DecodeError::TooMany { what, max } => {
                let message = format!(
                    "the request has more than {max} {what}: send less in one request, or raise \
                     ingest.max_spans"
                );
                Problem::new(Code::TooLarge, message)
            }
            error => Problem::new(Code::InvalidBody, error.to_string()),
        }
    }

    fn charge(&mut self, n_bytes: usize) -> Result<(), Problem> {
        if self.max_bytes < n_bytes {
            let limit = self.max_bytes >> 20;
            let message = format!(
                "the decoded request exceeds {limit} MiB of memory: send fewer or \
                 smaller spans in one request"
            );
            return Err(Problem::new(Code::TooLarge, message));
        }
        if let Some(more) = n_bytes.checked_sub(self.n_charged) {
            self.account.take(more)?;
            self.n_charged = n_bytes;
        }
        Ok(())
    }

    fn record<T>(&mut self, result: Result<T, Problem>) -> Result<T, MemoryExhausted> {
        result.map_err(|problem| {
            self.problem = Some(problem);
            MemoryExhausted
        })
    }
}

impl Sink for ChargedBatch<'_> {
    fn reserve(&mut self, n_bytes: usize) -> Result<(), MemoryExhausted> {
        let charged = self.charge(self.n_held.saturating_add(n_bytes));
        self.record(charged)
    }

    fn retain(&mut self, n_bytes: usize) -> Result<(), MemoryExhausted> {
        self.reserve(n_bytes)?;
        self.n_held += n_bytes;
        Ok(())
    }

    fn observation(&mut self, mut observation: Observation) -> Result<(), MemoryExhausted> {
        self.prices.apply(&mut observation);
        let serialised = SerializedObservation::new(observation).map_err(Problem::from);
        let serialised = self.record(serialised)?;
        self.retain(self.preparing.n_bytes_of(&serialised))?;
        self.preparing.add(serialised);
        Ok(())
    }

    fn score(&mut self, score: NewScore) -> Result<(), MemoryExhausted> {
        self.retain(score.memory())?;
        self.preparing.scores.push(score);
        Ok(())
    }

    fn media(&mut self, media: Media) -> Result<(), MemoryExhausted> {
        self.retain(BYTES_PER_MEDIA + media.bytes.len())?;
        self.preparing.media.push(media);
        Ok(())
    }

    fn log(&mut self, log: SpanLog) {
        self.preparing.logs.push(log);
    }
}
