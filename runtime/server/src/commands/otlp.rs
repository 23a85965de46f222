//! `perpend otlp show`: prints the traces in an OTLP payload.

use std::io::{IsTerminal as _, Write as _};
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use perpend_domain::batch::Batch;
use perpend_domain::fold::fold;
use perpend_domain::ids::TraceId;
use perpend_domain::observation::Observation;
use perpend_domain::pricing::PriceTable;
use perpend_domain::time::Clock as _;
use perpend_otlp::{Encoding, show as render};

use crate::SystemClock;

pub(super) fn show(file: &Path, as_json: bool) -> anyhow::Result<ExitCode> {
    let bytes = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    let encoding = match file.extension().is_some_and(|end| end.eq_ignore_ascii_case("json")) {
        true => Encoding::Json,
        false => Encoding::Protobuf,
    };
    let context =
        perpend_otlp::Context { arrived_at: SystemClock.now(), ..perpend_otlp::Context::default() };
    let mut batch = Batch::default();
    let outcome = perpend_otlp::read_traces(&bytes, encoding, &context, &mut batch)?;
    let prices = PriceTable::built_in();
    let mut observations = batch.observations;
    for observation in &mut observations {
        prices.apply(observation);
    }
    let mut ids: Vec<&TraceId> =
        observations.iter().map(|observation| &observation.trace_id).collect();
    ids.sort();
    ids.dedup();
    let of = |id: &TraceId| -> Vec<Observation> {
        observations.iter().filter(|observation| observation.trace_id == *id).cloned().collect()
    };
    let traces: Vec<_> = ids.into_iter().filter_map(|id| fold(&of(id))).collect();

    let mut out = std::io::stdout().lock();
    if as_json {
        writeln!(out, "{:#}", render::json(&observations, &traces))?;
    } else {
        write!(out, "{}", render::tree(&observations, &traces, out.is_terminal()))?;
    }
    let mut errors = std::io::stderr();
    if outcome.n_rejected > 0 {
        writeln!(errors, "{} spans were rejected, for example:", outcome.n_rejected)?;
    }
    for rejection in &outcome.rejections {
        writeln!(errors, "rejected: {} ({})", rejection.text, rejection.scope)?;
    }
    for change in &outcome.changes {
        writeln!(errors, "changed: {} ({})", change.text, change.scope)?;
    }
    if outcome.n_accepted + outcome.n_rejected == 0 {
        let hint = outcome.hint.unwrap_or("the request contains no spans");
        writeln!(errors, "{hint}")?;
    }
    Ok(match outcome.n_rejected {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}
