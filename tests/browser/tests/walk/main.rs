//! Guarantees of the pages in a real browser: each module tests one kind.

mod accessible;
mod around;
mod changes;
mod compare;
mod connections;
mod content;
mod data;
mod datasets;
mod evaluators;
mod experiments;
mod keyboard;
mod large;
mod lists;
mod pages;
mod paper;
mod plain;
mod rules;
mod steps;
mod visit;

use std::process::ExitCode;

use perpend_browser::Shared;

fn main() -> anyhow::Result<ExitCode> {
    let shared = Shared::new()?;
    // Longest first, so that the last ones to end are short.
    let of_each = [
        accessible::all(&shared),
        keyboard::all(&shared),
        large::all(&shared),
        visit::all(&shared),
        plain::all(&shared),
        lists::all(&shared),
        around::all(&shared),
        steps::all(&shared),
        compare::all(&shared),
        experiments::all(&shared),
        connections::all(&shared),
        content::all(&shared),
        changes::all(&shared),
        datasets::all(&shared),
        rules::all(&shared),
        evaluators::all(&shared),
        paper::all(&shared),
    ];
    let tests = of_each.into_iter().flatten().collect();
    Ok(shared.run(tests)?.exit_code())
}
