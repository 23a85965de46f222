//! The table of settings: the single source for file, environment, flags and reference page.

use std::time::Duration;

use crate::parse::{
    http_url, is_endpoint, name, number, public_key, request_headers, share, some_text, unquoted,
};
use crate::setting::Setting;
use crate::{Confinement, Isolation, LogFormat};

/// A limit on one span.
macro_rules! span_limit {
    ($key:literal, $default:literal, $field:ident, $unit:expr, $text:literal) => {
        Setting {
            key: $key,
            short: None,
            default: $default,
            since: "0.1",
            text: $text,
            set: |config, text| {
                config.ingest.span.$field = (number(text, 1, 1 << 30)? as usize) * $unit;
                Ok(())
            },
        }
    };
}

/// A limit on the requests of one key.
macro_rules! rate_limit {
    ($key:literal, $field:ident, $text:literal) => {
        Setting {
            key: $key,
            short: None,
            default: "0",
            since: "0.1",
            text: $text,
            set: |config, text| {
                config.limits.$field = number(text, 0, MAX_PER_MINUTE)? as u32;
                Ok(())
            },
        }
    };
}

/// Far above the capacity of one server.
const MAX_PER_MINUTE: u64 = 10_000_000;

/// Every setting, in the order of the reference page.
pub(super) const SETTINGS: &[Setting] = &[
    Setting {
        key: "server.listen",
        short: Some("listen"),
        default: "127.0.0.1:4717",
        since: "0.1",
        text: "Address and port to listen on. The built-in value is reachable from this machine only; \
               `0.0.0.0:4717` opens all interfaces. Port 0 takes a free one.",
        set: |config, text| {
            let wanted = "an IP address and a port, such as 127.0.0.1:4717 or [::1]:4717";
            config.listen = text.parse().map_err(|_| format!("{text:?} is not {wanted}"))?;
            Ok(())
        },
    },
    Setting {
        key: "server.public_url",
        short: Some("public-url"),
        default: "",
        since: "0.1",
        text: "URL under which browsers reach a server behind a proxy. Used in printed links and in links of responses, \
               such as upload links. Without it, responses use the `Host` header if that is an IP address, localhost \
               or a single label, otherwise the address of `server.listen`.",
        set: |config, text| {
            config.public_url = http_url(text)?.map(|url| url.trim_end_matches('/').to_owned());
            Ok(())
        },
    },
    Setting {
        key: "server.max_connections",
        short: None,
        default: "0",
        since: "0.1",
        text: "Maximum number of open connections. At the maximum, a new connection closes the one that has been \
               idle longest; if none is idle, it waits to be accepted. 0: as many as the limit of open files allows, \
               less a reserve for database, workers and files, at most 8192. The reserve applies to every value; \
               the server raises its soft limit of open files to the hard limit.",
        set: |config, text| {
            config.max_connections = number(text, 0, 1 << 20)? as usize;
            Ok(())
        },
    },
    Setting {
        key: "server.trusted_proxies",
        short: None,
        default: "",
        since: "0.1",
        text: "Addresses of trusted proxies, comma-separated, single or in CIDR notation such as `10.1.0.0/16`. Only \
               from these are `Forwarded` and `X-Forwarded-For` used: the client address is the rightmost address \
               that is not in the list. A proxy must write one of the two headers and remove or replace the other; \
               if they differ, the address of the proxy is used. Without this list every client behind a proxy has \
               the address of the proxy, in the log and in the count of wrong secrets. A list of all addresses is \
               rejected.",
        set: |config, text| {
            config.trusted_proxies = text.parse()?;
            Ok(())
        },
    },
    Setting {
        key: "server.shutdown_grace_seconds",
        short: None,
        default: "20",
        since: "0.1",
        text: "Time for running requests and evaluations to finish after SIGTERM or SIGINT.",
        set: |config, text| {
            config.shutdown_grace = Duration::from_secs(number(text, 0, 3_600)?);
            Ok(())
        },
    },
    Setting {
        key: "data.dir",
        short: Some("data-dir"),
        default: "perpend-data",
        since: "0.1",
        text: "Directory of this installation: the SQLite database and the cache of compiled plug-ins. \
               Created if missing.",
        set: |config, text| {
            if text.is_empty() {
                return Err("must be a directory, got an empty text".to_owned());
            }
            config.data_dir = text.into();
            Ok(())
        },
    },
    Setting {
        key: "data.plugin_cache",
        short: None,
        default: "",
        since: "0.1",
        text: "Directory of compiled plug-ins, writable by the server alone. When empty: `plugin-cache` \
               in the data directory.",
        set: |config, text| {
            config.plugin_cache = some_text(text).map(Into::into);
            Ok(())
        },
    },
    Setting {
        key: "database.url",
        short: Some("database-url"),
        default: "",
        since: "0.1",
        text: "`sqlite:PATH` or `postgres://user:password@host:port/name`. When empty: `perpend.db` in \
               the data directory.",
        set: |config, text| {
            config.database_url = match text {
                "" => None,
                // The text may hold a password: the message does not repeat it.
                _ => Some(text.parse().map_err(|error| format!("{error}"))?),
            };
            Ok(())
        },
    },
    Setting {
        key: "database.readers",
        short: None,
        default: "4",
        since: "0.1",
        text: "Connections for reading.",
        set: |config, text| {
            config.database_readers = number(text, 1, 256)? as u32;
            Ok(())
        },
    },
    Setting {
        key: "database.wait_seconds",
        short: None,
        default: "5",
        since: "0.1",
        text: "Maximum wait of a statement for a lock or a connection. After it the response is 503 \
               and the client may retry.",
        set: |config, text| {
            config.database_wait = Duration::from_secs(number(text, 1, 600)?);
            Ok(())
        },
    },
    Setting {
        key: "log.level",
        short: None,
        default: "info",
        since: "0.1",
        text: "`error`, `warn`, `info`, `debug` or `trace`, or a filter such as \
               `info,perpend_api::ingress=debug`.",
        set: |config, text| {
            let filter = tracing_subscriber::EnvFilter::try_new(text);
            filter.map_err(|error| format!("{text:?} is not a log filter: {error}"))?;
            if text.is_empty() {
                return Err("must be a level such as `info`, got an empty text".to_owned());
            }
            config.log_level = text.to_owned();
            Ok(())
        },
    },
    Setting {
        key: "log.format",
        short: None,
        default: "auto",
        since: "0.1",
        text: "`text`, `json`, or `auto`: text on a terminal, otherwise JSON.",
        set: |config, text| {
            config.log_format = match text {
                "auto" => LogFormat::Auto,
                "text" => LogFormat::Text,
                "json" => LogFormat::Json,
                _ => return Err(format!("must be one of `auto`, `text`, `json`; got {text:?}")),
            };
            Ok(())
        },
    },
    Setting {
        key: "ingest.max_body_mib",
        short: None,
        default: "64",
        since: "0.1",
        text: "Maximum size of an OTLP body, both on the wire and decoded. Above it the response is 413 and \
               clients drop the batch: a protection, not a quota.",
        set: |config, text| {
            config.ingest.max_body_bytes = (number(text, 1, 1_024)? as usize) << 20;
            Ok(())
        },
    },
    Setting {
        key: "ingest.max_in_flight_mib",
        short: None,
        default: "256",
        since: "0.1",
        text: "Memory for the bodies of all requests, encoded and decoded. Above it the response is 503 with \
               `Retry-After`. An eighth is reserved for requests that need at most 256 KiB, so that large requests \
               do not block them. A body is charged as its bytes arrive, not by its `Content-Length`.",
        set: |config, text| {
            config.ingest.max_in_flight_bytes = (number(text, 1, 65_536)? as usize) << 20;
            Ok(())
        },
    },
    Setting {
        key: "ingest.max_key_share_percent",
        short: None,
        default: "50",
        since: "0.1",
        text: "Share of `ingest.max_in_flight_mib` for the requests of one key. Above it, requests of this key get \
               503 with `Retry-After` and other keys are served. A single request may exceed the share, otherwise it \
               could never succeed.",
        set: |config, text| {
            config.ingest.max_key_share_percent = number(text, 1, 100)? as usize;
            Ok(())
        },
    },
    Setting {
        key: "ingest.read_timeout_seconds",
        short: None,
        default: "30",
        since: "0.1",
        text: "Maximum pause within a body, time for the head of a request, and idle time between two requests; \
               after it the connection is closed.",
        set: |config, text| {
            config.ingest.read_timeout = Duration::from_secs(number(text, 1, 600)?);
            Ok(())
        },
    },
    Setting {
        key: "ingest.min_body_kib_per_second",
        short: None,
        default: "16",
        since: "0.1",
        text: "Minimum rate of a request body. A client that falls behind it by more than \
               `ingest.read_timeout_seconds` gets 408, on the OTLP paths 503 with `Retry-After`, because OTLP \
               clients do not retry after 408. The built-in value is a tenth of the rate of a poor mobile \
               connection, and keeps slow clients from holding memory.",
        set: |config, text| {
            config.ingest.min_body_bytes_per_second = (number(text, 1, 1 << 20)? as u32) << 10;
            Ok(())
        },
    },
    Setting {
        key: "ingest.body_deadline_seconds",
        short: None,
        default: "900",
        since: "0.1",
        text: "Maximum time for a whole body. With the built-in value a media file of 100 MiB needs a megabit per \
               second. A body that takes longer is rejected like one that is too slow: with 408, or 503 on the OTLP \
               paths.",
        set: |config, text| {
            config.ingest.body_deadline = Duration::from_secs(number(text, 1, 86_400)?);
            Ok(())
        },
    },
    Setting {
        key: "ingest.max_spans",
        short: None,
        default: "32768",
        since: "0.1",
        text: "Maximum number of spans in one OTLP request; the same maximum applies to resources and scopes \
               together, and to log records of spans. Above it the response is 413 and nothing of the request is stored.",
        set: |config, text| {
            config.ingest.span.max_spans = number(text, 1, 1 << 30)? as usize;
            Ok(())
        },
    },
    Setting {
        key: "ingest.max_values",
        short: None,
        default: "100000",
        since: "0.1",
        text: "Maximum number of values in one span: attributes, the members of their lists and maps, and of JSON \
               that they hold as text. Further attributes are dropped and counted in the metadata, further JSON \
               text is stored as text.",
        set: |config, text| {
            config.ingest.span.max_values = number(text, 1, 10_000_000)? as usize;
            Ok(())
        },
    },
    span_limit!(
        "ingest.max_attributes",
        "2048",
        max_attributes,
        1,
        "Attributes of a span; further ones are dropped and counted in its metadata."
    ),
    span_limit!(
        "ingest.max_content_kib",
        "10240",
        max_content_bytes,
        1 << 10,
        "Input or output of an observation; longer text is truncated and its metadata records that."
    ),
    span_limit!(
        "ingest.max_metadata_value_kib",
        "64",
        max_metadata_value_bytes,
        1 << 10,
        "One metadata value; a longer one is truncated."
    ),
    span_limit!(
        "ingest.max_metadata_kib",
        "1024",
        max_metadata_bytes,
        1 << 10,
        "All metadata of an observation; above it the largest attributes are dropped first."
    ),
    span_limit!("ingest.max_name_chars", "1024", max_name_chars, 1, "Characters of a name."),
    span_limit!(
        "ingest.max_status_chars",
        "16384",
        max_status_chars,
        1,
        "Characters of a status message."
    ),
    span_limit!("ingest.max_events", "64", max_events, 1, "Span events stored in metadata."),
    span_limit!("ingest.max_links", "128", max_links, 1, "Links stored in metadata."),
    span_limit!(
        "ingest.max_media_mib",
        "20",
        max_media_bytes,
        1 << 20,
        "Decoded size of one media item in a payload."
    ),
    Setting {
        key: "answers.max_in_flight_mib",
        short: None,
        default: "128",
        since: "0.1",
        text: "Memory for all responses: rows read for them, and bytes that clients have not received yet. One project \
               may use half of it; an eighth is reserved for responses of at most 256 KiB. Above it the response is 503 \
               with `Retry-After`, or 422 if one response alone needs more.",
        set: |config, text| {
            config.answers.max_in_flight_bytes = (number(text, 8, 65_536)? as usize) << 20;
            Ok(())
        },
    },
    Setting {
        key: "answers.timeout_seconds",
        short: None,
        default: "20",
        since: "0.1",
        text: "Maximum time for reading in one request. After it the response is 422 and suggests a narrower request. \
               Lists with a cursor return a shorter page instead.",
        set: |config, text| {
            config.answers.timeout = Duration::from_secs(number(text, 1, 3_600)?);
            Ok(())
        },
    },
    Setting {
        key: "answers.pause_seconds",
        short: None,
        default: "60",
        since: "0.1",
        text: "Time without progress of a client in receiving a response, after which its connection is closed.",
        set: |config, text| {
            config.answers.pause = Duration::from_secs(number(text, 1, 600)?);
            Ok(())
        },
    },
    Setting {
        key: "answers.min_kib_per_second",
        short: None,
        default: "4",
        since: "0.1",
        text: "Minimum rate at which a client receives a response. A connection that falls behind it by more than \
               `answers.pause_seconds` is closed.",
        set: |config, text| {
            config.answers.min_bytes_per_second = (number(text, 1, 1 << 20)? as u32) << 10;
            Ok(())
        },
    },
    Setting {
        key: "answers.deadline_seconds",
        short: None,
        default: "3600",
        since: "0.1",
        text: "Maximum time for a client to receive a whole response, after which its connection is closed. Time in \
               which the server produces the response does not count.",
        set: |config, text| {
            config.answers.deadline = Duration::from_secs(number(text, 1, 86_400)?);
            Ok(())
        },
    },
    Setting {
        key: "api.max_body_kib",
        short: None,
        default: "4608",
        since: "0.1",
        text: "Maximum size of the body of other requests; above it the response is 413. Components of plug-ins \
               may always have up to 64 MiB.",
        set: |config, text| {
            config.api_max_body_bytes = (number(text, 1, 1 << 20)? as usize) << 10;
            Ok(())
        },
    },
    Setting {
        key: "api.max_body_values",
        short: None,
        default: "500000",
        since: "0.1",
        text: "Maximum number of JSON values in the body of such a request: strings, numbers, arrays and so on. Above \
               it the response is 413.",
        set: |config, text| {
            config.api_max_body_values = number(text, 1, 100_000_000)? as usize;
            Ok(())
        },
    },
    rate_limit!(
        "limits.ingestion_per_minute",
        ingestion,
        "Maximum number of requests with telemetry, batches of events or scores per key and minute; a burst of \
         all of them is allowed. 0: unlimited. Above it the response is 429 with `Retry-After`. The headers \
         `X-RateLimit-Limit`, `X-RateLimit-Remaining` and `X-RateLimit-Reset` have the state of the key. Each \
         server counts separately."
    ),
    rate_limit!(
        "limits.datasets_per_minute",
        datasets,
        "The same for datasets, their items and runs."
    ),
    rate_limit!("limits.metrics_per_minute", metrics, "The same for metrics."),
    rate_limit!(
        "limits.api_per_minute",
        api,
        "The same for all other requests with a key. Prompts are never limited."
    ),
    Setting {
        key: "evaluation.isolation",
        short: None,
        default: "process",
        since: "0.1",
        text: "`process`: plug-ins run in child processes without access to database and keys. \
               `in-process`: in the server itself, for a single user who trusts every plug-in: a plug-in that ends its \
               process ends the server, and a flaw in the WebAssembly engine gives it keys and database.",
        set: |config, text| {
            config.evaluation.isolation = match text {
                "process" => Isolation::Process,
                "in-process" => Isolation::InProcess,
                _ => return Err(format!("must be one of `process`, `in-process`; got {text:?}")),
            };
            Ok(())
        },
    },
    Setting {
        key: "evaluation.confinement",
        short: None,
        default: "best-effort",
        since: "0.1",
        text: "`best-effort`: the processes that run and compile plug-ins, and check schemas, are confined as far as the platform \
               supports it, and the log at start-up names the missing measures. `required`: if a measure is missing, \
               the server does not start.",
        set: |config, text| {
            config.evaluation.confinement = match text {
                "best-effort" => Confinement::BestEffort,
                "required" => Confinement::Required,
                _ => return Err(format!("must be one of `best-effort`, `required`; got {text:?}")),
            };
            Ok(())
        },
    },
    Setting {
        key: "evaluation.worker_memory_mib",
        short: None,
        default: "4096",
        since: "0.1",
        text: "A worker process that uses more memory is replaced; its evaluations run again.",
        set: |config, text| {
            config.evaluation.worker_memory_bytes = number(text, 256, 1 << 20)? << 20;
            Ok(())
        },
    },
    Setting {
        key: "evaluation.memory_mib",
        short: None,
        default: "128",
        since: "0.1",
        text: "Memory of the server for targets and items under evaluation. Above it evaluations wait, with projects \
               in turn; one project may use at most half. A single item may use more. Experiments that the server runs \
               use up to half as much in addition.",
        set: |config, text| {
            config.evaluation.memory_bytes = (number(text, 16, 1 << 20)? as usize) << 20;
            Ok(())
        },
    },
    Setting {
        key: "evaluation.workers",
        short: Some("workers"),
        default: "0",
        since: "0.1",
        text: "Worker processes; 0 takes one per CPU, at most 4.",
        set: |config, text| {
            let n_cpus = std::thread::available_parallelism().map_or(1, usize::from);
            config.evaluation.n_workers = match number(text, 0, 256)? as usize {
                0 => n_cpus.min(4),
                n => n,
            };
            Ok(())
        },
    },
    Setting {
        key: "evaluation.reply_cache_days",
        short: None,
        default: "30",
        since: "0.1",
        text: "Days for which a reply of a model is reused for equal requests of its project: trials, targets that are \
               scored again, and live scoring at temperature 0. 0 disables the cache and deletes its entries.",
        set: |config, text| {
            config.evaluation.reply_lifetime_ms = number(text, 0, 3_650)? as i64 * 86_400_000;
            Ok(())
        },
    },
    Setting {
        key: "evaluation.reply_cache_mib",
        short: None,
        default: "256",
        since: "0.1",
        text: "Compressed size of the cached replies of a project; the oldest are deleted first, at least every ten minutes.",
        set: |config, text| {
            config.evaluation.max_reply_bytes = number(text, 1, 1 << 20)? << 20;
            Ok(())
        },
    },
    Setting {
        key: "exports.private_endpoints",
        short: None,
        default: "",
        since: "0.1",
        text: "Hosts with private addresses, comma-separated, that exports to buckets and model calls may connect to: \
               `minio:9000`, or `store.lan` for any port, both with their subdomains; `10.0.0.7` and `::1` are \
               addresses in place of a host; `10.1.0.0/16` allows any host with an address in that range. All other \
               private addresses are blocked, so that a user who may create an export cannot reach the network of \
               the server.",
        set: |config, text| {
            let hosts = text.split(',').map(str::trim).filter(|host| !host.is_empty());
            let hosts: Vec<String> = hosts.map(str::to_ascii_lowercase).collect();
            if let Some(bad) = hosts.iter().find(|host| !is_endpoint(host)) {
                return Err(format!(
                    "{bad:?} must be a host such as minio:9000, an address such as 10.0.0.7 or ::1, or a range such as 10.1.0.0/16"
                ));
            }
            config.exports.private_endpoints = hosts;
            Ok(())
        },
    },
    Setting {
        key: "exports.max_file_mib",
        short: None,
        default: "256",
        since: "0.1",
        text: "Maximum size of an exported file before compression; a larger export has several files.",
        set: |config, text| {
            config.exports.max_file_bytes = (number(text, 1, 4_096)? as usize) << 20;
            Ok(())
        },
    },
    Setting {
        key: "audit.keep_days",
        short: None,
        default: "400",
        since: "0.1",
        text: "Days after which records of the audit trail are deleted. Whole days (UTC) are deleted, and the chain of the remaining records stays verifiable.",
        set: |config, text| {
            config.audit.keep_days = number(text, 30, 36_500)? as u32;
            Ok(())
        },
    },
    Setting {
        key: "secrets.key",
        short: None,
        default: "",
        since: "0.1",
        text: "Key that encrypts stored secrets, such as those of LLM connections: 32 bytes in base64, as \
               `openssl rand -base64 32` prints them. Every server on one database needs the same. When \
               it is empty, the key is in `secrets.key` in the data directory, created at the first start. Store a copy \
               of it apart from the backups; `perpend backup --with-keys` includes it. With another key, or without \
               the file, the server does not start; `perpend secrets reset` is for a key that is permanently lost.",
        set: |config, text| {
            if !text.is_empty() {
                perpend_http_client::parse_key(text).map_err(|error| error.to_string())?;
            }
            config.secrets.key = some_text(text);
            Ok(())
        },
    },
    Setting {
        key: "admin.api_key",
        short: None,
        default: "",
        since: "0.1",
        text: "Key of the administrator of this installation, at least 24 characters: sent both as \
               `Authorization: Bearer KEY` and as `x-perpend-admin-api-key: KEY`, with the id of a project in \
               `x-perpend-project-id`, it has the rights of a key pair of that project. When empty, there is \
               no administrator.",
        set: |config, text| {
            if !text.is_empty() && text.chars().count() < 24 {
                return Err("must have at least 24 characters".to_owned());
            }
            config.admin.api_key = some_text(text);
            Ok(())
        },
    },
    Setting {
        key: "metrics.token",
        short: None,
        default: "",
        since: "0.1",
        text: "Token of `GET /metrics`, at least 24 visible ASCII characters: Prometheus sends it as \
               `Authorization: Bearer TOKEN`. When empty, nothing is measured and `GET /metrics` responds with 404.",
        set: |config, text| {
            let is_visible = text.bytes().all(|byte| byte.is_ascii_graphic());
            if !text.is_empty() && (text.len() < 24 || !is_visible) {
                return Err(
                    "must have at least 24 characters, all of them visible ASCII".to_owned()
                );
            }
            config.metrics.token = some_text(text);
            Ok(())
        },
    },
    Setting {
        key: "tracing.otlp_endpoint",
        short: None,
        default: "",
        since: "0.1",
        text: "URL that receives the spans of this process as OTLP over HTTP with protobuf, such as \
               `http://localhost:4318/v1/traces`. When empty, no span is recorded. It must not be an address of \
               this server, which would record a span for each export.",
        set: |config, text| {
            config.tracing.otlp_endpoint = http_url(text)?;
            Ok(())
        },
    },
    Setting {
        key: "tracing.otlp_headers",
        short: None,
        default: "",
        since: "0.1",
        text: "Headers of the requests to `tracing.otlp_endpoint`, such as `authorization=Bearer%20TOKEN`, separated \
               by commas. Values are percent-decoded.",
        set: |config, text| {
            config.tracing.otlp_headers = request_headers(text)?;
            Ok(())
        },
    },
    Setting {
        key: "tracing.sampling_ratio",
        short: None,
        default: "1",
        since: "0.1",
        text: "Share of traces of this process that are recorded, greater than 0 and at most 1.",
        set: |config, text| {
            config.tracing.sampling_ratio = share(text)?;
            Ok(())
        },
    },
    Setting {
        key: "init.public_key",
        short: None,
        default: "",
        since: "0.1",
        text: "Public half of the first key pair, any text without a colon, such as a key of an old \
               installation. Created at each start if missing; a deleted pair is not created again, and the log \
               has a warning. Requires `init.secret_key`.",
        set: |config, text| {
            config.init.public_key = public_key(text)?;
            Ok(())
        },
    },
    Setting {
        key: "init.secret_key",
        short: None,
        default: "",
        since: "0.1",
        text: "Secret half of the first key pair, any text. Requires `init.public_key`.",
        set: |config, text| {
            config.init.secret_key = some_text(text);
            Ok(())
        },
    },
    Setting {
        key: "init.org_public_key",
        short: None,
        default: "",
        since: "0.1",
        text: "Public half of a key pair of the organization, which manages its projects, their keys and its \
               members and reads no data. Created at each start if missing; a deleted pair is not created \
               again, and the log has a warning. Requires `init.org_secret_key`; `perpend organization-key` creates \
               further ones.",
        set: |config, text| {
            config.init.org_public_key = public_key(text)?;
            Ok(())
        },
    },
    Setting {
        key: "init.org_secret_key",
        short: None,
        default: "",
        since: "0.1",
        text: "Secret half of that key pair, any long random text. Requires `init.org_public_key`.",
        set: |config, text| {
            config.init.org_secret_key = some_text(text);
            Ok(())
        },
    },
    Setting {
        key: "init.project_name",
        short: None,
        default: "My project",
        since: "0.1",
        text: "Name of the project that is created at the first start.",
        set: |config, text| {
            config.init.project_name = name(text)?;
            Ok(())
        },
    },
    Setting {
        key: "init.org_name",
        short: None,
        default: "My organization",
        since: "0.1",
        text: "Name of the organization that is created at the first start.",
        set: |config, text| {
            config.init.org_name = name(text)?;
            Ok(())
        },
    },
    Setting {
        key: "init.user_email",
        short: None,
        default: "",
        since: "0.1",
        text: "E-mail address of the account that a start without accounts creates. Requires `init.user_password`.",
        set: |config, text| {
            config.init.user_email = some_text(unquoted(text)?);
            Ok(())
        },
    },
    Setting {
        key: "init.user_name",
        short: None,
        default: "",
        since: "0.1",
        text: "Name of the person of the first account. When empty, the e-mail address.",
        set: |config, text| {
            config.init.user_name = some_text(unquoted(text)?);
            Ok(())
        },
    },
    Setting {
        key: "init.user_password",
        short: None,
        default: "",
        since: "0.1",
        text: "Password of the first account: 12 to 1,024 characters, not easy to guess. Requires `init.user_email`.",
        set: |config, text| {
            config.init.user_password = some_text(unquoted(text)?);
            Ok(())
        },
    },
];
