//! Recently submitted forms, so that a repeated submission runs once and its outcome can be shown and undone.
//!
//! Stored in the memory of this node with bounds: a form resubmitted to another node or after a restart runs again.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use perpend_domain::ids::ProjectId;
use perpend_domain::plugin::Digest;
use perpend_domain::time::Timestamp;
use perpend_http_kit::auth::FormToken;
use perpend_views::{FlashMessage, Undo};
use tokio::sync::OnceCell;

/// How long a submission is stored, in milliseconds.
const RETENTION_MS: i64 = 600_000;
/// Cookie with the id of the last submission, whose outcome the next page shows.
pub(crate) const NOTICE_COOKIE: &str = "perpend_told";
/// How long an action can be undone.
pub(crate) const UNDO_SECONDS: i64 = 60;
/// Stored submissions of one session.
const MAX_PER_SESSION: usize = 64;
/// Stored submissions of all sessions.
const MAX_SUBMISSIONS: usize = 4_096;

/// Identifies a submission: session, project, and a digest of path and body.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct SubmissionKey {
    pub(crate) project: ProjectId,
    pub(crate) token: FormToken,
    pub(crate) digest: Digest,
}

impl SubmissionKey {
    /// The first 16 hexadecimal digits of the digest.
    pub(crate) fn id(&self) -> String {
        self.digest.to_string().chars().take(16).collect()
    }
}

/// The outcome of a form.
#[derive(Clone, Debug)]
pub(crate) struct SubmissionOutcome {
    /// Message for the user.
    pub(crate) words: String,
    /// The form that undoes it; absent if it cannot be undone.
    pub(crate) undo: Option<Undo>,
    /// Path of the page to show; the page of the form if absent.
    pub(crate) location: Option<String>,
}

impl SubmissionOutcome {
    pub(crate) fn new(words: impl Into<String>) -> Self {
        Self { words: words.into(), undo: None, location: None }
    }

    /// With the form that undoes it.
    #[must_use]
    pub(crate) fn with_undo(self, undo: Undo) -> Self {
        Self { undo: Some(undo), ..self }
    }

    /// With the path of the page to show.
    #[must_use]
    pub(crate) fn at(self, location: String) -> Self {
        Self { location: Some(location), ..self }
    }
}

/// Filled by the first request; concurrent requests with the same form wait for it.
type Slot = Arc<OnceCell<SubmissionOutcome>>;

#[derive(Debug)]
struct Submission {
    key: SubmissionKey,
    at: Timestamp,
    outcome: Slot,
}

/// Submissions, the newest last.
#[derive(Debug, Default)]
pub(crate) struct Submissions(Mutex<VecDeque<Submission>>);

impl Submissions {
    fn lock(&self) -> MutexGuard<'_, VecDeque<Submission>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The slot for the outcome of a form; equal forms share it.
    pub(crate) fn slot(&self, key: &SubmissionKey, now: Timestamp) -> Slot {
        let mut entries = self.lock();
        entries.retain(|entry| now < entry.at.plus_millis(RETENTION_MS));
        if let Some(existing) = entries.iter().find(|entry| entry.key == *key) {
            return Arc::clone(&existing.outcome);
        }
        let of_session = |entry: &Submission| entry.key.token == key.token;
        if MAX_PER_SESSION <= entries.iter().filter(|entry| of_session(entry)).count()
            && let Some(oldest) = entries.iter().position(of_session)
        {
            entries.remove(oldest);
        }
        if MAX_SUBMISSIONS <= entries.len() {
            entries.pop_front();
        }
        let outcome = Slot::default();
        entries.push_back(Submission { key: key.clone(), at: now, outcome: Arc::clone(&outcome) });
        outcome
    }

    /// The id of the last completed submission of a session. Forms contain it, so a page rendered before the submission differs
    /// from one rendered after it.
    pub(crate) fn last(&self, token: FormToken, now: Timestamp) -> String {
        let entries = self.lock();
        let mut of_session = entries.iter().rev().filter(|entry| {
            entry.key.token == token
                && entry.outcome.initialized()
                && now < entry.at.plus_millis(RETENTION_MS)
        });
        of_session.next().map_or_else(String::new, |entry| entry.key.id())
    }

    /// The outcome of a submission of this session in this project, until it can no longer be undone.
    pub(crate) fn notice(
        &self,
        (token, project): (FormToken, &ProjectId),
        id: &str,
        now: Timestamp,
    ) -> Option<FlashMessage> {
        let entries = self.lock();
        let submission = entries.iter().find(|entry| {
            entry.key.token == token
                && entry.key.project == *project
                && now < entry.at.plus_millis(UNDO_SECONDS * 1_000)
                && entry.key.id() == id
        });
        let outcome = submission?.outcome.get()?;
        Some(FlashMessage {
            id: id.to_owned(),
            text: outcome.words.as_str().into(),
            undo: outcome.undo.clone(),
        })
    }
}
