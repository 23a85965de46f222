//! `perpend plugin bench`: the speed of an evaluator in this process, compared with a minimal one.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use perpend_domain::plugin::{EvaluationCall, Item};
use perpend_sandbox::{DenyAllPort, Host, Plugin};
use serde_json::{Value, json};
use tokio::runtime::Builder;

use crate::error::Error;
use crate::items;
use crate::report::Report;
use crate::text::{self, Table};
use crate::workbench::{CheckedConfig, Component, Selection, Workbench, parse_config};

/// The parameters of a measurement.
#[derive(Clone, Copy, Debug)]
pub struct BenchParams {
    /// The duration of each measurement.
    pub time: Duration,
    /// The number of threads that make calls sequentially.
    pub n_threads: usize,
}

impl Default for BenchParams {
    fn default() -> Self {
        Self { time: Duration::from_secs(2), n_threads: 1 }
    }
}

/// The component to compare with.
#[derive(Clone, Copy, Debug)]
pub struct Baseline {
    /// The bytes of a component that is part of the program.
    pub component: &'static [u8],
    /// The id of its minimal evaluator.
    pub evaluator: &'static str,
}

/// The number of calls before the measurement.
const WARM_UP_CALLS: usize = 50;
/// The minimum number of measured calls per thread.
const MIN_CALLS: usize = 20;

#[derive(Clone, Copy, Debug)]
struct Timings {
    per_second: f64,
    median_us: f64,
    p99_us: f64,
    n_failed: usize,
}

impl Workbench<'_> {
    /// Measures an evaluator over items. The sandbox must be in process.
    ///
    /// # Errors
    /// When the component, the evaluator, the configuration or the items are invalid.
    pub fn bench(
        &self,
        selection: &Selection,
        floor: Option<Baseline>,
        measure: BenchParams,
    ) -> Result<Report, Error> {
        let (config, place) = parse_config(selection.config.as_deref())?;
        let items = items::items(&selection.items())?;
        let component = self.open(&selection.component())?;
        let evaluator = component.evaluator(selection.evaluator.as_deref())?;
        let configured = self.configure(&component, evaluator, config, &place)?;
        let timings = self.timings(&component, &configured, &items, measure)?;
        let floor = floor.map(|floor| self.floor(floor, &items, measure)).transpose()?;

        let mut table = Table::new(&["evaluator", "calls/s", "median", "p99"]);
        let name = format!("{} {}", component.info.name, evaluator.id);
        row(&mut table, &name, timings);
        if let Some((name, timings)) = &floor {
            row(&mut table, &format!("floor: {name}"), *timings);
        }
        let mut text = table.render();
        let threads = text::pluralized(measure.n_threads, "thread");
        text.push_str(&format!(
            "\na fresh instance per call, {}, {threads}, {} s each\n",
            text::pluralized(items.len(), "item"),
            measure.time.as_secs_f64()
        ));
        if 0 < timings.n_failed {
            text.push_str(&format!(
                "{} returned no scores; `perpend plugin run` shows the errors\n",
                text::pluralized(timings.n_failed, "call")
            ));
        }
        let json = json!({
            "evaluator": name,
            "nThreads": measure.n_threads,
            "measured": to_json(timings),
            "floor": floor.as_ref().map(|(name, timings)| {
                json!({ "evaluator": name, "measured": to_json(*timings) })
            }),
        });
        Ok(Report { text, json, is_ok: true })
    }

    fn floor(
        &self,
        floor: Baseline,
        items: &[Item],
        measure: BenchParams,
    ) -> Result<(String, Timings), Error> {
        let wrong =
            |problems| Error::Component { file: "the built-in component".to_owned(), problems };
        let info = self.sandbox.inspect(floor.component).map_err(wrong)?;
        let component = Component {
            file: info.name.clone(),
            bytes: floor.component.to_vec(),
            digest: perpend_domain::plugin::Digest::of(floor.component),
            info,
        };
        let evaluator = component.evaluator(Some(floor.evaluator))?;
        let configured = self.configure(&component, evaluator, json!({}), "floor")?;
        let timings = self.timings(&component, &configured, items, measure)?;
        Ok((format!("{} {}", component.info.name, evaluator.id), timings))
    }

    fn timings(
        &self,
        component: &Component,
        configured: &CheckedConfig<'_>,
        items: &[Item],
        measure: BenchParams,
    ) -> Result<Timings, Error> {
        let (host, plugin) = self.sandbox.loaded(component.digest).ok_or_else(|| {
            Error::Sandbox("measurements require a sandbox in this process".to_owned())
        })?;
        let calls: Vec<EvaluationCall> =
            items.iter().map(|item| self.call(component, configured, item)).collect();
        let id = text::inert(&configured.evaluator.id);
        self.progress.step(&format!("measuring {id}"));
        let n_failed = AtomicUsize::new(0);
        let started = Instant::now();
        let timed: Vec<Result<Vec<Duration>, Error>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..measure.n_threads.max(1))
                .map(|_| {
                    scope.spawn(|| one_thread(&host, &plugin, &calls, measure.time, &n_failed))
                })
                .collect();
            let joined = threads.into_iter().map(|thread| thread.join());
            joined
                .map(|timed| {
                    timed.unwrap_or_else(|_| Err(Error::Sandbox("a thread ended".to_owned())))
                })
                .collect()
        });
        let took = started.elapsed();
        self.progress.done();
        let timed: Result<Vec<Vec<Duration>>, Error> = timed.into_iter().collect();
        let mut all: Vec<Duration> = timed?.into_iter().flatten().collect();
        all.sort_unstable();
        let at = |share: f64| {
            let place = (all.len() as f64 * share) as usize;
            let found = all.get(place.min(all.len().saturating_sub(1)));
            found.map_or(0.0, |took| took.as_secs_f64() * 1e6)
        };
        Ok(Timings {
            per_second: all.len() as f64 / took.as_secs_f64().max(f64::EPSILON),
            median_us: at(0.5),
            p99_us: at(0.99),
            n_failed: n_failed.into_inner(),
        })
    }
}

fn one_thread(
    host: &Host,
    plugin: &Plugin,
    calls: &[EvaluationCall],
    time: Duration,
    n_failed: &AtomicUsize,
) -> Result<Vec<Duration>, Error> {
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Error::Sandbox(error.to_string()))?;
    let mut endless = calls.iter().cycle();
    let mut one = || {
        let call = endless.next().cloned();
        let called = Instant::now();
        let result =
            call.map(|call| runtime.block_on(host.evaluate(plugin, call, Arc::new(DenyAllPort))));
        (called.elapsed(), result)
    };
    let warm = Instant::now();
    for _ in 0..WARM_UP_CALLS {
        one();
        if time < warm.elapsed() {
            break;
        }
    }
    let mut timed = Vec::new();
    let started = Instant::now();
    while timed.len() < MIN_CALLS || started.elapsed() < time {
        let (took, result) = one();
        timed.push(took);
        if result.is_some_and(|result| result.outcome.is_err()) {
            n_failed.fetch_add(1, Ordering::Relaxed);
        }
        if 10 * time < started.elapsed() {
            break;
        }
    }
    Ok(timed)
}

fn row(table: &mut Table, name: &str, timings: Timings) {
    table.row([
        name.to_owned(),
        format!("{:.0}", timings.per_second),
        text::micros(timings.median_us),
        text::micros(timings.p99_us),
    ]);
}

fn to_json(timings: Timings) -> Value {
    json!({
        "callsPerSecond": timings.per_second,
        "medianUs": timings.median_us,
        "p99Us": timings.p99_us,
        "nFailed": timings.n_failed,
    })
}
