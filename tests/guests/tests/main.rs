//! Plug-ins in every language, each built as its author builds it. Each module is a language or a subject.
//!
//! One program: what several of them need is built once.

mod autoevals_js;
mod c;
mod go;
mod javascript;
mod javascript_source;
mod judge;
mod python;
mod replay;
mod rust;
mod server;

use std::process::ExitCode;

fn main() -> ExitCode {
    // Workers of the replay are this program.
    match std::env::args().nth(1).as_deref() {
        Some("worker") => return perpend_sandbox::worker_main(),
        Some("compile") => return perpend_sandbox::compile_main(),
        Some("check") => return perpend_sandbox::check_main(),
        _ => {}
    }
    // The longest first.
    let of_each = [
        replay::all(),
        server::all(),
        python::all(),
        javascript::all(),
        go::all(),
        rust::all(),
        c::all(),
        javascript_source::all(),
        judge::all(),
        autoevals_js::all(),
    ];
    perpend_tests_guests::run(of_each.into_iter().flatten().collect())
}
