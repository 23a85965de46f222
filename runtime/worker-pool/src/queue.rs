//! Calls that wait for a worker, and the groups their answers go back to.

use std::collections::VecDeque;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use perpend_domain::ids::ProjectId;
use perpend_domain::plugin::{CallResult, EvaluationCall, FailureClass};
use perpend_worker_protocol::Tenant;
use tokio::sync::{Notify, mpsc};

use crate::failed::failed;
use crate::watch::Quarantine;

/// The calls of one `evaluate`.
pub(crate) struct Group {
    answers: mpsc::UnboundedSender<(usize, CallResult)>,
    abandoned: AtomicBool,
}

impl Group {
    pub(crate) fn new() -> (Arc<Self>, mpsc::UnboundedReceiver<(usize, CallResult)>) {
        // As many answers as calls, which the caller holds already.
        let (answers, received) = mpsc::unbounded_channel();
        let abandoned = AtomicBool::new(false);
        (Arc::new(Self { answers, abandoned }), received)
    }

    pub(crate) fn is_abandoned(&self) -> bool {
        self.abandoned.load(Ordering::Acquire)
    }
}

/// One call on its way.
pub(crate) struct Job {
    pub(crate) call: Arc<EvaluationCall>,
    pub(crate) project: Option<ProjectId>,
    /// Of that project, or of the maker of the call.
    pub(crate) tenant: Tenant,
    pub(crate) group: Arc<Group>,
    /// Workers that ended while they had it.
    pub(crate) n_deaths: u32,
    index: usize,
}

impl Job {
    fn is_withdrawn(&self) -> bool {
        let origin = self.call.origin.as_ref();
        origin.is_some_and(|origin| origin.withdrawal.is_withdrawn())
    }

    /// Answers the call; a job is consumed by it, so it happens once.
    pub(crate) fn answer(self, result: CallResult) {
        // Nobody may be waiting any more.
        let _ = self.group.answers.send((self.index, result));
    }
}

fn withdrawn() -> CallResult {
    failed(FailureClass::Cancelled, "the call was withdrawn before it began")
}

/// Which calls a lane takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Duty {
    /// Those that wait, in turn, many at a time.
    Calls,
    /// Those whose worker ended, group by group with nothing beside it.
    Suspects,
}

/// So many suspects are run one by one; more are first run in so many groups. With 3,072 calls in flight
/// the one that ends workers is found with the fourth.
const MAX_SUSPECTS: usize = 32;

/// All calls that no worker has yet.
pub(crate) struct Queue {
    waiting: Mutex<Waiting>,
    /// There is something to take.
    pub(crate) filled: Notify,
    /// There are suspects to take.
    pub(crate) suspected: Notify,
    /// Somebody gave up on calls that may be with a worker.
    pub(crate) abandoned: Notify,
    n_lanes: usize,
    /// Numbers tenants: a worker cannot tell the project from its number.
    numbers: RandomState,
}

#[derive(Default)]
struct Waiting {
    /// By tenant, in turn.
    jobs: VecDeque<(Tenant, VecDeque<Job>)>,
    n_jobs: usize,
    /// Calls whose worker ended under them. Each group is run with nothing beside it.
    suspects: VecDeque<Vec<Job>>,
    closed: bool,
}

impl Waiting {
    fn push(&mut self, job: Job) {
        self.n_jobs += 1;
        let tenant = job.tenant;
        match self.jobs.iter_mut().find(|(known, _)| *known == tenant) {
            Some((_, jobs)) => jobs.push_back(job),
            None => self.jobs.push_back((tenant, [job].into())),
        }
    }

    /// The first job of the tenant whose turn it is.
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
    pub(crate) fn new(n_lanes: usize) -> Self {
        let waiting = Mutex::default();
        Self {
            waiting,
            filled: Notify::new(),
            suspected: Notify::new(),
            abandoned: Notify::new(),
            n_lanes,
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
        let mut refused = Vec::new();
        {
            let mut waiting = lock(&self.waiting);
            for (index, call) in calls.into_iter().enumerate() {
                let origin = call.origin.as_ref();
                let maker = origin.map(|origin| &origin.maker.project);
                let owner = project.as_ref().or(maker);
                let job = Job {
                    tenant: self.numbers.hash_one(owner),
                    call: Arc::new(call),
                    project: project.clone(),
                    group: Arc::clone(group),
                    n_deaths: 0,
                    index,
                };
                if waiting.closed {
                    refused.push((job, failed(FailureClass::Cancelled, "the server is stopping")));
                } else if let Some(result) = quarantine.verdict(&job.call) {
                    refused.push((job, result));
                } else {
                    waiting.push(job);
                }
            }
        }
        for (job, result) in refused {
            job.answer(result);
        }
        // One call needs one worker; many are shared.
        for _ in 0..n_calls.min(self.n_lanes) {
            self.filled.notify_one();
        }
    }

    /// A fair share of what waits, of each tenant in turn: at most `capacity` calls and about `max_bytes` of items.
    pub(crate) fn take(&self, capacity: usize, max_bytes: usize) -> Vec<Job> {
        let mut waiting = lock(&self.waiting);
        let share = waiting.n_jobs.div_ceil(self.n_lanes).min(capacity);
        let mut taken = Vec::with_capacity(share);
        let mut n_bytes = 0;
        while taken.len() < share && n_bytes < max_bytes {
            let Some(job) = waiting.pop() else {
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
        if 0 < waiting.n_jobs && 0 < capacity {
            // Another lane, or this one again, finds the rest.
            self.filled.notify_one();
        }
        taken
    }

    /// Answers calls that wait and were withdrawn.
    pub(crate) fn answer_withdrawn(&self) {
        let answered = {
            let mut waiting = lock(&self.waiting);
            let jobs = waiting.take_all().into_iter();
            let (withdrawn, rest): (Vec<Job>, Vec<Job>) = jobs.partition(Job::is_withdrawn);
            for job in rest {
                waiting.push(job);
            }
            withdrawn
        };
        for job in answered {
            job.answer(withdrawn());
        }
    }

    /// Calls to run again, apart from all others, in groups that are small enough to find who ends workers.
    /// They are the next to run: the sooner the guilty ones are found, the fewer workers they end.
    pub(crate) fn suspect(&self, jobs: Vec<Job>) {
        let n_per_group =
            if jobs.len() <= MAX_SUSPECTS { 1 } else { jobs.len().div_ceil(MAX_SUSPECTS) };
        let mut refused = Vec::new();
        {
            let mut waiting = lock(&self.waiting);
            if waiting.closed {
                refused = jobs;
            } else {
                let mut jobs = jobs.into_iter().peekable();
                while jobs.peek().is_some() {
                    let group = jobs.by_ref().take(n_per_group).collect();
                    waiting.suspects.push_front(group);
                }
            }
        }
        for job in refused {
            job.answer(failed(FailureClass::Cancelled, "the server is stopping"));
        }
        self.suspected.notify_one();
    }

    /// The next group of suspects, of which somebody still wants the answers.
    pub(crate) fn take_suspects(&self) -> Vec<Job> {
        let mut waiting = lock(&self.waiting);
        while let Some(mut group) = waiting.suspects.pop_front() {
            group.retain(|job| !job.group.is_abandoned());
            if !group.is_empty() {
                if !waiting.suspects.is_empty() {
                    // All of this one may be refused without a word to any worker.
                    self.suspected.notify_one();
                }
                return group;
            }
        }
        Vec::new()
    }

    pub(crate) fn is_empty(&self, duty: Duty) -> bool {
        let waiting = lock(&self.waiting);
        match duty {
            Duty::Calls => waiting.n_jobs == 0,
            Duty::Suspects => waiting.suspects.is_empty(),
        }
    }

    /// Everything that waits, when there is nobody to run it.
    pub(crate) fn drain(&self, duty: Duty) -> Vec<Job> {
        let mut waiting = lock(&self.waiting);
        match duty {
            Duty::Calls => waiting.take_all(),
            Duty::Suspects => std::mem::take(&mut waiting.suspects).into_iter().flatten().collect(),
        }
    }

    /// Tells again that there may be something to take.
    pub(crate) fn refill(&self, duty: Duty) {
        match duty {
            Duty::Calls => self.filled.notify_one(),
            Duty::Suspects => self.suspected.notify_one(),
        }
    }

    /// Tells when there may be something to take.
    pub(crate) async fn filled(&self, duty: Duty) {
        match duty {
            Duty::Calls => self.filled.notified().await,
            Duty::Suspects => self.suspected.notified().await,
        }
    }

    /// Answers everything that waits with `cancelled`, and everything that comes.
    pub(crate) fn close(&self) {
        let jobs = {
            let mut waiting = lock(&self.waiting);
            waiting.closed = true;
            let mut jobs = waiting.take_all();
            jobs.extend(std::mem::take(&mut waiting.suspects).into_iter().flatten());
            jobs
        };
        for job in jobs {
            job.answer(failed(FailureClass::Cancelled, "the server is stopping"));
        }
    }
}

/// About how long a call is on the wire.
pub(crate) fn size(call: &EvaluationCall) -> usize {
    let part = |part: &Option<perpend_domain::payload::Payload>| {
        part.as_ref().map_or(0, |payload| payload.as_str().len())
    };
    let item = &call.item;
    let parts = part(&item.input) + part(&item.output) + part(&item.expected_output);
    128 + parts + call.config.len() + item.metadata.as_ref().map_or(0, String::len)
}

/// The answers to a group of calls. Dropped before the end, it marks the group as unwanted.
pub(crate) struct Answers<'q> {
    pub(crate) group: Arc<Group>,
    pub(crate) received: mpsc::UnboundedReceiver<(usize, CallResult)>,
    pub(crate) n_open: usize,
    pub(crate) queue: &'q Queue,
}

impl Answers<'_> {
    /// The next answer, with the place of its call; `None` after the last.
    pub(crate) async fn next(&mut self) -> Option<(usize, CallResult)> {
        if self.n_open == 0 {
            return None;
        }
        let next = self.received.recv().await;
        // Not before it is there: a caller that goes while it waits for the last one abandons that one.
        self.n_open -= 1;
        next
    }
}

impl Drop for Answers<'_> {
    fn drop(&mut self) {
        if 0 < self.n_open {
            self.group.abandoned.store(true, Ordering::Release);
            self.queue.abandoned.notify_waiters();
        }
    }
}

/// A panic elsewhere does not make these unusable: each change is a single step.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends when everything is to stop.
pub(crate) async fn stopped(stop: &mut tokio::sync::watch::Receiver<bool>) {
    // A sender that is gone means the same.
    drop(stop.wait_for(|stop| *stop).await);
}
