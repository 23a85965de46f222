//! The `perpend` program: the server's commands, the plug-ins that come with it, and its allocator.

use std::process::ExitCode;

#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Commands that lock themselves in, and count their threads before.
#[cfg(feature = "jemalloc")]
const CONFINED: [&str; 3] = ["worker", "compile", "check"];

/// Gives freed memory back while nothing is allocated, too: after a peak a server may have nothing to do for hours.
#[cfg(feature = "jemalloc")]
fn give_memory_back() {
    let command = std::env::args_os().nth(1);
    if !CONFINED.iter().any(|name| command.as_deref() == Some((*name).as_ref())) {
        // Without it memory is given back with later allocations.
        let _ = tikv_jemalloc_ctl::background_thread::write(true);
    }
}

fn main() -> ExitCode {
    #[cfg(feature = "jemalloc")]
    give_memory_back();
    perpend_server::commands::main(perpend_plugins_bundle::BUNDLE)
}
