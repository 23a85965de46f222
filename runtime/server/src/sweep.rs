//! What is due from time to time: the data of deleted projects go, so do traces past the retention of their
//! project and stored replies of models, and it is written down when keys were used.
//!
//! Invariants:
//! - **No input.** A round finds its work in the store; one that is lost or cut off is made up for by the
//!   next, here or on another node.
//! - **Nobody waits for it.** It works in small transactions beside the requests.

use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::App;

/// How often to look while nobody deletes a project.
const EVERY: Duration = Duration::from_secs(600);
/// How often to look while deleted projects linger, and to write down the use of keys.
const SOON: Duration = Duration::from_secs(60);

/// Works until `shutdown`.
pub(crate) async fn run(app: &App, shutdown: CancellationToken) {
    let mut next = Instant::now();
    while !shutdown.is_cancelled() {
        if next <= Instant::now() {
            // A round that is cut off costs nothing: the next one goes on.
            let is_done = tokio::select! {
                is_done = sweep(app) => is_done,
                () = shutdown.cancelled() => break,
            };
            next = Instant::now() + if is_done { EVERY } else { SOON };
        }
        note_uses(app).await;
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = app.sweep_wanted.notified() => next = Instant::now(),
            () = tokio::time::sleep(SOON) => {}
        }
    }
    note_uses(app).await;
}

/// Does all of it once, now.
pub async fn round(app: &App) {
    note_uses(app).await;
    sweep(app).await;
}

/// Deletes what is due. `true` when there is nothing that has to be looked at again soon.
async fn sweep(app: &App) -> bool {
    forget_replies(app).await;
    delete_expired(app).await;
    match app.store.sweep(app.web.clock.now()).await {
        Ok(swept) => {
            if 0 < swept.n_expired + swept.n_gone {
                tracing::info!(
                    n_expired_traces = swept.n_expired,
                    n_deleted_projects = swept.n_gone,
                    "swept"
                );
            }
            swept.n_lingering == 0
        }
        Err(error) => {
            let error: &dyn std::error::Error = &error;
            tracing::warn!(error, "sweep failed and will go on");
            false
        }
    }
}

/// Forgets stored replies that are past their time or beyond the size of their project.
async fn forget_replies(app: &App) {
    let limits = app.web.config.evaluation;
    let until = app.web.clock.now().plus_millis(-limits.reply_lifetime_ms);
    let ledger = &app.store.ledger;
    let swept = ledger.sweep_replies(until, limits.max_reply_bytes);
    match swept.await {
        Ok(0) => {}
        Ok(n_replies) => tracing::info!(n_replies, "stored replies of models forgotten"),
        Err(error) => {
            let error: &dyn std::error::Error = &error;
            tracing::warn!(error, "stored replies of models stay for now");
        }
    }
}

/// Deletes sessions and lines of evaluators whose time is over.
async fn delete_expired(app: &App) {
    let now = app.web.clock.now();
    let deleted = async {
        app.store.catalog.delete_expired_sessions(now).await?;
        app.store.ledger.forget_old_logs(now).await
    };
    if let Err(error) = deleted.await {
        let error: &dyn std::error::Error = &error;
        tracing::warn!(error, "cleanup of sessions and logs failed; will retry");
    }
}

async fn note_uses(app: &App) {
    for (id, at) in app.web.keys.take_uses() {
        if let Err(error) = app.store.catalog.note_key_use(&id, at).await {
            let error: &dyn std::error::Error = &error;
            tracing::warn!(error, "use of a key not written down");
        }
    }
}
