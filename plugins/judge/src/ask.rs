//! Who is asked, and which failures end the evaluation.

use perpend_plugin::EvalError;
use perpend_plugin::host;
use perpend_plugin::model::{Completion, ModelError, Request, Slot, SlotKind, complete_all};

use crate::config::Panel;

/// The models of a panel. Only the first one has to be there.
pub(crate) const SLOTS: &[Slot] = &[
    Slot::required("judge", SlotKind::Chat, "The model that judges."),
    Slot::optional("judge-2", SlotKind::Chat, "The second model of a panel."),
    Slot::optional("judge-3", SlotKind::Chat, "The third model of a panel."),
    Slot::optional("judge-4", SlotKind::Chat, "The fourth model of a panel."),
    Slot::optional("judge-5", SlotKind::Chat, "The fifth model of a panel."),
];

/// As many requests as the host takes at once.
const MAX_AT_ONCE: usize = 64;

/// One vote of a panel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seat {
    /// The slot of the model.
    pub(crate) slot: &'static str,
    /// Which time this model is asked, from 0.
    pub(crate) repeat: u8,
}

impl Panel {
    /// The seats, model by model.
    pub(crate) fn seats(&self) -> Vec<Seat> {
        let slots = SLOTS.iter().take(usize::from(self.models));
        let seats =
            slots.flat_map(|slot| (0..self.repeats).map(|repeat| Seat { slot: slot.name, repeat }));
        seats.collect()
    }
}

impl Seat {
    /// The request to this seat. A repeat differs from the first request by its seed, or the cache would answer it.
    pub(crate) fn request(self, question: &Request) -> Request {
        let mut request = question.clone().slot(self.slot);
        if self.repeat > 0 {
            let seed = question.seed.unwrap_or_else(host::seed);
            request.seed = Some(seed.wrapping_add(u64::from(self.repeat)));
        }
        request
    }

    /// How people read it: the slot, and from the second time on which time it was.
    pub(crate) fn name(self) -> String {
        match self.repeat {
            0 => self.slot.to_owned(),
            repeat => format!("{} #{}", self.slot, repeat + 1),
        }
    }
}

/// An answer, or why this model gives none however often it is asked.
pub(crate) type Reply = Result<Completion, String>;

/// Asks all requests at once.
///
/// # Errors
/// `upstream` on a failure that another attempt may repair, or that concerns all requests.
pub(crate) fn ask(requests: &[Request]) -> Result<Vec<Reply>, EvalError> {
    let mut replies = Vec::with_capacity(requests.len());
    for some in requests.chunks(MAX_AT_ONCE) {
        for reply in complete_all(some) {
            replies.push(match reply {
                Ok(completion) => match unfinished(&completion) {
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
        false => {
            Err(EvalError::Internal("the host answered another number of requests".to_owned()))
        }
    }
}

/// What is said of an answer that asks for tools: they can be used only before it.
fn unfinished(completion: &Completion) -> Option<String> {
    (!completion.tool_calls.is_empty()).then(|| {
        "exploration_unfinished: the model asked for a tool where only its answer was left to give"
            .to_owned()
    })
}

/// What is said of a reply that is not an answer.
pub(crate) fn malformed(why: &str) -> String {
    format!("malformed_judge_output: {why}")
}

/// The votes that there are, when they are more than half of all; otherwise the first reason for a missing one.
///
/// # Errors
/// `upstream`: models were asked and did not answer.
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
