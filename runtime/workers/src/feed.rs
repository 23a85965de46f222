//! Writes calls to a worker: a lone call at once, many in one frame.

use std::io;
use std::sync::Arc;

use assay_domain::plugin::FailureClass;
use assay_domain::protocol::{self, CallId, ToWorker};
use tokio::io::AsyncWriteExt;
use tokio::net::unix::OwnedWriteHalf;
use tokio::sync::mpsc;
use tokio::sync::watch as signal;
use tokio::time::Instant;

use crate::queue::{Job, failed, lock, stopped};
use crate::session::{Pending, Session, Shared};

/// Calls in a frame at most: the worker starts with the first while the next frame is made.
const MAX_BATCH: usize = 256;
/// Bytes of items in a frame, about.
const FRAME_BYTES: usize = 1 << 20;

/// Feeds one process until its socket breaks, or it was told to end and did.
pub(crate) async fn feed(
    shared: &Shared,
    session: &Session,
    mut socket: OwnedWriteHalf,
    mut messages: mpsc::UnboundedReceiver<ToWorker>,
    mut stop: signal::Receiver<bool>,
) -> io::Result<()> {
    let mut next_id: CallId = 0;
    let mut buffer = Vec::new();
    let mut stopping = false;
    let mut told = false;
    // The first message says how to work and is there already.
    if let Some(start) = messages.recv().await {
        protocol::write_frame(&start, &mut buffer).map_err(io::Error::other)?;
        socket.write_all(&buffer).await?;
    }
    loop {
        buffer.clear();
        buffer.shrink_to(4 * FRAME_BYTES);
        while let Ok(message) = messages.try_recv() {
            write_reply(&message, &mut buffer)?;
        }
        let n_open = lock(&session.pending).len();
        let room = shared.options.max_in_flight.saturating_sub(n_open);
        if 0 < room {
            let jobs = shared.queue.take(room.min(MAX_BATCH), FRAME_BYTES);
            add_calls(shared, session, jobs, &mut next_id, &mut buffer);
        }
        if buffer.is_empty() && stopping && !told && n_open == 0 {
            told = true;
            protocol::write_frame(&ToWorker::Shutdown, &mut buffer).map_err(io::Error::other)?;
        }
        if !buffer.is_empty() {
            socket.write_all(&buffer).await?;
            continue;
        }
        tokio::select! {
            () = shared.queue.filled.notified(), if 0 < room => {}
            () = session.answered.notified() => {}
            () = shared.queue.abandoned.notified() => cancel_abandoned(session),
            message = messages.recv() => if let Some(message) = message {
                write_reply(&message, &mut buffer)?;
                socket.write_all(&buffer).await?;
            },
            () = stopped(&mut stop), if !stopping => stopping = true,
        }
    }
}

/// A reply that is too long for a frame becomes one that says so.
fn write_reply(message: &ToWorker, buffer: &mut Vec<u8>) -> io::Result<()> {
    match protocol::write_frame(message, buffer) {
        Ok(()) => Ok(()),
        Err(error) => match message {
            ToWorker::HostReply { id, .. } => {
                tracing::warn!(%error, "an answer to a plug-in is too long");
                // Of another kind than any question, so every guest is told that it is unavailable.
                let reply = protocol::HostReply::Complete(Vec::new());
                let message = ToWorker::HostReply { id: *id, reply };
                protocol::write_frame(&message, buffer).map_err(io::Error::other)
            }
            _ => Err(io::Error::other(error)),
        },
    }
}

fn add_calls(
    shared: &Shared,
    session: &Session,
    jobs: Vec<Job>,
    next_id: &mut CallId,
    buffer: &mut Vec<u8>,
) {
    let mut calls = Vec::with_capacity(jobs.len());
    let mut refused = Vec::new();
    let mut pending = lock(&session.pending);
    for job in jobs {
        if let Some(result) = shared.quarantine.verdict(job.call.plugin) {
            refused.push((job, result));
            continue;
        }
        if pending.is_empty() {
            let now = Instant::now();
            let mut times = lock(&session.times);
            (times.heard, times.progress) = (now, now);
        }
        calls.push((*next_id, Arc::clone(&job.call)));
        pending.insert(
            *next_id,
            Pending {
                job,
                cancelled: false,
            },
        );
        *next_id += 1;
    }
    if !calls.is_empty() {
        let message = ToWorker::Calls(calls);
        if protocol::write_frame(&message, buffer).is_err()
            && let ToWorker::Calls(calls) = message
        {
            // One of them is too long; the others go alone.
            for (id, call) in calls {
                let alone = ToWorker::Calls(vec![(id, call)]);
                if let Err(error) = protocol::write_frame(&alone, buffer)
                    && let Some(Pending { job, .. }) = pending.remove(&id)
                {
                    let message = format!("the item is too large: {error}");
                    refused.push((job, failed(FailureClass::InvalidInput, message)));
                }
            }
        }
    }
    drop(pending);
    for (job, result) in refused {
        job.answer(result);
    }
}

/// Tells the worker to stop the calls nobody waits for.
pub(crate) fn cancel_abandoned(session: &Session) {
    let mut ids = Vec::new();
    for (id, pending) in lock(&session.pending).iter_mut() {
        if pending.job.group.is_abandoned() && !pending.cancelled {
            pending.cancelled = true;
            ids.push(*id);
        }
    }
    if !ids.is_empty() {
        drop(session.to_worker.send(ToWorker::Cancel(ids)));
    }
}
