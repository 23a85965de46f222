//! Runs one call in an instance of its own.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use perpend_domain::plugin::{
    CallResult, EvaluationCall, EvaluatorInfo, Failure, FailureClass, Limits, LogLine, PluginInfo,
    PluginScore, Purpose,
};
use perpend_worker_protocol::{Port, Tenant};
use wasmtime::{Store, UpdateDeadline};

use crate::bindings::{self, JudgePre, types};
use crate::ending::{
    CpuLimit, End, config_failure, engine_failure, failed_result, plugin_failure, stop_failure,
};
use crate::guest::ConfigProblem;
use crate::host::{Host, Plugin};
use crate::meter::{LimitedCall, Meter};
use crate::pressure::MemoryTurn;
use crate::processors::Slot;
use crate::score_check::check_scores;
use crate::state::{DenyAllPort, MemoryLimits, State, TimedPort, failure};

/// The return value of a guest.
enum Answer {
    Scores(Result<Vec<types::Score>, types::EvalError>),
    Problems(Vec<ConfigProblem>),
}

impl Host {
    /// Like [`Self::evaluate_for`], for a host without tenants.
    pub async fn evaluate(
        &self,
        plugin: &Plugin,
        call: EvaluationCall,
        port: Arc<dyn Port>,
    ) -> CallResult {
        self.evaluate_for(0, plugin, call, port).await
    }

    /// Runs one call in an instance of its own. Failures are part of the result.
    pub async fn evaluate_for(
        &self,
        tenant: Tenant,
        plugin: &Plugin,
        call: EvaluationCall,
        port: Arc<dyn Port>,
    ) -> CallResult {
        let Some(evaluator) = plugin.evaluator(&call.evaluator_id) else {
            let message = format!("the plug-in has no evaluator {:?}", call.evaluator_id);
            return failed_result(failure(FailureClass::InvalidConfig, message));
        };
        let port: Arc<dyn Port> = match call.purpose {
            Purpose::Evaluate => port,
            Purpose::CheckConfig if plugin.exports.checks_config() => Arc::new(DenyAllPort),
            Purpose::CheckConfig => return CallResult::empty(),
        };
        let mut slot = self.processors.add_guest(tenant, plugin.weight);
        poll_fn(|cx| slot.poll_running(cx, false)).await;
        let meter = Arc::new(Meter::new());
        let EvaluationCall {
            evaluator_id, config, item, seed, run_time_ms, limits, purpose, ..
        } = call;
        let memory = MemoryLimits::new(limits.memory_bytes);
        // Like the slot dropped after the store, so that the next guest finds a free instance in the pool.
        let mut turn = MemoryTurn::new(&self.pressure, memory.memory_bytes());
        let port = Arc::new(TimedPort { port, meter: Arc::clone(&meter) });
        let state = State::new(seed, run_time_ms, memory, port);
        let mut store = self.store(state, &limits, &meter);
        let item = bindings::item(Arc::unwrap_or_clone(item));
        let guest = async {
            let instance = plugin.pre.instantiate_async(&mut store).await?;
            match purpose {
                Purpose::Evaluate => {
                    let evaluate = plugin.exports.evaluate(&mut store, &instance)?;
                    let arguments = (&*evaluator_id, &item, &*config);
                    let (scores,) = evaluate.call_async(&mut store, arguments).await?;
                    Ok(Answer::Scores(scores))
                }
                Purpose::CheckConfig => {
                    let Some(check) = plugin.exports.check_config(&mut store, &instance)? else {
                        return Ok(Answer::Problems(Vec::new()));
                    };
                    let arguments = (&*evaluator_id, &*config);
                    let (problems,) = check.call_async(&mut store, arguments).await?;
                    Ok(Answer::Problems(problems))
                }
            }
        };
        let waits = (&mut slot, &mut turn);
        let end = self.limited(&meter, waits, &limits, pin!(guest)).await;
        let outcome = outcome(end, store.data(), evaluator, &limits);
        let cpu_us = u64::try_from(meter.spent().as_micros()).unwrap_or(u64::MAX);
        CallResult { outcome, cpu_us, log: store.into_data().into_log(), ..CallResult::empty() }
    }

    /// Calls `describe` of a component and denies all host calls. Instantiation checks the type of each export of the
    /// contract.
    pub(crate) async fn describe(
        &self,
        pre: &JudgePre<State>,
    ) -> Result<(PluginInfo, Vec<LogLine>), Failure> {
        let mut slot = self.processors.add_guest(0, 1);
        poll_fn(|cx| slot.poll_running(cx, false)).await;
        // CPU time is limited. The time to get it depends on the machine.
        let limits = Limits::default();
        let meter = Arc::new(Meter::new());
        let memory = MemoryLimits::new(limits.memory_bytes);
        let mut turn = MemoryTurn::new(&self.pressure, memory.memory_bytes());
        let mut state = State::new(0, 0, memory, Arc::new(DenyAllPort));
        state.is_describing = true;
        let mut store = self.store(state, &limits, &meter);
        let guest = async {
            let judge = pre.instantiate_async(&mut store).await?;
            judge.perpend_evaluator_evaluator().call_describe(&mut store).await
        };
        let waits = (&mut slot, &mut turn);
        let end = self.limited(&meter, waits, &limits, pin!(guest)).await;
        match end {
            End::Answer(info) => Ok((bindings::plugin_info(info), store.into_data().into_log())),
            End::Error(error) => {
                Err(engine_failure(&error, store.data().limits.was_refused, &limits))
            }
            End::Stopped(stop) => Err(stop_failure(&stop, &limits)),
        }
    }

    async fn limited<T>(
        &self,
        meter: &Meter,
        waits: (&mut Slot<'_>, &mut MemoryTurn<'_>),
        limits: &Limits,
        guest: std::pin::Pin<&mut impl Future<Output = wasmtime::Result<T>>>,
    ) -> End<T> {
        let wall = Duration::from_millis(limits.wall_ms.into());
        match LimitedCall::new(meter, &self.ticker, waits, wall, guest).await {
            Ok(Ok(answer)) => End::Answer(answer),
            Ok(Err(error)) => End::Error(error),
            Err(stop) => End::Stopped(stop),
        }
    }

    fn store(&self, state: State, limits: &Limits, meter: &Arc<Meter>) -> Store<State> {
        let mut store = Store::new(&self.engine, state);
        store.limiter(|state| &mut state.limits);
        store.set_hostcall_fuel(limits.output_bytes as usize);
        store.set_epoch_deadline(1);
        let allowed = Duration::from_millis(limits.cpu_ms.into());
        let meter = Arc::clone(meter);
        store.epoch_deadline_callback(move |_| {
            if allowed < meter.spent_so_far() {
                return Err(CpuLimit.into());
            }
            // Yields at each tick, so that long calls do not delay short ones.
            meter.yield_at_tick();
            Ok(UpdateDeadline::YieldCustom(1, Box::pin(tokio::task::yield_now())))
        });
        store
    }
}

fn outcome(
    end: End<Answer>,
    state: &State,
    evaluator: &EvaluatorInfo,
    limits: &Limits,
) -> Result<Vec<PluginScore>, Failure> {
    match end {
        End::Answer(Answer::Scores(Ok(scores))) => {
            let scores = scores.into_iter().map(bindings::score).collect();
            check_scores(scores, evaluator, limits)
        }
        End::Answer(Answer::Scores(Err(error))) => Err(plugin_failure(error, state.last_upstream)),
        End::Answer(Answer::Problems(problems)) => config_failure(&problems).map(|()| Vec::new()),
        End::Error(error) => Err(engine_failure(&error, state.limits.was_refused, limits)),
        End::Stopped(stop) => Err(stop_failure(&stop, limits)),
    }
}
