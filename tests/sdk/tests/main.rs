//! Clients as their users have them, against servers of ours: each module is a client or a subject.

mod exports;
mod fuzzer;
mod javascript;
mod local_model;
mod python;

use libtest_mimic::Arguments;

fn main() {
    let of_each =
        [python::all(), fuzzer::all(), exports::all(), local_model::all(), javascript::all()];
    libtest_mimic::run(&Arguments::from_args(), of_each.into_iter().flatten().collect()).exit();
}
