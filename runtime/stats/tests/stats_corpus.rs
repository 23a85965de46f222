//! The vectors of `tests/corpus/stats`: every file there must be known here, every case must hold.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a broken corpus stops the test")]

use std::collections::BTreeSet;
use std::path;

use perpend_stats::agreement::{Confusion, Weights};
use perpend_stats::krippendorff::{self, Scale};
use perpend_stats::multiple::{self, Correction};
use perpend_stats::reducers::{self, Reducer};
use perpend_stats::{
    Clusters, Interval, bootstrap, correlation, drift, paired, proportion, summary,
};
use serde_json::{Value, json};

/// Makes of a case what its `want` describes.
type Compute = fn(&Value) -> Value;

const FILES: [(&str, Compute); 10] = [
    ("agreement", agreement),
    ("bootstrap", bootstrapped),
    ("correlation", correlated),
    ("drift", drifted),
    ("krippendorff", krippendorffs),
    ("multiple", multiples),
    ("paired", compared),
    ("proportion", proportions),
    ("reducers", reduced),
    ("summary", summarized),
];

#[test]
fn stats_corpus() {
    let folder = path::absolute("../../tests/corpus/stats").unwrap();
    let found: BTreeSet<String> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .map(|path| path.file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    assert_eq!(found, FILES.map(|(name, _)| name.to_owned()).into());

    let mut wrong = Vec::new();
    for (name, computed) in FILES {
        let text = std::fs::read_to_string(folder.join(name).with_extension("json")).unwrap();
        let file: Value = serde_json::from_str(&text).unwrap();
        let tolerance = file["tolerance"].as_f64().unwrap();
        let cases = file["cases"].as_array().unwrap();
        assert!(!cases.is_empty(), "{name} has no cases");
        for case in cases {
            let got = computed(case);
            if !holds(&case["want"], &got, tolerance) {
                wrong.push(format!("{}: want {} got {got}", case["id"], case["want"]));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// All that is wanted is there; numbers within the tolerance.
fn holds(want: &Value, got: &Value, tolerance: f64) -> bool {
    match (want, got) {
        (Value::Number(want), Value::Number(got)) => {
            (want.as_f64().unwrap() - got.as_f64().unwrap()).abs() <= tolerance
        }
        (Value::Array(want), Value::Array(got)) => {
            want.len() == got.len()
                && want.iter().zip(got).all(|(want, got)| holds(want, got, tolerance))
        }
        (Value::Object(want), Value::Object(got)) => want
            .iter()
            .all(|(name, want)| got.get(name).is_some_and(|got| holds(want, got, tolerance))),
        _ => want == got,
    }
}

fn numbers(value: &Value) -> Vec<f64> {
    let list = value.as_array().unwrap().iter();
    list.map(|number| number.as_f64().unwrap()).collect()
}

fn texts(value: &Value) -> Vec<&str> {
    let list = value.as_array().unwrap().iter();
    list.map(|text| text.as_str().unwrap()).collect()
}

fn clusters(case: &Value) -> Option<Clusters> {
    let keys = case.get("clusters")?;
    Some(Clusters::by_key(texts(keys)))
}

fn ends(interval: Option<Interval>) -> Value {
    interval.map_or(Value::Null, |interval| json!([interval.lower, interval.upper]))
}

fn agreement(case: &Value) -> Value {
    let labels = texts(&case["labels"]);
    let confusion = Confusion::count(&texts(&case["a"]), &texts(&case["b"]), &labels).unwrap();
    let of_labels = confusion.labels();
    let each = |part: fn(&perpend_stats::agreement::LabelQuality) -> f64| -> Vec<f64> {
        of_labels.iter().map(part).collect()
    };
    json!({
        "n": confusion.n(),
        "agreement": confusion.agreement(),
        "accuracy": confusion.agreement(),
        "kappa": confusion.kappa(Weights::Equal),
        "kappa_linear": confusion.kappa(Weights::Linear),
        "kappa_quadratic": confusion.kappa(Weights::Quadratic),
        "confusion": confusion.counts(),
        "labels": labels,
        "precision": each(|label| label.precision),
        "recall": each(|label| label.recall),
        "f1": each(|label| label.f1),
        "macro_f1": confusion.macro_f1(),
        "mcc": confusion.matthews(),
        "balanced_accuracy": confusion.balanced_accuracy(),
        "gwet_ac1": confusion.gwet_ac1(),
        "scott_pi": confusion.scott_pi(),
    })
}

fn bootstrapped(case: &Value) -> Value {
    let params = &case["params"];
    let options = bootstrap::Options {
        seed: params["seed"].as_u64().unwrap(),
        resamples: params["resamples"].as_u64().unwrap() as usize,
        level: params["level"].as_f64().unwrap_or(0.95),
    };
    let found =
        bootstrap::mean(&numbers(&case["values"]), clusters(case).as_ref(), options).unwrap();
    assert_eq!(found.n_undefined, 0);
    json!({
        "lower": found.interval.lower,
        "upper": found.interval.upper,
        "boot_sd": found.sd,
    })
}

fn correlated(case: &Value) -> Value {
    let found = correlation::correlate(&numbers(&case["a"]), &numbers(&case["b"])).unwrap();
    json!({
        "pearson": found.pearson,
        "spearman": found.spearman,
        "kendall_tau_b": found.kendall_tau_b,
        "mae": found.mae,
        "rmse": found.rmse,
        "bias": found.bias,
    })
}

fn drifted(case: &Value) -> Value {
    let part = |name: &str| numbers(&case[name]);
    let found = drift::drift(&part("reference"), &part("current"), &part("bins")).unwrap();
    json!({
        "ks": found.ks,
        "psi": found.psi,
        "js_divergence_bits": found.js_divergence_bits,
        "mean_shift": found.mean_shift,
        "welch_t": found.welch.map(|welch| welch.t),
        "welch_p": found.welch.map(|welch| welch.p),
    })
}

fn krippendorffs(case: &Value) -> Value {
    let raters = case["ratings"].as_array().unwrap().iter();
    let ratings: Vec<Vec<Option<f64>>> =
        raters.map(|rater| rater.as_array().unwrap().iter().map(Value::as_f64).collect()).collect();
    let alpha = |scale| krippendorff::alpha(&ratings, scale).unwrap();
    json!({
        "nominal": alpha(Scale::Nominal),
        "ordinal": alpha(Scale::Ordinal),
        "interval": alpha(Scale::Interval),
        "fleiss_kappa": krippendorff::fleiss_kappa(&ratings).unwrap(),
    })
}

fn multiples(case: &Value) -> Value {
    let alpha = case["alpha"].as_f64().unwrap_or(0.05);
    let adjusted = |correction| {
        let adjusted = multiple::adjust(&numbers(&case["p"]), correction).unwrap();
        let reject: Vec<bool> = adjusted.iter().map(|p| *p <= alpha).collect();
        json!({ "adjusted": adjusted, "reject": reject })
    };
    json!({
        "bonferroni": adjusted(Correction::Bonferroni),
        "holm": adjusted(Correction::Holm),
        "bh": adjusted(Correction::BenjaminiHochberg),
    })
}

fn compared(case: &Value) -> Value {
    let options = paired::Options { level: 0.95, seed: 1, flips: 10_000 };
    let found = paired::compare(
        &numbers(&case["a"]),
        &numbers(&case["b"]),
        clusters(case).as_ref(),
        options,
    )
    .unwrap();
    json!({
        "n": found.n,
        "mean_diff": found.mean_difference,
        "sd": found.sd,
        "stderr": found.stderr,
        "ci95": ends(found.interval),
        "clustered_stderr": found.clustered.map(|clustered| clustered.stderr),
        "dz": found.dz,
        "t": found.t.map(|t| t.t),
        "t_p": found.t.map(|t| t.p),
        "wins": found.wins,
        "losses": found.losses,
        "ties": found.ties,
        "sign_p": found.sign_p,
        "perm_p": found.permutation_p,
        "wilcoxon_w": found.wilcoxon.map(|wilcoxon| wilcoxon.w),
        "wilcoxon_approx_p": found.wilcoxon.map(|wilcoxon| wilcoxon.p),
        "b01": found.mcnemar.map(|mcnemar| mcnemar.only_candidate),
        "b10": found.mcnemar.map(|mcnemar| mcnemar.only_reference),
        "mcnemar_exact_p": found.mcnemar.map(|mcnemar| mcnemar.exact_p),
        "mcnemar_chi2_p": found.mcnemar.and_then(|mcnemar| mcnemar.chi_squared_p),
    })
}

fn proportions(case: &Value) -> Value {
    let (k, n) = (case["k"].as_u64().unwrap(), case["n"].as_u64().unwrap());
    json!({
        "wilson": ends(proportion::wilson(k, n, 0.95).ok()),
        "clopper_pearson": ends(proportion::clopper_pearson(k, n, 0.95).ok()),
    })
}

fn reduced(case: &Value) -> Value {
    let params = &case["params"];
    let k = params["k"].as_u64().unwrap_or_default() as usize;
    let value = params["value"].as_f64().unwrap_or(1.0);
    let reducer = match params["reducer"].as_str().unwrap() {
        "mean" => Reducer::Mean,
        "median" => Reducer::Median,
        "mode" => Reducer::Mode,
        "max" => Reducer::Max,
        "at_least" => Reducer::AtLeast { k, value },
        "pass_at" => Reducer::PassAt { k, value },
        "pass_k" => Reducer::PassK { k, value },
        other => panic!("unknown reducer {other}"),
    };
    json!({ "value": reducers::reduce(&numbers(&case["values"]), reducer).unwrap() })
}

fn summarized(case: &Value) -> Value {
    let values = numbers(&case["values"]);
    let found = summary::summarize(&values, clusters(case).as_ref(), 0.95).unwrap();
    let clustered = found.clustered;
    json!({
        "n": found.n,
        "mean": found.mean,
        "sd": found.sd,
        "stderr": found.stderr,
        "min": found.min,
        "max": found.max,
        "median": found.median,
        "p25": found.p25,
        "p75": found.p75,
        "p95": found.p95,
        "ci95": ends(found.interval),
        "clusters": clustered.map(|clustered| clustered.n_clusters),
        "clustered_stderr": clustered.map(|clustered| clustered.stderr),
        "clustered_ci95": ends(clustered.and_then(|clustered| clustered.interval)),
    })
}
