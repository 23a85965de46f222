//! Sends calls to a worker, many in one frame.

use std::fs::File;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use perpend_domain::plugin::FailureClass;
use perpend_worker_protocol::{CallId, ToWorker};
use rustix::cmsg_space;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use tokio::sync::mpsc;
use tokio::sync::watch as signal;

use crate::call_failure::failed_result;
use crate::queue::{Duty, Job, lock, size, stopped};
use crate::session::{Outgoing, Pending, Session, Shared};
use crate::socket::Outbox;

/// Maximum number of calls in a frame, so that the worker starts before the next frame is serialized.
const MAX_BATCH: usize = 256;
/// Approximate maximum of bytes in a frame.
const FRAME_BYTES: usize = 1 << 20;

/// Approximate maximum of bytes of items in a worker, whose memory includes them.
const MAX_PENDING_BYTES: usize = 256 << 20;

/// The process for suspects is shut down when it is idle for so long.
const IDLE_LIMIT: Duration = Duration::from_secs(10);

/// Sends calls and messages to one process until its socket closes.
pub(crate) async fn feed(
    shared: &Shared,
    session: &Session,
    socket: Outbox,
    mut messages: mpsc::UnboundedReceiver<Outgoing>,
    mut stop: signal::Receiver<bool>,
) -> io::Result<()> {
    let mut feeder = Feeder { shared, session, next_id: 0, buffer: Vec::new() };
    let settings = ToWorker::Start(shared.options.worker_settings());
    feeder.frame(&settings)?;
    socket.write_all(&feeder.buffer).await?;
    // Calls are sent only to a ready process, so that a failed start does not affect calls.
    session.ready.notified().await;
    let (mut stopping, mut is_shutdown_sent) = (false, false);
    loop {
        feeder.buffer.clear();
        feeder.buffer.shrink_to(4 * FRAME_BYTES);
        let mut file = None;
        while file.is_none()
            && feeder.buffer.len() < FRAME_BYTES
            && let Ok(message) = messages.try_recv()
        {
            file = feeder.add(message);
        }
        let n_open = lock(&session.pending).len();
        let capacity = match session.duty {
            _ if is_shutdown_sent || file.is_some() || session.is_resting() => 0,
            Duty::Calls if MAX_PENDING_BYTES < session.n_pending_bytes.load(Ordering::Acquire) => 0,
            Duty::Calls => shared.options.max_in_flight.saturating_sub(n_open),
            // Suspects run alone.
            Duty::Suspects => usize::from(n_open == 0),
        };
        if 0 < capacity {
            feeder.add_calls(match session.duty {
                Duty::Calls => shared.queue.take(capacity.min(MAX_BATCH), FRAME_BYTES),
                Duty::Suspects => shared.queue.take_suspects(),
            });
        }
        let is_ending = stopping || session.is_resting();
        if feeder.buffer.is_empty() && is_ending && !is_shutdown_sent && n_open == 0 {
            is_shutdown_sent = true;
            session.mark_shutdown_sent();
            feeder.frame(&ToWorker::Shutdown)?;
        }
        if !feeder.buffer.is_empty() {
            feeder.send(&socket, file.as_ref()).await?;
            continue;
        }
        tokio::select! {
            () = shared.queue.wait_for_work(session.duty), if 0 < capacity => {}
            () = session.results_arrived.notified() => {}
            () = shared.queue.abandoned.notified() => cancel_abandoned(session),
            message = messages.recv() => if let Some(message) = message {
                let file = feeder.add(message);
                feeder.send(&socket, file.as_ref()).await?;
            },
            () = stopped(&mut stop), if !stopping => stopping = true,
            () = tokio::time::sleep(IDLE_LIMIT),
                if session.duty == Duty::Suspects && n_open == 0 && !is_shutdown_sent => stopping = true,
        }
    }
}

/// Writes frames; a file is sent with the first byte.
async fn send(socket: &Outbox, bytes: &[u8], file: Option<&Arc<File>>) -> io::Result<()> {
    let Some(file) = file else {
        return socket.write_all(bytes).await;
    };
    let n_sent = socket
        .when_ready(|stream| {
            let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            let files = [file.as_fd()];
            control.push(SendAncillaryMessage::ScmRights(&files));
            let bytes = [IoSlice::new(bytes)];
            Ok(sendmsg(stream, &bytes, &mut control, SendFlags::empty())?)
        })
        .await?;
    socket.write_all(&bytes[n_sent..]).await
}

struct Feeder<'a> {
    shared: &'a Shared,
    session: &'a Session,
    next_id: CallId,
    buffer: Vec<u8>,
}

impl Feeder<'_> {
    fn frame(&mut self, message: &ToWorker) -> io::Result<()> {
        perpend_worker_protocol::write_frame(message, &mut self.buffer).map_err(io::Error::other)
    }

    /// Appends a message to the buffer and returns its file.
    fn add(&mut self, message: Outgoing) -> Option<Arc<File>> {
        self.buffer.extend_from_slice(&message.frame);
        self.session.sent(message.frame.len());
        message.file
    }

    /// Writes the buffer. Fails when the worker does not read it within the silence limit.
    async fn send(&self, socket: &Outbox, file: Option<&Arc<File>>) -> io::Result<()> {
        let limit = self.shared.options.silence_limit;
        let sent = tokio::time::timeout(limit, send(socket, &self.buffer, file)).await;
        sent.unwrap_or_else(|_| {
            let limit = limit.as_millis();
            Err(io::Error::other(format!("it read nothing for {limit} ms")))
        })
    }

    fn add_calls(&mut self, jobs: Vec<Job>) {
        let mut calls = Vec::with_capacity(jobs.len());
        let mut rejected = Vec::new();
        let mut n_bytes = 0;
        let mut pending = lock(&self.session.pending);
        for job in jobs {
            if let Some(result) = self.shared.quarantine.rejection(&job.call) {
                rejected.push((job, result));
                continue;
            }
            if pending.is_empty() {
                self.session.reset_activity();
            }
            calls.push((self.next_id, job.tenant, Arc::clone(&job.call)));
            n_bytes += size(&job.call);
            let new =
                Pending { n_model_waits: 0, job, cancelled: false, allowance: Arc::default() };
            pending.insert(self.next_id, new);
            self.next_id += 1;
        }
        if !calls.is_empty() {
            let message = ToWorker::Calls(calls);
            if perpend_worker_protocol::write_frame(&message, &mut self.buffer).is_err()
                && let ToWorker::Calls(calls) = message
            {
                // A call is too long: send each in its own frame.
                for (id, tenant, call) in calls {
                    let single = ToWorker::Calls(vec![(id, tenant, call)]);
                    if let Err(error) =
                        perpend_worker_protocol::write_frame(&single, &mut self.buffer)
                        && let Some(Pending { job, .. }) = pending.remove(&id)
                    {
                        n_bytes -= size(&job.call);
                        let message = format!("the item is too large: {error}");
                        rejected.push((job, failed_result(FailureClass::InvalidInput, message)));
                    }
                }
            }
        }
        self.session.n_pending_bytes.fetch_add(n_bytes, Ordering::AcqRel);
        drop(pending);
        for (job, result) in rejected {
            job.answer(result);
        }
    }
}

/// Cancels abandoned calls in the worker.
pub(crate) fn cancel_abandoned(session: &Session) {
    let mut ids = Vec::new();
    for (id, pending) in lock(&session.pending).iter_mut() {
        if pending.job.group.is_abandoned() && !pending.cancelled {
            pending.cancelled = true;
            ids.push(*id);
        }
    }
    if !ids.is_empty() {
        session.send_message(&ToWorker::Cancel(ids));
    }
}
