//! Configuration of the engine, and the ticker that interrupts guests.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use wasmtime::{Config, Enabled, Engine, InstanceAllocationStrategy, PoolingAllocationConfig};

use crate::pressure::Pressure;

/// Interval at which guests check their CPU limit and yield.
pub(crate) const TICK: Duration = Duration::from_millis(5);
const WASM_STACK: usize = 1 << 20;
/// Bytes of the memory of an instance that are reset in place instead of being returned to the kernel.
const KEEP_RESIDENT: usize = 4 << 20;
/// Components with an interpreter need 20 to 32 core instances.
pub(crate) const MAX_CORE_INSTANCES: u32 = 64;
pub(crate) const MAX_MEMORIES: u32 = 8;
pub(crate) const MAX_TABLES: u32 = 32;
pub(crate) const MAX_TABLE_ELEMENTS: usize = 100_000;

/// How instances are allocated.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Allocation {
    /// From a pool for `max_live` calls, each with at most `memory_bytes`.
    Pool { max_live: u32, memory_bytes: u64 },
    /// On demand, for the compile process, whose address space is limited.
    OnDemand,
}

/// Creates an engine. Also returns warnings about missing features of the platform.
pub(crate) fn engine(allocation: Allocation) -> wasmtime::Result<(Engine, Vec<String>)> {
    let Allocation::Pool { max_live, memory_bytes } = allocation else {
        return Ok((Engine::new(&config())?, Vec::new()));
    };
    let mut pooled = config();
    pooled.allocation_strategy(InstanceAllocationStrategy::Pooling(pool(max_live, memory_bytes)));
    let mut warnings = Vec::new();
    if !PoolingAllocationConfig::is_pagemap_scan_available() {
        warnings.push("the kernel has no page-map scan: new instances are slower".to_owned());
    }
    match Engine::new(&pooled) {
        Ok(engine) => Ok((engine, warnings)),
        Err(error) => {
            warnings
                .push(format!("no instance pool; instances are allocated on demand: {error:#}"));
            Ok((Engine::new(&config())?, warnings))
        }
    }
}

/// Settings on which the compatibility of artifacts depends. Independent of the allocation, because compile processes have no
/// pool and workers have one.
fn config() -> Config {
    let mut config = Config::new();
    config
        .wasm_component_model(true)
        .concurrency_support(false)
        .wasm_relaxed_simd(false)
        .wasm_memory64(false)
        // The engine is built without a collector, but would accept GC instructions that need no heap.
        .wasm_gc(false)
        .cranelift_nan_canonicalization(true)
        .epoch_interruption(true)
        .max_wasm_stack(WASM_STACK)
        .async_stack_size(2 * WASM_STACK)
        .memory_init_cow(true)
        .wasm_backtrace_max_frames(std::num::NonZeroUsize::new(8))
        .generate_address_map(false)
        // One compile at a time, in a process with little address space.
        .parallel_compilation(false);
    config
}

fn pool(max_live: u32, memory_bytes: u64) -> PoolingAllocationConfig {
    let mut pool = PoolingAllocationConfig::new();
    let memory_bytes =
        usize::try_from(memory_bytes).unwrap_or(usize::MAX).next_multiple_of(1 << 16);
    pool.total_component_instances(max_live)
        .total_core_instances(max_live.saturating_mul(MAX_CORE_INSTANCES))
        .total_memories(max_live.saturating_mul(2).max(MAX_MEMORIES))
        .total_tables(max_live.saturating_mul(4).max(MAX_TABLES))
        .total_stacks(max_live)
        .max_core_instances_per_component(MAX_CORE_INSTANCES)
        .max_memories_per_component(MAX_MEMORIES)
        .max_tables_per_component(MAX_TABLES)
        .max_memories_per_module(MAX_MEMORIES)
        .max_tables_per_module(MAX_TABLES)
        .max_component_instance_size(4 << 20)
        .max_core_instance_size(4 << 20)
        .table_elements(MAX_TABLE_ELEMENTS)
        .max_memory_size(memory_bytes);
    // Without the scan, a reset in place writes all kept pages, which is slower than returning them.
    if PoolingAllocationConfig::is_pagemap_scan_available() {
        pool.pagemap_scan(Enabled::Auto)
            .linear_memory_keep_resident(KEEP_RESIDENT)
            .table_keep_resident(1 << 16);
    }
    pool
}

/// A thread that increments the epoch of the engine while guests run.
pub(crate) struct Ticker {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// Number of counters of running guests. Several reduce contention between threads.
const N_COUNTERS: usize = 8;

/// Occupies a cache line.
#[derive(Default)]
#[repr(align(128))]
struct Counter(AtomicUsize);

#[derive(Default)]
struct Shared {
    n_running: [Counter; N_COUNTERS],
    /// Whether the thread is parked or about to park.
    is_parked: AtomicBool,
    stop: AtomicBool,
}

impl Shared {
    fn is_idle(&self) -> bool {
        let mut counters = self.n_running.iter();
        counters.all(|counter| counter.0.load(Ordering::SeqCst) == 0)
    }

    /// Parks until a guest runs. A starting guest first increments its counter and then reads `is_parked`. This thread first
    /// sets `is_parked` and then reads the counters, so one of them observes the other.
    fn park_while_idle(&self) {
        self.is_parked.store(true, Ordering::SeqCst);
        while self.is_idle() && !self.stop.load(Ordering::SeqCst) {
            thread::park();
        }
        self.is_parked.store(false, Ordering::SeqCst);
    }
}

impl Ticker {
    /// Starts the thread. At each tick it also updates `pressure`.
    pub(crate) fn start(engine: &Engine, pressure: Arc<Pressure>) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let (state, engine) = (Arc::clone(&shared), engine.weak());
        let thread = thread::Builder::new().name("epoch".into()).spawn(move || {
            let mut is_short = false;
            while !state.stop.load(Ordering::SeqCst) {
                if !is_short && state.is_idle() {
                    state.park_while_idle();
                    continue;
                }
                thread::sleep(TICK);
                let Some(engine) = engine.upgrade() else {
                    return;
                };
                engine.increment_epoch();
                is_short = pressure.update();
            }
        })?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// The epoch advances while the returned guard exists.
    pub(crate) fn running(&self) -> Running<'_> {
        let counter = &self.shared.n_running[counter_of_thread()].0;
        counter.fetch_add(1, Ordering::SeqCst);
        if self.shared.is_parked.load(Ordering::SeqCst) {
            self.wake();
        }
        Running(counter)
    }

    fn wake(&self) {
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        self.wake();
    }
}

fn counter_of_thread() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static OWN: usize = NEXT.fetch_add(1, Ordering::Relaxed) % N_COUNTERS;
    }
    OWN.with(|own| *own)
}

/// A running guest.
pub(crate) struct Running<'t>(&'t AtomicUsize);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Release);
    }
}
