//! Log output: standard error, as text on a terminal and as JSON otherwise; and the export of spans.

use std::io::IsTerminal as _;

use perpend_config::{Config, LogFormat};
use tokio::runtime::Handle;
use tracing_subscriber::filter::{EnvFilter, FilterExt as _, LevelFilter, filter_fn};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Layer, Registry};

use crate::span_export::SpanExport;

/// Installs the output of log lines and, if it is configured, the export of spans, which runs on `runtime`.
pub(super) fn start(config: &Config, runtime: &Handle) -> anyhow::Result<Option<SpanExport>> {
    let is_terminal = std::io::stderr().is_terminal();
    let is_json = match config.log_format {
        LogFormat::Auto => !is_terminal,
        LogFormat::Text => false,
        LogFormat::Json => true,
    };
    let lines = tracing_subscriber::fmt::layer()
        // A line that cannot be written, for example on a full disk, is lost. Reporting the error would write to the same file and
        // panic.
        .log_internal_errors(false)
        .with_writer(std::io::stderr);
    let lines: Box<dyn Layer<Registry> + Send + Sync> = if is_json {
        lines.json().flatten_event(true).boxed()
    } else {
        lines.with_ansi(is_terminal).with_target(false).boxed()
    };
    // Spans are for the export only.
    let is_event = filter_fn(|metadata| metadata.is_event());
    let is_event = is_event.with_max_level_hint(LevelFilter::TRACE);
    let filter = EnvFilter::try_new(&config.log_level)?.and(is_event);
    let export = SpanExport::new(&config.tracing, runtime)?;
    let mut layers = vec![lines.with_filter(filter).boxed()];
    layers.extend(export.as_ref().map(SpanExport::layer));
    tracing_subscriber::registry().with(layers).init();
    Ok(export)
}
