//! Calls that wait for a worker, and the groups that receive their results.

use std::collections::VecDeque;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use perpend_domain::ids::ProjectId;
use perpend_domain::plugin::{CallResult, EvaluationCall, FailureClass};
use perpend_worker_protocol::Tenant;
use tokio::sync::{Notify, mpsc};

use crate::call_failure::failed_result;
use crate::quarantine::Quarantine;

/// The calls of one `evaluate`.
pub(crate) struct Group {
    answers: mpsc::UnboundedSender<(usize, CallResult)>,
    abandoned: AtomicBool,
}

impl Group {
    pub(crate) fn new() -> (Arc<Self>, mpsc::UnboundedReceiver<(usize, CallResult)>) {
        // Unbounded, because there are only as many results as calls.
        let (answers, received) = mpsc::unbounded_channel();
        let abandoned = AtomicBool::new(false);
        (Arc::new(Self { answers, abandoned }), received)
    }

    pub(crate) fn is_abandoned(&self) -> bool {
        self.abandoned.load(Ordering::Acquire)
    }
}

/// A call with its destination.
pub(crate) struct Job {
    pub(crate) call: Arc<EvaluationCall>,
    pub(crate) project: Option<ProjectId>,
    /// Derived from `project`, or from the origin of the call.
    pub(crate) tenant: Tenant,
    pub(crate) group: Arc<Group>,
    /// Number of workers that ended while they ran the call.
    pub(crate) n_deaths: u32,
    index: usize,
}

impl Job {
    fn is_withdrawn(&self) -> bool {
        let origin = self.call.origin.as_ref();
        origin.is_some_and(|origin| origin.withdrawal.is_withdrawn())
    }

    /// Sends the result; consumes the job, so that a call gets one result.
    pub(crate) fn answer(self, result: CallResult) {
        // The caller may have gone.
        let _ = self.group.answers.send((self.index, result));
    }
}

fn withdrawn() -> CallResult {
    failed_result(FailureClass::Cancelled, "the call was withdrawn before it started")
}

/// The kind of calls that a slot runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Duty {
    /// Queued calls, many at a time.
    Calls,
    /// Calls whose worker ended, one group at a time.
    Suspects,
}

/// Up to this number, suspects are run one by one; more are first run in this number of groups. With 3,072 calls in flight, the
/// call that ends workers is identified after four workers.
const MAX_SUSPECTS: usize = 32;

/// All calls that are not in a worker.
pub(crate) struct Queue {
    state: Mutex<QueueState>,
    /// Calls were queued.
    pub(crate) work_available: Notify,
    /// Suspects were queued.
    pub(crate) suspects_available: Notify,
    /// A caller abandoned calls that may be in a worker.
    pub(crate) abandoned: Notify,
    n_slots: usize,
    /// Hashes projects to tenant numbers, from which a worker cannot determine the project.
    numbers: RandomState,
}

#[derive(Default)]
struct QueueState {
    /// By tenant, in round-robin order.
    jobs: VecDeque<(Tenant, VecDeque<Job>)>,
    n_jobs: usize,
    /// Calls whose worker ended. Each group runs alone in a worker.
    suspects: VecDeque<Vec<Job>>,
    closed: bool,
}

impl QueueState {
    fn push(&mut self, job: Job) {
        self.n_jobs += 1;
        let tenant = job.tenant;
        match self.jobs.iter_mut().find(|(known, _)| *known == tenant) {
            Some((_, jobs)) => jobs.push_back(job),
            None => self.jobs.push_back((tenant, [job].into())),
        }
    }

    /// Takes the first job of the next tenant.
    fn pop(&mut self) -> Option<Job> {
        let (tenant, mut jobs) = self.jobs.pop_front()?;
        let job = jobs.pop_front();
        self.n_jobs -= usize::from(job.is_some());
        if !jobs.is_empty() {
            self.jobs.push_back((tenant, jobs));
        }
        job
    }

    fn take_all(&mut self) -> Vec<Job> {
        self.n_jobs = 0;
        let jobs = std::mem::take(&mut self.jobs).into_iter();
        jobs.flat_map(|(_, jobs)| jobs).collect()
    }
}

impl Queue {
    pub(crate) fn new(n_slots: usize) -> Self {
        let state = Mutex::default();
        Self {
            state,
            work_available: Notify::new(),
            suspects_available: Notify::new(),
            abandoned: Notify::new(),
            n_slots,
            numbers: RandomState::new(),
        }
    }

    pub(crate) fn push(
        &self,
        group: &Arc<Group>,
        project: Option<ProjectId>,
        calls: Vec<EvaluationCall>,
        quarantine: &Quarantine,
    ) {
        let n_calls = calls.len();
        let mut rejected = Vec::new();
        {
            let mut state = lock(&self.state);
            for (index, call) in calls.into_iter().enumerate() {
                let origin = call.origin.as_ref();
                let origin_project = origin.map(|origin| &origin.context.project);
                let owner = project.as_ref().or(origin_project);
                let job = Job {
                    tenant: self.numbers.hash_one(owner),
                    call: Arc::new(call),
                    project: project.clone(),
                    group: Arc::clone(group),
                    n_deaths: 0,
                    index,
                };
                if state.closed {
                    rejected.push((
                        job,
                        failed_result(FailureClass::Cancelled, "the server is stopping"),
                    ));
                } else if let Some(result) = quarantine.rejection(&job.call) {
                    rejected.push((job, result));
                } else {
                    state.push(job);
                }
            }
        }
        for (job, result) in rejected {
            job.answer(result);
        }
        // Wakes no more slots than there are calls.
        for _ in 0..n_calls.min(self.n_slots) {
            self.work_available.notify_one();
        }
    }

    /// Takes a share of the queued calls, alternating between tenants: at most `capacity` calls with about `max_bytes` of
    /// items.
    pub(crate) fn take(&self, capacity: usize, max_bytes: usize) -> Vec<Job> {
        let mut state = lock(&self.state);
        let share = state.n_jobs.div_ceil(self.n_slots).min(capacity);
        let mut taken = Vec::with_capacity(share);
        let mut n_bytes = 0;
        while taken.len() < share && n_bytes < max_bytes {
            let Some(job) = state.pop() else {
                break;
            };
            if job.group.is_abandoned() {
                continue;
            }
            if job.is_withdrawn() {
                job.answer(withdrawn());
                continue;
            }
            n_bytes += size(&job.call);
            taken.push(job);
        }
        if 0 < state.n_jobs && 0 < capacity {
            // Another slot, or this one again, takes the rest.
            self.work_available.notify_one();
        }
        taken
    }

    /// Ends queued calls that were withdrawn.
    pub(crate) fn answer_withdrawn(&self) {
        let answered = {
            let mut state = lock(&self.state);
            let jobs = state.take_all().into_iter();
            let (withdrawn, rest): (Vec<Job>, Vec<Job>) = jobs.partition(Job::is_withdrawn);
            for job in rest {
                state.push(job);
            }
            withdrawn
        };
        for job in answered {
            job.answer(withdrawn());
        }
    }

    /// Queues calls of a lost worker, to run separately in groups that are small enough to identify the calls that end workers.
    /// They run next, because each further run of such a call ends a worker.
    pub(crate) fn suspect(&self, jobs: Vec<Job>) {
        let n_per_group =
            if jobs.len() <= MAX_SUSPECTS { 1 } else { jobs.len().div_ceil(MAX_SUSPECTS) };
        let mut rejected = Vec::new();
        {
            let mut state = lock(&self.state);
            if state.closed {
                rejected = jobs;
            } else {
                let mut jobs = jobs.into_iter().peekable();
                while jobs.peek().is_some() {
                    let group = jobs.by_ref().take(n_per_group).collect();
                    state.suspects.push_front(group);
                }
            }
        }
        for job in rejected {
            job.answer(failed_result(FailureClass::Cancelled, "the server is stopping"));
        }
        self.suspects_available.notify_one();
    }

    /// Takes the next group of suspects that was not abandoned.
    pub(crate) fn take_suspects(&self) -> Vec<Job> {
        let mut state = lock(&self.state);
        while let Some(mut group) = state.suspects.pop_front() {
            group.retain(|job| !job.group.is_abandoned());
            if !group.is_empty() {
                if !state.suspects.is_empty() {
                    // The slot may reject all calls of this group without waiting for a worker.
                    self.suspects_available.notify_one();
                }
                return group;
            }
        }
        Vec::new()
    }

    pub(crate) fn is_empty(&self, duty: Duty) -> bool {
        let state = lock(&self.state);
        match duty {
            Duty::Calls => state.n_jobs == 0,
            Duty::Suspects => state.suspects.is_empty(),
        }
    }

    /// Takes all queued calls when no worker can run them.
    pub(crate) fn drain(&self, duty: Duty) -> Vec<Job> {
        let mut state = lock(&self.state);
        match duty {
            Duty::Calls => state.take_all(),
            Duty::Suspects => std::mem::take(&mut state.suspects).into_iter().flatten().collect(),
        }
    }

    /// Wakes a slot that waits for work.
    pub(crate) fn notify(&self, duty: Duty) {
        match duty {
            Duty::Calls => self.work_available.notify_one(),
            Duty::Suspects => self.suspects_available.notify_one(),
        }
    }

    /// Waits until there may be work.
    pub(crate) async fn wait_for_work(&self, duty: Duty) {
        match duty {
            Duty::Calls => self.work_available.notified().await,
            Duty::Suspects => self.suspects_available.notified().await,
        }
    }

    /// Ends all queued and future calls with the result `cancelled`.
    pub(crate) fn close(&self) {
        let jobs = {
            let mut state = lock(&self.state);
            state.closed = true;
            let mut jobs = state.take_all();
            jobs.extend(std::mem::take(&mut state.suspects).into_iter().flatten());
            jobs
        };
        for job in jobs {
            job.answer(failed_result(FailureClass::Cancelled, "the server is stopping"));
        }
    }
}

/// Approximate size of a call in a frame, in bytes.
pub(crate) fn size(call: &EvaluationCall) -> usize {
    let part = |part: &Option<perpend_domain::payload::Payload>| {
        part.as_ref().map_or(0, |payload| payload.as_str().len())
    };
    let item = &call.item;
    let parts = part(&item.input) + part(&item.output) + part(&item.expected_output);
    128 + parts + call.config.len() + item.metadata.as_ref().map_or(0, String::len)
}

/// The results of a group of calls. Dropping it before the last result abandons the group.
pub(crate) struct GroupResults<'q> {
    pub(crate) group: Arc<Group>,
    pub(crate) received: mpsc::UnboundedReceiver<(usize, CallResult)>,
    pub(crate) n_open: usize,
    pub(crate) queue: &'q Queue,
}

impl GroupResults<'_> {
    /// The next result with the index of its call; `None` after the last.
    pub(crate) async fn next(&mut self) -> Option<(usize, CallResult)> {
        if self.n_open == 0 {
            return None;
        }
        let next = self.received.recv().await;
        // After the result arrived: a caller that goes while it waits for the last result abandons it.
        self.n_open -= 1;
        next
    }
}

impl Drop for GroupResults<'_> {
    fn drop(&mut self) {
        if 0 < self.n_open {
            self.group.abandoned.store(true, Ordering::Release);
            self.queue.abandoned.notify_waiters();
        }
    }
}

/// Ignores poisoning, because each change is a single step.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Completes when the pool shuts down.
pub(crate) async fn stopped(stop: &mut tokio::sync::watch::Receiver<bool>) {
    // A dropped sender has the same meaning.
    drop(stop.wait_for(|stop| *stop).await);
}
