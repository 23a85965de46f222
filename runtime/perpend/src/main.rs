//! The `perpend` program: the server's commands, the plug-ins that come with it, and its allocator.

use std::process::ExitCode;

#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    perpend_server::commands::main(perpend_plugins_bundle::BUNDLE)
}
