//! The panel of models: its slots, the requests to it, and the failures that end the evaluation.

use perpend_plugin::EvalError;
use perpend_plugin::host;
use perpend_plugin::model::{Completion, ModelError, Request, Slot, SlotKind, complete_all};

use crate::config::Panel;

/// The models of a panel. Only the first is required.
pub(crate) const SLOTS: &[Slot] = &[
    Slot::required("judge", SlotKind::Chat, "The model that judges."),
    Slot::optional("judge-2", SlotKind::Chat, "The second model of a panel."),
    Slot::optional("judge-3", SlotKind::Chat, "The third model of a panel."),
    Slot::optional("judge-4", SlotKind::Chat, "The fourth model of a panel."),
    Slot::optional("judge-5", SlotKind::Chat, "The fifth model of a panel."),
];

/// The maximum number of requests in one call to the host.
const MAX_AT_ONCE: usize = 64;

/// One vote of a panel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seat {
    /// The slot of the model.
    pub(crate) slot: &'static str,
    /// The number of earlier requests to this model.
    pub(crate) repeat: u8,
}

impl Panel {
    /// The seats, ordered by model and repeat.
    pub(crate) fn seats(&self) -> Vec<Seat> {
        let slots = SLOTS.iter().take(usize::from(self.models));
        let seats =
            slots.flat_map(|slot| (0..self.repeats).map(|repeat| Seat { slot: slot.name, repeat }));
        seats.collect()
    }
}

impl Seat {
    /// The request to this seat. A repeat has another seed than the first request, so that the cache does not answer it.
    pub(crate) fn request(self, question: &Request) -> Request {
        let mut request = question.clone().slot(self.slot);
        if self.repeat > 0 {
            let seed = question.seed.unwrap_or_else(host::seed);
            request.seed = Some(seed.wrapping_add(u64::from(self.repeat)));
        }
        request
    }

    /// The slot, followed by the ordinal of the request from the second one on: `judge #2`.
    pub(crate) fn name(self) -> String {
        match self.repeat {
            0 => self.slot.to_owned(),
            repeat => format!("{} #{}", self.slot, repeat + 1),
        }
    }
}

/// An answer, or the reason why retrying the request is useless.
pub(crate) type Reply = Result<Completion, String>;

/// Sends the requests concurrently.
///
/// # Errors
/// `upstream` on a failure that is transient or concerns all requests.
pub(crate) fn send(requests: &[Request]) -> Result<Vec<Reply>, EvalError> {
    let mut replies = Vec::with_capacity(requests.len());
    for chunk in requests.chunks(MAX_AT_ONCE) {
        for reply in complete_all(chunk) {
            replies.push(match reply {
                Ok(completion) => match unfinished_exploration(&completion) {
                    None => Ok(completion),
                    Some(why) => Err(why),
                },
                Err(ModelError::Refused(why)) => Err(format!("the model refused: {why}")),
                Err(ModelError::InvalidResponse(why)) => Err(malformed(&why)),
                Err(other) => return Err(other.into()),
            });
        }
    }
    match replies.len() == requests.len() {
        true => Ok(replies),
        false => Err(EvalError::Internal(
            "the host returned a different number of replies than requests".to_owned(),
        )),
    }
}

/// The error for a completion that calls tools although none is allowed any more.
fn unfinished_exploration(completion: &Completion) -> Option<String> {
    (!completion.tool_calls.is_empty()).then(|| {
        "exploration_unfinished: the model called a tool after its limits were reached; an answer was expected"
            .to_owned()
    })
}

/// The error for a reply that is not an answer.
pub(crate) fn malformed(why: &str) -> String {
    format!("malformed_judge_output: {why}")
}

/// The votes, when more than half of them are valid; otherwise the first reason for a missing one.
///
/// # Errors
/// `upstream` when at least half of the votes are missing.
pub(crate) fn quorum<T>(
    votes: Vec<Result<T, String>>,
) -> Result<Vec<Result<T, String>>, EvalError> {
    let n_valid = votes.iter().filter(|vote| vote.is_ok()).count();
    if n_valid * 2 > votes.len() {
        return Ok(votes);
    }
    let why = votes.into_iter().find_map(Result::err);
    Err(EvalError::Upstream(why.unwrap_or_default()))
}
