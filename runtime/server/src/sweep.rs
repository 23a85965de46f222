//! Periodic cleanup: deletes data of deleted projects, traces past their retention, and stored replies of models, and records
//! when keys were last used.
//!
//! Invariants:
//! - **No input.** A round finds its work in the database. If it fails or is cancelled, a later round on this or another node
//!   does the work.
//! - **Requests do not wait for it.** It uses small transactions.

use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::App;

/// Interval of rounds.
const INTERVAL: Duration = Duration::from_secs(600);
/// Interval of rounds while data of deleted projects remain, and of recording the use of keys.
const SHORT_INTERVAL: Duration = Duration::from_secs(60);

/// Runs until `shutdown`.
pub(crate) async fn run(app: &App, shutdown: CancellationToken) {
    let mut next = Instant::now();
    while !shutdown.is_cancelled() {
        if next <= Instant::now() {
            // A cancelled round is continued by the next one.
            let is_done = tokio::select! {
                is_done = sweep(app) => is_done,
                () = shutdown.cancelled() => break,
            };
            next = Instant::now() + if is_done { INTERVAL } else { SHORT_INTERVAL };
        }
        record_key_uses(app).await;
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = app.sweep_wanted.notified() => next = Instant::now(),
            () = tokio::time::sleep(SHORT_INTERVAL) => {}
        }
    }
    record_key_uses(app).await;
}

/// Runs one round.
pub async fn round(app: &App) {
    record_key_uses(app).await;
    sweep(app).await;
}

/// Deletes expired data. `false` if another round is needed soon.
async fn sweep(app: &App) -> bool {
    delete_replies(app).await;
    delete_expired(app).await;
    match app.store.sweep(app.web.clock.now()).await {
        Ok(swept) => {
            if 0 < swept.n_expired + swept.n_gone {
                tracing::info!(
                    n_expired_traces = swept.n_expired,
                    n_deleted_projects = swept.n_gone,
                    "expired data deleted"
                );
            }
            swept.n_lingering == 0
        }
        Err(error) => {
            let error: &dyn std::error::Error = &error;
            tracing::warn!(error, "deleting expired data failed; will retry");
            false
        }
    }
}

/// Deletes stored replies that are expired or exceed the limit of their project.
async fn delete_replies(app: &App) {
    let limits = app.web.config.evaluation;
    let until = app.web.clock.now().plus_millis(-limits.reply_lifetime_ms);
    let ledger = &app.store.ledger;
    let swept = ledger.sweep_replies(until, limits.max_reply_bytes);
    match swept.await {
        Ok(0) => {}
        Ok(n_replies) => tracing::info!(n_replies, "stored replies of models deleted"),
        Err(error) => {
            let error: &dyn std::error::Error = &error;
            tracing::warn!(error, "deleting stored replies of models failed; will retry");
        }
    }
}

/// Deletes expired sessions and log lines of evaluators.
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

async fn record_key_uses(app: &App) {
    for (id, at) in app.web.keys.take_uses() {
        if let Err(error) = app.store.catalog.note_key_use(&id, at).await {
            let error: &dyn std::error::Error = &error;
            tracing::warn!(error, "recording the use of a key failed");
        }
    }
}
