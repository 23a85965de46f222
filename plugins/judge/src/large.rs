//! What becomes of a prompt that is longer than `max_input_tokens`.

use perpend_plugin::{EvalError, Item, TraceRef};

use crate::config::{Asking, Large};
use crate::prepared::Prepared;
use crate::prompt::{add_instruction, add_system_rule, size};
use crate::{digest, explore};

/// Bytes that an instruction adds to a prompt.
fn added(instruction: Option<&str>) -> usize {
    instruction.map_or(0, |instruction| instruction.len() + 2)
}

impl Asking {
    /// The prompt for an item, made to fit as the configuration says. `instruction` is what will be added to it.
    ///
    /// # Errors
    /// `invalid-input` when it is too long and there is nothing to be done; `upstream` when the trace cannot be read or the
    /// model fails while it explores.
    pub(crate) fn prepared(
        &self,
        item: &Item,
        swap: Option<&[String; 2]>,
        instruction: Option<&str>,
    ) -> Result<Prepared, EvalError> {
        let filled = self.filled(item, swap);
        let n_bytes = size(&filled.messages) + added(instruction);
        let limit = match self.limit() {
            Some(limit) if limit < n_bytes && self.large != Large::Fail => limit,
            // The request says that it is too long.
            _ => return Ok(Prepared::of(filled)),
        };
        drop(filled);
        let lengths = self.lengths(item, swap);
        let fixed = n_bytes.saturating_sub(lengths.total());
        let Some(room) = limit.checked_sub(fixed) else {
            return Err(self.too_long(n_bytes, " without any of its variables"));
        };
        let within = |room| {
            let longest = lengths.longest_within(room);
            Prepared::of(self.filled_up_to(item, swap, longest))
        };
        match (self.large, &item.trace) {
            (Large::Explore, None) => Err(self.too_long(
                n_bytes,
                "; `large: explore` needs the trace of the item, and there is none",
            )),
            (_, None) => Ok(within(room)),
            (Large::Explore, Some(trace)) => {
                explore::explored(self, trace, within(room / 8), instruction, limit)
            }
            (_, Some(trace)) => self.digested(trace, within(room / 2), instruction, limit),
        }
    }

    fn digested(
        &self,
        trace: &TraceRef,
        mut prepared: Prepared,
        instruction: Option<&str>,
        limit: usize,
    ) -> Result<Prepared, EvalError> {
        add_system_rule(&mut prepared.messages);
        let used = size(&prepared.messages) + added(instruction);
        let digest = digest::of(trace, limit.saturating_sub(used + 2))?;
        add_instruction(&mut prepared.messages, &digest.text);
        Ok(prepared.with("digest", digest.left_out))
    }
}
