//! The table of settings: the single source for file, environment, flags and reference page.

use std::time::Duration;

use crate::parse::{is_endpoint, name, number, public_key, some_text};
use crate::{Config, Confinement, Isolation, LogFormat};

/// One setting.
pub(super) struct Setting {
    /// Key in the file: sections and a name.
    pub(super) key: &'static str,
    /// Name of variable (after `PERPEND_`) and flag, if it differs from the key.
    pub(super) short: Option<&'static str>,
    /// Default value as text.
    pub(super) default: &'static str,
    /// The version that introduced it.
    pub(super) since: &'static str,
    /// For people.
    pub(super) text: &'static str,
    /// Validates and sets a value; the error states the expectation.
    pub(super) set: fn(&mut Config, &str) -> Result<(), String>,
}

impl Setting {
    /// The variable.
    pub(super) fn env(&self) -> String {
        let name = self.short.unwrap_or(self.key);
        format!("PERPEND_{}", name.replace(['.', '-'], "_").to_uppercase())
    }

    /// The flag, without dashes.
    pub(super) fn flag(&self) -> String {
        let name = self.short.unwrap_or(self.key);
        name.replace(['.', '_'], "-")
    }
}

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

/// Far beyond what one server answers.
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
        text: "How browsers reach the server, when it runs behind a proxy. Used in printed links and in those of \
               answers, such as upload links. Without it, answers use the Host header where that is an IP address, \
               localhost or a single label, and else the address of server.listen.",
        set: |config, text| {
            let is_http = text.starts_with("http://") || text.starts_with("https://");
            if !text.is_empty() && !is_http {
                return Err(format!("must start with http:// or https://, got {text:?}"));
            }
            config.public_url = some_text(text).map(|url| url.trim_end_matches('/').to_owned());
            Ok(())
        },
    },
    Setting {
        key: "server.max_connections",
        short: None,
        default: "0",
        since: "0.1",
        text: "Connections that may be open at a time. When another one comes, the one that has been idle longest \
               is closed; when none is idle, the new one waits to be accepted. 0: as many as the limit of open \
               files allows, less a reserve for database, workers and files, at most 8192. The reserve is kept \
               for every value; the server raises its soft limit of open files to the hard one.",
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
        text: "Addresses of the proxies before the server, comma-separated, single or in CIDR notation such as \
               `10.1.0.0/16`. From these alone `Forwarded` and `X-Forwarded-For` say which client sent a request: \
               the rightmost address that is not in the list. A proxy has to write one of the two and remove or \
               replace what a client sent in the other: where they differ, the client has the address of the proxy. \
               Without this list every client behind a proxy has that address, in the log and where wrong secrets \
               are counted. A list of everything is refused.",
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
        text: "How long requests and evaluations under way may take after SIGTERM or SIGINT.",
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
               Made when it is missing.",
        set: |config, text| {
            if text.is_empty() {
                return Err("a directory is needed".to_owned());
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
        text: "How long a statement waits for a lock or a connection. Afterwards the client gets 503 \
               and may send again.",
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
                return Err("a level is needed, such as info".to_owned());
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
        text: "Largest OTLP body, on the wire and again decoded. Beyond it the answer is 413, and \
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
        text: "The bodies of all requests in memory together, as they came and decoded. Beyond it the answer is \
               503 with `Retry-After`. An eighth is kept for requests that need at most 256 KiB, so that they \
               are answered while large ones fill the rest. A body counts as its bytes arrive, not when they \
               are announced.",
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
        text: "How much of `ingest.max_in_flight_mib` the requests of one key may hold. Beyond it this key gets \
               503 with `Retry-After`, and others are served. A single request may hold more, else it could \
               never be answered.",
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
        text: "How long a sender may pause inside a body, or take for the head of a request or between two \
               requests, before the connection is given up.",
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
        text: "The rate that the sender of a body keeps up. Who falls behind it by more than \
               `ingest.read_timeout_seconds` gets 408, on the OTLP paths 503 with `Retry-After`, because OTLP \
               clients send nothing again after 408. The built-in value is a tenth of what a poor mobile \
               connection reaches; a few bytes now and then are not enough to hold memory.",
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
        text: "How long a whole body may take. With the built-in value a medium of 100 MiB needs a megabit per \
               second. A body that takes longer is refused like one that is too slow: with 408, or 503 on the OTLP \
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
        text: "Spans in one OTLP request; resources and scopes together, and log records of spans, may be as \
               many. Beyond it the answer is 413 and nothing of the request is stored.",
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
        text: "Values that one span may hold: attributes, the members of their lists and maps, and of JSON that \
               they hold as text. An attribute beyond it is dropped and counted in the metadata, JSON text \
               beyond it is kept as text.",
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
        "Attributes on a span; the rest is dropped and counted in its metadata."
    ),
    span_limit!(
        "ingest.max_content_kib",
        "10240",
        max_content_bytes,
        1 << 10,
        "Input or output of an observation; beyond it text is cut, which its metadata says."
    ),
    span_limit!(
        "ingest.max_metadata_value_kib",
        "64",
        max_metadata_value_bytes,
        1 << 10,
        "One metadata value; beyond it it is cut."
    ),
    span_limit!(
        "ingest.max_metadata_kib",
        "1024",
        max_metadata_bytes,
        1 << 10,
        "All metadata of an observation; beyond it the largest attributes go first."
    ),
    span_limit!("ingest.max_name_chars", "1024", max_name_chars, 1, "Characters of a name."),
    span_limit!(
        "ingest.max_status_chars",
        "16384",
        max_status_chars,
        1,
        "Characters of a status message."
    ),
    span_limit!("ingest.max_events", "64", max_events, 1, "Span events kept in metadata."),
    span_limit!("ingest.max_links", "128", max_links, 1, "Links kept in metadata."),
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
        text: "Memory for all answers together: rows that are read for them, and bytes that clients have not taken yet. \
               Half of it is for one project, an eighth for answers of at most 256 KiB. Beyond it the answer is 503 with \
               `Retry-After`, or 422 where one answer alone would need more.",
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
        text: "How long a request may read. Afterwards the answer is 422, which names what would need less time. Lists \
               with a cursor end their page in time instead.",
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
        text: "How long a client may take nothing of an answer before its connection is closed.",
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
        text: "The rate at which a client takes an answer. A connection that falls behind it by more than \
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
        text: "How long a client may take for a whole answer before its connection is closed. Time in which the server \
               makes the answer does not count.",
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
        text: "Largest body of the other requests; beyond it the answer is 413. Components of plug-ins \
               may be up to 64 MiB for every value.",
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
        text: "JSON values in the body of such a request: texts, numbers, lists and so on. Beyond it the answer is \
               413.",
        set: |config, text| {
            config.api_max_body_values = number(text, 1, 100_000_000)? as usize;
            Ok(())
        },
    },
    rate_limit!(
        "limits.ingestion_per_minute",
        ingestion,
        "Requests with telemetry, batches of events or scores that one key may make per minute; all of them \
         may come at once. 0: any number. Beyond it the answer is 429 with `Retry-After`. The answers say in \
         `X-RateLimit-Limit`, `X-RateLimit-Remaining` and `X-RateLimit-Reset` the state of the key. Each server \
         counts for itself."
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
               can, and start-up says what it lacks. `required`: without all of it the server does not \
               start.",
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
        text: "A worker process with more memory in use is replaced; the evaluations it had are made again.",
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
        text: "Memory of the server for targets and items that are evaluated at a time. Beyond it evaluations wait, one \
               project after the other; those of one project take at most half. A single item may take more.",
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
        text: "For so long a reply of a model answers equal requests of its project: trials, targets that are scored again, and \
               live scoring at temperature 0. 0 turns this off and forgets what is stored.",
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
        text: "What stored replies of a project may take up, compressed; the oldest go first. It may be more for ten minutes.",
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
        text: "Hosts, between commas, that exports to buckets and calls of models may reach although their addresses \
               are not public: `minio:9000`, or `store.lan` for any port. Names below them count too. `10.0.0.7` and `::1` are \
               addresses in place of a host. `10.1.0.0/16` lets any host have an address in that range. Without it, whoever may set up an export could have the server speak \
               with its own network.",
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
        text: "An exported file that is larger, before it is compressed, is followed by a second one.",
        set: |config, text| {
            config.exports.max_file_bytes = (number(text, 1, 4_096)? as usize) << 20;
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
               it is empty, `secrets.key` in the data directory holds one, made at the first start. Keep a copy of \
               it apart from the backups; `perpend backup --with-keys` includes it. With another key, or without \
               the file, the next start is refused; `perpend secrets reset` is for a key that is lost for good.",
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
               `x-perpend-project-id`, it opens that project like a key pair of its own. When it is empty, \
               nobody has this right.",
        set: |config, text| {
            if !text.is_empty() && text.chars().count() < 24 {
                return Err("a key that opens every project has at least 24 characters".to_owned());
            }
            config.admin.api_key = some_text(text);
            Ok(())
        },
    },
    Setting {
        key: "init.public_key",
        short: None,
        default: "",
        since: "0.1",
        text: "Public half of the first key pair, any text without a colon: keys of an old installation \
               keep working. Made at each start where it is not there; a pair that was deleted is not made \
               again, which the start warns of. Needs `init.secret_key`.",
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
        text: "Secret half of the first key pair, any text. Needs `init.public_key`.",
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
               members and reads no data. Made sure of at each start; a pair that was deleted is not made again, \
               which the start warns of. Needs `init.org_secret_key`; `perpend \
               organization-key` makes further ones.",
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
        text: "Secret half of that key pair, any long random text. Needs `init.org_public_key`.",
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
        text: "Name of the project that the first start makes.",
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
        text: "Name of the organization that the first start makes.",
        set: |config, text| {
            config.init.org_name = name(text)?;
            Ok(())
        },
    },
];
