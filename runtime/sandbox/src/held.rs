//! What a guest holds by handle: requests that it is making, and answers of models.
//!
//! Invariant: **bounded.** A guest can make requests without end and never drop an answer: the handles are counted, and so
//! are the bytes behind them. What is over the limit is not kept; the request says so when it is completed.

use perpend_worker_protocol::host_call::{Completion, CompletionRequest};

/// Requests and completions of one call at a time.
pub(crate) const MAX_HELD: usize = 500;
/// Bytes of them together.
pub(crate) const MAX_HELD_BYTES: usize = 32 << 20;
/// What each takes besides its texts.
const OVERHEAD: usize = 512;

/// A request that is being made.
#[expect(
    unreachable_pub,
    reason = "the generated bindings re-export it, which a narrower item cannot be"
)]
pub struct HeldRequest {
    pub(crate) request: CompletionRequest,
    /// A part of it was too large to be kept.
    pub(crate) is_over: bool,
    n_bytes: usize,
}

/// An answer.
#[expect(
    unreachable_pub,
    reason = "the generated bindings re-export it, which a narrower item cannot be"
)]
pub struct HeldCompletion {
    pub(crate) completion: Completion,
    n_bytes: usize,
}

/// The count.
#[derive(Debug, Default)]
pub(crate) struct Held {
    n_handles: usize,
    n_bytes: usize,
}

impl Held {
    fn enter(&mut self) -> bool {
        let has_room = self.n_handles < MAX_HELD;
        self.n_handles += usize::from(has_room);
        has_room
    }

    fn take(&mut self, n_bytes: usize) -> bool {
        let sum = self.n_bytes.saturating_add(n_bytes);
        let has_room = sum <= MAX_HELD_BYTES;
        if has_room {
            self.n_bytes = sum;
        }
        has_room
    }

    fn leave(&mut self, n_bytes: usize) {
        self.n_handles -= 1;
        self.n_bytes -= n_bytes;
    }

    /// A request of these messages; nothing when there are too many handles.
    pub(crate) fn request(&mut self, mut request: CompletionRequest) -> Option<HeldRequest> {
        if !self.enter() {
            return None;
        }
        let messages = request.messages.iter();
        let size = |message: &perpend_worker_protocol::host_call::Message| {
            // A part takes memory without a text too.
            OVERHEAD / 4 + message.parts.len() * (OVERHEAD / 4) + message.size()
        };
        let n_bytes = OVERHEAD + messages.map(size).sum::<usize>();
        let is_over = !self.take(n_bytes);
        if is_over {
            request.messages = Vec::new();
        }
        Some(HeldRequest { request, is_over, n_bytes: if is_over { 0 } else { n_bytes } })
    }

    /// Sets a part of a request that takes so many bytes. What it replaces counts on, so that a guest gains nothing by
    /// setting it again.
    pub(crate) fn set(
        &mut self,
        held: &mut HeldRequest,
        n_bytes: usize,
        set: impl FnOnce(&mut CompletionRequest),
    ) {
        if self.take(n_bytes) {
            held.n_bytes += n_bytes;
            set(&mut held.request);
        } else {
            held.is_over = true;
        }
    }

    /// The answer; itself when there is no room for it.
    pub(crate) fn completion(&mut self, completion: Completion) -> Option<HeldCompletion> {
        if !self.enter() {
            return None;
        }
        let n_bytes = OVERHEAD + completion.size();
        if !self.take(n_bytes) {
            self.leave(0);
            return None;
        }
        Some(HeldCompletion { completion, n_bytes })
    }

    /// The request is used or dropped.
    pub(crate) fn without_request(&mut self, held: &HeldRequest) {
        self.leave(held.n_bytes);
    }

    pub(crate) fn without_completion(&mut self, held: &HeldCompletion) {
        self.leave(held.n_bytes);
    }
}

#[cfg(test)]
mod tests {
    use perpend_worker_protocol::host_call::{Message, Role};

    use super::*;

    fn of(n_bytes: usize) -> CompletionRequest {
        CompletionRequest::new(vec![Message::text(Role::User, "x".repeat(n_bytes))])
    }

    #[test]
    fn what_is_over_the_limit_is_not_kept_and_what_is_dropped_makes_room() {
        let mut held = Held::default();
        let first = held.request(of(MAX_HELD_BYTES / 2)).unwrap();
        assert!(!first.is_over);
        let second = held.request(of(MAX_HELD_BYTES / 2)).unwrap();
        assert!(second.is_over && second.request.messages.is_empty());
        held.without_request(&first);
        held.without_request(&second);
        assert_eq!((held.n_handles, held.n_bytes), (0, 0));
    }

    #[test]
    fn a_setter_that_is_called_for_ever_ends_at_the_limit() {
        let mut held = Held::default();
        let mut request = held.request(of(1)).unwrap();
        for _ in 0..MAX_HELD_BYTES / (1 << 20) + 1 {
            held.set(&mut request, 1 << 20, |request| {
                request.extra = Some("x".to_owned());
            });
        }
        assert!(request.is_over);
        held.without_request(&request);
        assert_eq!(held.n_bytes, 0);
    }

    #[test]
    fn handles_are_counted() {
        let mut held = Held::default();
        let all: Vec<_> = (0..=MAX_HELD).map(|_| held.request(of(0))).collect();
        assert!(all[..MAX_HELD].iter().all(Option::is_some));
        assert!(all[MAX_HELD].is_none());
    }
}
