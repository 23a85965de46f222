//! 500 random tables of `tests/corpus/stats-tables` with the results of scipy and statsmodels.

#![expect(clippy::unwrap_used, reason = "a broken corpus stops the test")]

use perpend_stats::fisher::{self, Successes};
use perpend_stats::multiple::{self, Correction};
use perpend_stats::{paired, welch};
use serde_json::Value;

/// Number of tables of each kind.
const PER_KIND: usize = 100;
const TOLERANCE: f64 = 1e-9;

fn tables(kind: &str) -> Vec<Value> {
    let path = std::path::absolute("../../tests/corpus/stats-tables/tables.json").unwrap();
    let file: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let tables = file[kind].as_array().unwrap().clone();
    assert_eq!(tables.len(), PER_KIND, "{kind}");
    tables
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
}

/// Equal up to the tolerance, relative for numbers above 1.
#[track_caller]
fn equal(found: f64, expected: &Value, table: &Value) {
    let expected = expected.as_f64().unwrap();
    let most = TOLERANCE * expected.abs().max(1.0);
    assert!((found - expected).abs() <= most, "{found} instead of {expected}: {table}");
}

fn compared(table: &Value) -> paired::Comparison {
    let options = paired::Options { level: 0.95, seed: 1, flips: 1 };
    paired::compare(&numbers(&table["base"]), &numbers(&table["run"]), None, options).unwrap()
}

#[test]
fn mcnemar_is_that_of_statsmodels() {
    for table in tables("mcnemar") {
        let cell = |row: usize, column: usize| table["table"][row][column].as_u64().unwrap();
        let mut base = Vec::new();
        let mut run = Vec::new();
        for (n, before, after) in [
            (cell(0, 0), 1.0, 1.0),
            (cell(0, 1), 1.0, 0.0),
            (cell(1, 0), 0.0, 1.0),
            (cell(1, 1), 0.0, 0.0),
        ] {
            for _ in 0..n {
                base.push(before);
                run.push(after);
            }
        }
        let options = paired::Options { level: 0.95, seed: 1, flips: 1 };
        let found = paired::compare(&base, &run, None, options).unwrap().mcnemar.unwrap();
        equal(found.exact_p, &table["exact"], &table);
        equal(found.chi_squared_p.unwrap(), &table["chi2"], &table);
    }
}

#[test]
fn fisher_is_that_of_scipy() {
    for table in tables("fisher") {
        let list = |row: usize| {
            let cell = |column: usize| table["table"][row][column].as_u64().unwrap();
            Successes { k: cell(0), n: cell(0) + cell(1) }
        };
        let found = fisher::compare(list(0), list(1), 0.95).unwrap();
        equal(found.p, &table["p"], &table);
    }
}

#[test]
fn wilcoxon_is_that_of_scipy() {
    for table in tables("wilcoxon") {
        let found = compared(&table).wilcoxon.unwrap();
        equal(found.w, &table["w"], &table);
        equal(found.p, &table["p"], &table);
    }
}

#[test]
fn t_tests_and_their_intervals_are_those_of_scipy() {
    for table in tables("t") {
        let found = compared(&table);
        equal(found.t.unwrap().t, &table["t"], &table);
        equal(found.t.unwrap().p, &table["p"], &table);
        equal(found.interval.unwrap().lower, &table["interval"][0], &table);
        equal(found.interval.unwrap().upper, &table["interval"][1], &table);
        let (base, run) = (numbers(&table["base"]), numbers(&table["run"]));
        let found = welch::compare(&base, &run, 0.95).unwrap().unwrap();
        equal(found.t.t, &table["welch_t"], &table);
        equal(found.t.p, &table["welch_p"], &table);
        equal(found.interval.lower, &table["welch_interval"][0], &table);
        equal(found.interval.upper, &table["welch_interval"][1], &table);
    }
}

#[test]
fn adjusted_p_values_are_those_of_statsmodels() {
    for table in tables("multiple") {
        let p = numbers(&table["p"]);
        for (name, correction) in
            [("holm", Correction::Holm), ("bh", Correction::BenjaminiHochberg)]
        {
            let found = multiple::adjust(&p, correction).unwrap();
            for (found, expected) in found.iter().zip(table[name].as_array().unwrap()) {
                equal(*found, expected, &table);
            }
        }
    }
}
