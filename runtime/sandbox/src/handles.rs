//! Resources that a guest owns by handle: model requests and completions.
//!
//! Invariant: **bounded.** The number of handles of a call and their total size are limited. A part of a request over the
//! limit is discarded, and the request fails when it is completed.

use perpend_worker_protocol::host_call::{Completion, CompletionRequest};

/// Maximum number of requests and completions of one call at a time.
pub(crate) const MAX_HELD: usize = 500;
/// Maximum total size in bytes.
pub(crate) const MAX_HELD_BYTES: usize = 32 << 20;
/// Size of a handle without its texts, in bytes.
const OVERHEAD: usize = 512;

/// A request that the guest builds.
#[expect(
    unreachable_pub,
    reason = "the generated bindings re-export it, which a narrower item cannot be"
)]
pub struct HeldRequest {
    pub(crate) request: CompletionRequest,
    /// A part was discarded because of the size limit.
    pub(crate) is_too_large: bool,
    n_bytes: usize,
}

/// The completion of a request.
#[expect(
    unreachable_pub,
    reason = "the generated bindings re-export it, which a narrower item cannot be"
)]
pub struct HeldCompletion {
    pub(crate) completion: Completion,
    n_bytes: usize,
}

/// Counts handles and bytes.
#[derive(Debug, Default)]
pub(crate) struct HandleBudget {
    n_handles: usize,
    n_bytes: usize,
}

impl HandleBudget {
    fn add_handle(&mut self) -> bool {
        let is_within_limit = self.n_handles < MAX_HELD;
        self.n_handles += usize::from(is_within_limit);
        is_within_limit
    }

    fn reserve(&mut self, n_bytes: usize) -> bool {
        let total = self.n_bytes.saturating_add(n_bytes);
        let is_within_limit = total <= MAX_HELD_BYTES;
        if is_within_limit {
            self.n_bytes = total;
        }
        is_within_limit
    }

    fn release(&mut self, n_bytes: usize) {
        self.n_handles -= 1;
        self.n_bytes -= n_bytes;
    }

    /// Adds a request; `None` when there are too many handles.
    pub(crate) fn add_request(&mut self, mut request: CompletionRequest) -> Option<HeldRequest> {
        if !self.add_handle() {
            return None;
        }
        let messages = request.messages.iter();
        let size = |message: &perpend_worker_protocol::host_call::Message| {
            // A part without a text takes memory too.
            OVERHEAD / 4 + message.parts.len() * (OVERHEAD / 4) + message.size()
        };
        let n_bytes = OVERHEAD + messages.map(size).sum::<usize>();
        let is_too_large = !self.reserve(n_bytes);
        if is_too_large {
            request.messages = Vec::new();
        }
        Some(HeldRequest { request, is_too_large, n_bytes: if is_too_large { 0 } else { n_bytes } })
    }

    /// Sets a part of a request. The size of a replaced part stays counted, so that setting a part repeatedly reaches the
    /// limit.
    pub(crate) fn set(
        &mut self,
        request: &mut HeldRequest,
        n_bytes: usize,
        set: impl FnOnce(&mut CompletionRequest),
    ) {
        if self.reserve(n_bytes) {
            request.n_bytes += n_bytes;
            set(&mut request.request);
        } else {
            request.is_too_large = true;
        }
    }

    /// Adds a completion; `None` when a limit is reached.
    pub(crate) fn add_completion(&mut self, completion: Completion) -> Option<HeldCompletion> {
        if !self.add_handle() {
            return None;
        }
        let n_bytes = OVERHEAD + completion.size();
        if !self.reserve(n_bytes) {
            self.release(0);
            return None;
        }
        Some(HeldCompletion { completion, n_bytes })
    }

    /// Releases a request that was sent or dropped.
    pub(crate) fn release_request(&mut self, request: &HeldRequest) {
        self.release(request.n_bytes);
    }

    pub(crate) fn release_completion(&mut self, completion: &HeldCompletion) {
        self.release(completion.n_bytes);
    }
}

#[cfg(test)]
mod tests {
    use perpend_worker_protocol::host_call::{Message, Role};

    use super::*;

    fn request_of_size(n_bytes: usize) -> CompletionRequest {
        CompletionRequest::new(vec![Message::text(Role::User, "x".repeat(n_bytes))])
    }

    #[test]
    fn messages_over_the_limit_are_discarded_and_released_handles_free_their_bytes() {
        let mut budget = HandleBudget::default();
        let first = budget.add_request(request_of_size(MAX_HELD_BYTES / 2)).unwrap();
        assert!(!first.is_too_large);
        let second = budget.add_request(request_of_size(MAX_HELD_BYTES / 2)).unwrap();
        assert!(second.is_too_large && second.request.messages.is_empty());
        budget.release_request(&first);
        budget.release_request(&second);
        assert_eq!((budget.n_handles, budget.n_bytes), (0, 0));
    }

    #[test]
    fn repeated_calls_of_a_setter_reach_the_limit() {
        let mut budget = HandleBudget::default();
        let mut request = budget.add_request(request_of_size(1)).unwrap();
        for _ in 0..MAX_HELD_BYTES / (1 << 20) + 1 {
            budget.set(&mut request, 1 << 20, |request| {
                request.extra = Some("x".to_owned());
            });
        }
        assert!(request.is_too_large);
        budget.release_request(&request);
        assert_eq!(budget.n_bytes, 0);
    }

    #[test]
    fn the_number_of_handles_is_limited() {
        let mut budget = HandleBudget::default();
        let all: Vec<_> = (0..=MAX_HELD).map(|_| budget.add_request(request_of_size(0))).collect();
        assert!(all[..MAX_HELD].iter().all(Option::is_some));
        assert!(all[MAX_HELD].is_none());
    }
}
