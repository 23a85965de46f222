//! The memory of a request while it is read: it is reserved before it is allocated ([`Sink`]).

use crate::DecodeError;
use crate::limits::Limits;
use crate::model::ValueBudget;
use crate::sink::{MemoryExhausted, Sink};

/// Memory for each decoded value, lists grown to twice what they hold.
const BYTES_PER_DECODED_VALUE: usize = 256;
/// An invalid byte becomes a character of three bytes.
const MAX_GROWTH: usize = 3;
/// Memory that the rules take for each value of a span while they work on it; a level of a flattened key
/// counts as two.
const BYTES_PER_VALUE: usize = 256;
/// Copies of the text of a span that the rules hold at one time.
const N_COPIES: usize = 4;
/// Copies of the growth of its texts: JSON is written into a buffer that doubles.
const N_COPIES_GROWN: usize = 8;
/// Memory for the rest of one span.
const BYTES_PER_SPAN: usize = 16 << 10;

/// The memory of one request, without the data held by its sink.
pub(crate) struct Ledger<'m> {
    pub(crate) sink: &'m mut dyn Sink,
    pub(crate) limits: &'m Limits,
    n_groups: usize,
    /// Of the index of the body.
    of_index: usize,
    /// Of the resource and of the scope that are held while their members are read.
    of_resource: usize,
    of_scope: usize,
}

impl<'m> Ledger<'m> {
    pub(crate) fn new(limits: &'m Limits, sink: &'m mut dyn Sink) -> Self {
        Self { sink, limits, n_groups: 0, of_index: 0, of_resource: 0, of_scope: 0 }
    }

    /// Sets the size of the index of the body.
    pub(crate) fn index(&mut self, n_bytes: usize) -> Result<(), DecodeError> {
        self.of_index = n_bytes;
        Ok(self.reserve(0)?)
    }

    pub(crate) fn begin_resource(&mut self) -> Result<(), DecodeError> {
        self.of_resource = 0;
        self.begin_scope()
    }

    pub(crate) fn begin_scope(&mut self) -> Result<(), DecodeError> {
        self.of_scope = 0;
        self.n_groups += 1;
        within(self.n_groups, self.limits.max_spans, "resources and scopes")
    }

    /// Reserves memory for the description of a resource.
    pub(crate) fn describe_resource(&mut self, n_bytes: usize) -> Result<(), DecodeError> {
        self.of_resource += self.of_description(n_bytes);
        Ok(self.reserve(0)?)
    }

    /// Reserves memory for the description of a scope.
    pub(crate) fn describe_scope(&mut self, n_bytes: usize) -> Result<(), DecodeError> {
        self.of_scope += self.of_description(n_bytes);
        Ok(self.reserve(0)?)
    }

    /// Read, and copied for its members.
    const fn of_description(&self, n_bytes: usize) -> usize {
        self.to_read(n_bytes) + MAX_GROWTH * n_bytes
    }

    const fn to_read(&self, n_bytes: usize) -> usize {
        // No value takes less than two bytes.
        let (n_values, max_values) = (n_bytes / 2, self.limits.max_values);
        let n_values = if n_values < max_values { n_values } else { max_values };
        BYTES_PER_DECODED_VALUE * n_values + MAX_GROWTH * n_bytes
    }

    /// Reserves memory for a member that is about to be read.
    pub(crate) fn read(&mut self, n_bytes: usize) -> Result<(), MemoryExhausted> {
        self.reserve(self.to_read(n_bytes))
    }

    /// Reserves memory for a member that is about to be mapped.
    pub(crate) fn map(
        &mut self,
        n_bytes: usize,
        budget: &ValueBudget,
    ) -> Result<(), MemoryExhausted> {
        let texts = N_COPIES * n_bytes + N_COPIES_GROWN * budget.n_grown();
        let values = BYTES_PER_VALUE * budget.n_taken(self.limits.max_values);
        self.reserve(texts + values + BYTES_PER_SPAN)
    }

    fn reserve(&mut self, n_bytes: usize) -> Result<(), MemoryExhausted> {
        self.sink.reserve(self.of_index + self.of_resource + self.of_scope + n_bytes)
    }
}

/// Rejects a count above the limit.
pub(crate) const fn within(
    n_found: usize,
    max: usize,
    what: &'static str,
) -> Result<(), DecodeError> {
    match n_found <= max {
        true => Ok(()),
        false => Err(DecodeError::TooMany { what, max }),
    }
}
