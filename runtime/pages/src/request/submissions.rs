//! Forms that were acted on a moment ago, so that one that is sent twice acts once, and what was done can be told and undone.
//!
//! Held in the memory of this node, bounded: a form that is sent again to another node, or after a restart, acts again.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use perpend_domain::ids::ProjectId;
use perpend_domain::plugin::Digest;
use perpend_domain::time::Timestamp;
use perpend_http_kit::auth::FormToken;
use perpend_views::{FlashMessage, Undo};
use tokio::sync::OnceCell;

/// How long a form is remembered.
const RETENTION_MS: i64 = 600_000;
/// Names what the last form did, so that the next pages tell it.
pub(crate) const NOTICE_COOKIE: &str = "perpend_told";
/// How long something can be undone.
pub(crate) const UNDO_SECONDS: i64 = 60;
/// Forms that are remembered of one session.
const MAX_PER_SESSION: usize = 64;
/// Forms that are remembered in all.
const MAX: usize = 4_096;

/// A form as it was sent: the session, the project, and everything that was sent in it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct SubmissionKey {
    pub(crate) project: ProjectId,
    pub(crate) token: FormToken,
    pub(crate) digest: Digest,
}

impl SubmissionKey {
    /// A short name.
    pub(crate) fn id(&self) -> String {
        self.digest.to_string().chars().take(16).collect()
    }
}

/// What a form did.
#[derive(Clone, Debug)]
pub(crate) struct SubmissionOutcome {
    /// In words.
    pub(crate) words: String,
    /// How to undo it.
    pub(crate) undo: Option<Undo>,
}

impl SubmissionOutcome {
    pub(crate) fn new(words: impl Into<String>) -> Self {
        Self { words: words.into(), undo: None }
    }
}

/// Whoever acts fills it; the others wait for that.
type Slot = Arc<OnceCell<SubmissionOutcome>>;

#[derive(Debug)]
struct Submission {
    key: SubmissionKey,
    at: Timestamp,
    outcome: Slot,
}

/// The forms, the newest last.
#[derive(Debug, Default)]
pub(crate) struct Submissions(Mutex<VecDeque<Submission>>);

impl Submissions {
    fn lock(&self) -> MutexGuard<'_, VecDeque<Submission>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The place of what a form does: the same one for the same form.
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
        if MAX <= entries.len() {
            entries.pop_front();
        }
        let outcome = Slot::default();
        entries.push_back(Submission { key: key.clone(), at: now, outcome: Arc::clone(&outcome) });
        outcome
    }

    /// The last form of a session that is remembered; a page that was made before it has to be made anew, because a form in
    /// it may have been used.
    pub(crate) fn last(&self, token: FormToken, now: Timestamp) -> String {
        let entries = self.lock();
        let mut of_session = entries.iter().rev().filter(|entry| {
            entry.key.token == token
                && entry.outcome.initialized()
                && now < entry.at.plus_millis(RETENTION_MS)
        });
        of_session.next().map_or_else(String::new, |entry| entry.key.id())
    }

    /// What a form of this session did in this project, as long as it can be undone.
    pub(crate) fn told(
        &self,
        (token, project): (FormToken, &ProjectId),
        id: &str,
        now: Timestamp,
    ) -> Option<FlashMessage> {
        let entries = self.lock();
        let found = entries.iter().find(|entry| {
            entry.key.token == token
                && entry.key.project == *project
                && now < entry.at.plus_millis(UNDO_SECONDS * 1_000)
                && entry.key.id() == id
        });
        let outcome = found?.outcome.get()?;
        Some(FlashMessage {
            id: id.to_owned(),
            words: outcome.words.as_str().into(),
            undo: outcome.undo.clone(),
        })
    }
}
