//! The OTLP/HTTP paths (otlp.md 1).
//!
//! Invariants:
//! - **200 means durable.** The response is sent after the commit of the store.
//! - **Memory is bounded.** The size of a body is limited, compressed and decoded, and all bodies share a budget
//!   (`perpend_http_kit::admission`); a body beyond the budget gets 503 and is not stored.
//! - **The reactor is not blocked.** Decompressing, decoding, mapping and packing happen on threads of
//!   their own, with a lower priority than all others.
//! - **The response has the encoding of the request**, errors included.
//!
//! Deliberately absent: any wait for an evaluator. The scheduler is only notified.

mod batch;
mod decoders;
mod decompress;
mod headers;
mod openapi;
mod state;

use axum::Router;
use axum::extract::{Request, State};
use axum::response::Response;
use perpend_domain::ids::ProjectId;
use perpend_domain::pricing::PriceTable;
use perpend_http_kit::admission::{self, ChargedBody};
use perpend_http_kit::auth::Act;
use perpend_http_kit::otlp::{self, PATHS, Reply, Signal};
use perpend_http_kit::problem::{Code, Problem};
use perpend_http_kit::routes::{ApiDescription, Routes};
use perpend_otlp::respond::{self, ExportResponse};
use perpend_otlp::{Context, Encoding};
use perpend_telemetry::PreparedBatch;
use tracing::field::Empty;
use tracing::{Instrument as _, Span};

use batch::ChargedBatch;
use headers::Sender;

pub use decoders::Decoders;
pub use openapi::paths;

pub use state::{App, NewApp};

/// The OTLP paths and their descriptions.
pub fn routes() -> (Router<App>, ApiDescription) {
    let mut routes = Routes::default();
    for (path, signal) in PATHS {
        let signal = *signal;
        routes.otlp(path, move |State(app): State<App>, caller: Act, request: Request| {
            receive(app, caller, signal, request)
        });
    }
    routes.into_parts()
}

async fn receive(app: App, caller: Act, signal: Signal, request: Request) -> Response {
    // Errors before the media type is known are JSON.
    let encoding = otlp::encoding(request.headers());
    let reply = Reply::new(encoding.as_ref().copied().unwrap_or(Encoding::Json), request.headers());
    let outcome = match encoding {
        Ok(encoding) => {
            let span = tracing::info_span!(
                "ingest",
                perpend.ingest.signal = label(signal),
                perpend.ingest.bytes = Empty,
                perpend.ingest.observations = Empty,
            );
            take(app, caller, signal, encoding, request).instrument(span).await
        }
        Err(problem) => Err(problem),
    };
    let signal = label(signal);
    metrics::counter!("perpend_ingest_requests_total", "signal" => signal).increment(1);
    match outcome {
        Ok(bytes) => reply.success(bytes),
        Err(problem) => {
            let reason = problem.code().as_str();
            let rejected = metrics::counter!(
                "perpend_ingest_rejected_total", "signal" => signal, "reason" => reason
            );
            rejected.increment(1);
            reply.problem(&problem)
        }
    }
}

/// The name of a signal in metrics.
fn label(signal: Signal) -> &'static str {
    match signal {
        Signal::Traces => "traces",
        Signal::Logs => "logs",
        Signal::Metrics => "metrics",
    }
}

/// Stores the data of a request and returns the bytes of a successful response.
async fn take(
    app: App,
    caller: Act,
    signal: Signal,
    encoding: Encoding,
    request: Request,
) -> Result<Vec<u8>, Problem> {
    let sender = Sender::read(request.headers())?;
    let compression = headers::compression(request.headers())?;
    let limits = &app.web.config.ingest;
    let wire = admission::read_encoded(&app.web, request, limits.max_body_bytes).await?;
    let n_bytes = metrics::counter!("perpend_ingest_bytes_total", "signal" => label(signal));
    n_bytes.increment(wire.bytes.len() as u64);
    Span::current().record("perpend.ingest.bytes", wire.bytes.len() as i64);

    let account = wire.account.clone();
    let now = app.web.clock.now();
    let context = Context {
        arrived_at: now,
        sdk_name: sender.sdk_name,
        sdk_version: sender.sdk_version,
        limits: limits.span.clone(),
        is_own_telemetry: false,
    };
    let max_bytes = limits.max_body_bytes;
    let prices = app.prices.of(&app.store.catalog, &caller.project, now).await?;
    let work = move || {
        let decoded = decompress::decompress(wire, compression, max_bytes)?;
        translate(signal, &decoded, encoding, &context, &prices)
    };
    let (prepared, answer) = app.decoders.run(work).await?;

    if let Some(mut batch) = prepared {
        drop_own_traces(&app, &caller.project, &mut batch).await?;
        let n_observations = batch.n_observations();
        app.store.telemetry.write_prepared(&caller.project, batch, now, account).await?;
        app.scheduler.wake();
        Span::current().record("perpend.ingest.observations", n_observations as i64);
        metrics::counter!("perpend_ingest_spans_total").increment(n_observations as u64);
        tracing::debug!(project.id = %caller.project, "batch stored");
    }
    Ok(answer)
}

/// Drops spans of the traces of executions. Only the server writes those: a gateway that exports its spans of the call of
/// a judge must not add to them.
async fn drop_own_traces(
    app: &App,
    project: &ProjectId,
    batch: &mut PreparedBatch,
) -> Result<(), Problem> {
    let ledger = &app.store.ledger;
    let own = ledger.executions_among(project, batch.trace_ids()).await?;
    if !own.is_empty() {
        let n = batch.remove_traces(&own);
        tracing::info!(project.id = %project, n, "spans of traces of executions were dropped");
    }
    Ok(())
}

/// Converts a body to stored rows and the response. CPU only.
fn translate(
    signal: Signal,
    body: &ChargedBody,
    encoding: Encoding,
    context: &Context,
    prices: &PriceTable,
) -> Result<(Option<PreparedBatch>, Vec<u8>), Problem> {
    let mut batch = ChargedBatch::new(body, prices);
    let bytes = &body.bytes;
    let read = match signal {
        Signal::Traces => {
            perpend_otlp::read_traces(bytes, encoding, context, &mut batch).map(|report| {
                let rejected = metrics::counter!("perpend_ingest_rejected_spans_total");
                rejected.increment(report.n_rejected as u64);
                respond::export_response(&report, encoding)
            })
        }
        Signal::Logs => perpend_otlp::read_logs(bytes, encoding, context, &mut batch)
            .map(|()| ExportResponse::Accepted(respond::success(encoding))),
        Signal::Metrics => perpend_otlp::check_metrics(bytes, encoding)
            .map(|()| ExportResponse::Accepted(respond::success(encoding))),
    };
    match read {
        Err(error) => Err(batch.problem(&error)),
        Ok(ExportResponse::AllRejected(message)) => Err(Problem::new(Code::InvalidBody, message)),
        Ok(ExportResponse::Accepted(answer)) if batch.preparing.is_empty() => Ok((None, answer)),
        Ok(ExportResponse::Accepted(answer)) => Ok((Some(batch.preparing.finish()?), answer)),
    }
}
