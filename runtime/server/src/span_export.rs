//! Export of the spans of this process over OTLP.
//!
//! Invariants:
//! - **Off by default.** Without the setting `tracing.otlp_endpoint` no span is recorded.
//! - **Nothing waits for the collector.** Spans go into a bounded queue, which a thread of its own empties; when the queue is
//!   full, spans are dropped. Only the shutdown waits, for at most [`FLUSH_TIMEOUT`].
//! - **No contents.** Spans have routes, statuses, counts and other names in this code; log lines are not exported.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use opentelemetry::KeyValue;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{Sampler, SdkTracerProvider};
use perpend_config::Tracing;
use perpend_http_client::OutboundClient;
use tokio::runtime::Handle;
use tracing_subscriber::filter::{LevelFilter, filter_fn};
use tracing_subscriber::{Layer, Registry};

/// Longest time of one request to the collector.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest wait for the last export at shutdown.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);

/// Records spans until [`SpanExport::finish`].
#[derive(Debug)]
pub(crate) struct SpanExport(SdkTracerProvider);

impl SpanExport {
    /// Prepares the export; `None` if it is off. Requests run on `runtime`.
    pub(crate) fn new(settings: &Tracing, runtime: &Handle) -> anyhow::Result<Option<Self>> {
        let Some(endpoint) = &settings.otlp_endpoint else {
            return Ok(None);
        };
        let collector = Collector {
            // The operator chose the address, so it may be private.
            outbound: OutboundClient::new(&["0.0.0.0/0".to_owned(), "::/0".to_owned()]),
            runtime: runtime.clone(),
            is_failing: AtomicBool::new(false),
        };
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(collector)
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(endpoint)
            .with_timeout(EXPORT_TIMEOUT)
            .with_headers(settings.otlp_headers.iter().cloned().collect())
            .build()
            .context("invalid setting tracing.otlp_endpoint")?;
        let sampler = Sampler::TraceIdRatioBased(settings.sampling_ratio);
        let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
        let resource = Resource::builder().with_service_name("perpend").with_attribute(version);
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(exporter)
            .with_sampler(Sampler::ParentBased(Box::new(sampler)))
            .with_resource(resource.build())
            .build();
        Ok(Some(Self(provider)))
    }

    /// The layer that records the spans of the crates of this repository.
    pub(crate) fn layer(&self) -> Box<dyn Layer<Registry> + Send + Sync> {
        let is_own =
            filter_fn(|metadata| metadata.is_span() && metadata.target().starts_with("perpend_"));
        tracing_opentelemetry::layer()
            .with_tracer(self.0.tracer("perpend"))
            .with_location(false)
            .with_threads(false)
            .with_target(false)
            .with_tracked_inactivity(false)
            .with_filter(is_own.with_max_level_hint(LevelFilter::INFO))
            .boxed()
    }

    /// Sends the spans that are in the queue.
    pub(crate) async fn finish(self) {
        let flush = move || self.0.shutdown_with_timeout(FLUSH_TIMEOUT);
        match tokio::task::spawn_blocking(flush).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                let error: &dyn std::error::Error = &error;
                tracing::warn!(error, "spans were not exported before the shutdown");
            }
            Err(_) => tracing::warn!("the export of spans panicked"),
        }
    }
}

/// Sends batches of spans. Logs the first failure after a success, and the first success after a failure.
#[derive(Debug)]
struct Collector {
    outbound: OutboundClient,
    runtime: Handle,
    is_failing: AtomicBool,
}

impl Collector {
    async fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let outbound = self.outbound.clone();
        // The thread of the exporter has no reactor.
        let sending =
            self.runtime.spawn(async move { outbound.send_within(EXPORT_TIMEOUT, request).await });
        let response = sending.await.map_err(HttpError::from)?.map_err(HttpError::from);
        let cause = match &response {
            Ok(response) if response.status().is_success() => None,
            Ok(response) => Some(format!("status {}", response.status().as_u16())),
            Err(error) => Some(error.to_string()),
        };
        let was_failing = self.is_failing.swap(cause.is_some(), Ordering::Relaxed);
        match cause {
            Some(cause) if !was_failing => {
                tracing::warn!(error = cause, "cannot export spans to tracing.otlp_endpoint");
            }
            None if was_failing => tracing::info!("spans are exported again"),
            _ => {}
        }
        response
    }
}

type Sending<'a> = Pin<Box<dyn Future<Output = Result<Response<Bytes>, HttpError>> + Send + 'a>>;

impl HttpClient for Collector {
    fn send_bytes<'s, 'a>(&'s self, request: Request<Bytes>) -> Sending<'a>
    where
        's: 'a,
        Self: 'a,
    {
        Box::pin(self.send(request))
    }
}
