//! The handling of a prompt that is longer than `max_input_tokens`.

use perpend_plugin::{EvalError, Item, TraceRef};

use crate::config::{LargePrompt, RequestConfig};
use crate::prepared::PreparedPrompt;
use crate::prompt::{add_instruction, add_system_rule, size};
use crate::{digest, explore};

/// The bytes that an instruction adds to a prompt.
fn instruction_size(instruction: Option<&str>) -> usize {
    instruction.map_or(0, |instruction| instruction.len() + 2)
}

impl RequestConfig {
    /// The prompt for an item, shortened as the configuration requires. `instruction` is the text that will be added to it.
    ///
    /// # Errors
    /// `invalid-input` when the prompt is too long and cannot be shortened; `upstream` when the trace cannot be read or the
    /// model fails during the exploration.
    pub(crate) fn prepare(
        &self,
        item: &Item,
        swap: Option<&[String; 2]>,
        instruction: Option<&str>,
    ) -> Result<PreparedPrompt, EvalError> {
        let filled = self.fill(item, swap);
        let n_bytes = size(&filled.messages) + instruction_size(instruction);
        let limit = match self.limit() {
            Some(limit) if limit < n_bytes && self.large != LargePrompt::Fail => limit,
            // `model_request` returns the error for a prompt that is too long.
            _ => return Ok(PreparedPrompt::of(filled)),
        };
        drop(filled);
        let lengths = self.variable_lengths(item, swap);
        let fixed = n_bytes.saturating_sub(lengths.total());
        let Some(budget) = limit.checked_sub(fixed) else {
            return Err(self.too_long(n_bytes, " even without its variables"));
        };
        let within = |budget| {
            let longest = lengths.longest_within(budget);
            PreparedPrompt::of(self.fill_within(item, swap, longest))
        };
        match (self.large, &item.trace) {
            (LargePrompt::Explore, None) => {
                Err(self.too_long(n_bytes, "; `large: explore` requires an item with a trace"))
            }
            (_, None) => Ok(within(budget)),
            (LargePrompt::Explore, Some(trace)) => {
                explore::explore(self, trace, within(budget / 8), instruction, limit)
            }
            (_, Some(trace)) => self.with_digest(trace, within(budget / 2), instruction, limit),
        }
    }

    fn with_digest(
        &self,
        trace: &TraceRef,
        mut prepared: PreparedPrompt,
        instruction: Option<&str>,
        limit: usize,
    ) -> Result<PreparedPrompt, EvalError> {
        add_system_rule(&mut prepared.messages);
        let used = size(&prepared.messages) + instruction_size(instruction);
        let digest = digest::of(trace, limit.saturating_sub(used + 2))?;
        add_instruction(&mut prepared.messages, &digest.text);
        Ok(prepared.with("digest", digest.left_out))
    }
}
