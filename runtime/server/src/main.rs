//! The `assay` program.

use std::process::ExitCode;

fn main() -> ExitCode {
    assay_server::commands::main()
}
