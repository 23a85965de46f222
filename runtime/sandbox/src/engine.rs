//! The engine: which WebAssembly is accepted, how instances are made cheap, and the tick that stops
//! runaways.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use wasmtime::{Config, Enabled, Engine, InstanceAllocationStrategy, PoolingAllocationConfig};

use crate::pressure::Pressure;

/// Guest code looks at the clock this often, and lets others run.
pub(crate) const TICK: Duration = Duration::from_millis(5);
const WASM_STACK: usize = 1 << 20;
/// Bytes of an instance's memory that are reset in place instead of being given back to the kernel.
const KEEP_RESIDENT: usize = 4 << 20;
/// Interpreters packed into a component need 20 to 32 core instances.
pub(crate) const MAX_CORE_INSTANCES: u32 = 64;
pub(crate) const MAX_MEMORIES: u32 = 8;
pub(crate) const MAX_TABLES: u32 = 32;
pub(crate) const MAX_TABLE_ELEMENTS: usize = 100_000;

/// Where instances come from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Allocation {
    /// A pool for this many live calls, each with at most so many bytes of memory.
    Pool { max_live: u32, memory_bytes: u64 },
    /// Made when needed: for the compile process, whose address space is limited.
    OnDemand,
}

/// An engine, and what of the wished setting could not be had.
pub(crate) fn engine(allocation: Allocation) -> wasmtime::Result<(Engine, Vec<String>)> {
    let Allocation::Pool { max_live, memory_bytes } = allocation else {
        return Ok((Engine::new(&config())?, Vec::new()));
    };
    let mut pooled = config();
    pooled.allocation_strategy(InstanceAllocationStrategy::Pooling(pool(max_live, memory_bytes)));
    let mut warnings = Vec::new();
    if !PoolingAllocationConfig::is_pagemap_scan_available() {
        warnings.push("the kernel has no page-map scan: fresh instances cost more".to_owned());
    }
    match Engine::new(&pooled) {
        Ok(engine) => Ok((engine, warnings)),
        Err(error) => {
            warnings.push(format!("no instance pool, instances are made on demand: {error:#}"));
            Ok((Engine::new(&config())?, warnings))
        }
    }
}

/// What decides whether a compiled artifact fits. Must not depend on the allocation: the process that
/// compiles has no pool and the one that runs has.
fn config() -> Config {
    let mut config = Config::new();
    config
        .wasm_component_model(true)
        .concurrency_support(false)
        .wasm_relaxed_simd(false)
        .wasm_memory64(false)
        // The engine is built without a collector; instructions that need no heap would be accepted all the same.
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
    // Without the scan, resetting in place touches all kept pages: slower than giving them back.
    if PoolingAllocationConfig::is_pagemap_scan_available() {
        pool.pagemap_scan(Enabled::Auto)
            .linear_memory_keep_resident(KEEP_RESIDENT)
            .table_keep_resident(1 << 16);
    }
    pool
}

/// A thread that moves the engine's epoch on while guests run, and sleeps otherwise.
pub(crate) struct Ticker {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// Counters of running guests: one for each of a few groups of threads, so that threads which only
/// start and end calls do not fight over one.
const N_COUNTERS: usize = 8;

/// On a cache line of its own.
#[derive(Default)]
#[repr(align(128))]
struct Counter(AtomicUsize);

#[derive(Default)]
struct Shared {
    n_running: [Counter; N_COUNTERS],
    /// The thread sleeps until it is woken.
    is_parked: AtomicBool,
    stop: AtomicBool,
}

impl Shared {
    fn is_idle(&self) -> bool {
        let mut counters = self.n_running.iter();
        counters.all(|counter| counter.0.load(Ordering::SeqCst) == 0)
    }

    /// Parks unless a guest runs. Who starts one counts first and then looks whether to wake; here it is
    /// the other way round, so one of the two sees the other.
    fn park_while_idle(&self) {
        self.is_parked.store(true, Ordering::SeqCst);
        while self.is_idle() && !self.stop.load(Ordering::SeqCst) {
            thread::park();
        }
        self.is_parked.store(false, Ordering::SeqCst);
    }
}

impl Ticker {
    /// At each tick the memory of the process is looked at, too.
    pub(crate) fn start(engine: &Engine, pressure: Arc<Pressure>) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let (state, engine) = (Arc::clone(&shared), engine.weak());
        let thread = thread::Builder::new().name("epoch".into()).spawn(move || {
            let mut is_pressed = false;
            while !state.stop.load(Ordering::SeqCst) {
                if !is_pressed && state.is_idle() {
                    state.park_while_idle();
                    continue;
                }
                thread::sleep(TICK);
                let Some(engine) = engine.upgrade() else {
                    return;
                };
                engine.increment_epoch();
                is_pressed = pressure.look();
            }
        })?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Ticks come while the answer is alive.
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

/// One guest that runs now and needs ticks.
pub(crate) struct Running<'t>(&'t AtomicUsize);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Release);
    }
}
