//! The settings before any value is applied.

use std::time::Duration;

use crate::{
    Admin, Answers, Config, Confinement, Evaluation, Exports, Ingest, Init, Isolation, LogFormat,
    Metrics, RateLimits, Secrets, Tracing,
};

/// A tree to apply the built-in values to; each of its values is replaced by the table's.
pub(super) fn blank() -> Config {
    Config {
        listen: ([127, 0, 0, 1], 0).into(),
        public_url: None,
        max_connections: 0,
        trusted_proxies: Default::default(),
        shutdown_grace: Duration::ZERO,
        data_dir: Default::default(),
        plugin_cache: None,
        database_url: None,
        database_readers: 1,
        database_wait: Duration::ZERO,
        log_level: String::new(),
        log_format: LogFormat::Auto,
        ingest: Ingest {
            max_body_bytes: 0,
            max_in_flight_bytes: 0,
            max_key_share_percent: 0,
            read_timeout: Duration::ZERO,
            min_body_bytes_per_second: 0,
            body_deadline: Duration::ZERO,
            span: perpend_otlp::Limits::default(),
        },
        answers: Answers {
            max_in_flight_bytes: 0,
            timeout: Duration::ZERO,
            pause: Duration::ZERO,
            min_bytes_per_second: 0,
            deadline: Duration::ZERO,
        },
        api_max_body_bytes: 0,
        api_max_body_values: 0,
        limits: RateLimits::default(),
        evaluation: Evaluation {
            isolation: Isolation::Process,
            n_workers: 1,
            confinement: Confinement::BestEffort,
            worker_memory_bytes: 4 << 30,
            memory_bytes: 128 << 20,
            reply_lifetime_ms: 0,
            max_reply_bytes: 0,
        },
        exports: Exports::default(),
        secrets: Secrets::default(),
        admin: Admin::default(),
        metrics: Metrics::default(),
        tracing: Tracing::default(),
        init: Init::default(),
    }
}
