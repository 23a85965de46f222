//! Queries: response times over HTTP of lists, a trace, metrics and prompts.
//!
//! One request at a time, each with other values than the one before; prompts are requested at a fixed rate.

pub(crate) mod data;

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::http::Connection;
use crate::load::quantile;
use crate::report::{Bar, Figure};
use crate::server::Server;
use data::{DAY_NS, DAYS, Filled, LARGE_TRACE, N_PROMPTS, iso, trace_id};

/// Requests of one figure.
const N_REQUESTS: u64 = 60;
const PROMPTS_PER_SECOND: f64 = 1_000.0;
const N_PROMPT_REQUESTS: u64 = 10_000;
const N_PROMPT_CONNECTIONS: u64 = 8;
/// The number of pages read to reach a position deep in a list that is read by cursor.
const N_WALKED: usize = 200;

/// Fills a database, or takes that of an earlier run, and measures the queries.
///
/// # Errors
/// When the server refuses something.
pub(crate) async fn measure(n_observations: u64) -> anyhow::Result<Vec<Figure>> {
    let (server, filled) = data::server(n_observations).await?;
    let mut asking = Asking { connection: server.connect().await?, filled, figures: Vec::new() };
    asking.traces().await?;
    asking.observations().await?;
    asking.metrics().await?;
    asking.scores().await?;
    asking.deep_pages().await?;
    let mut figures = asking.figures;
    figures.push(prompts(&server).await?);
    let resident = server.resident_bytes() as f64 / f64::from(1 << 20);
    figures.push(figure("resident memory afterwards", resident, "MiB", Bar::None));
    server.stop().await?;
    Ok(figures)
}

fn figure(what: &str, value: f64, unit: &'static str, bar: Bar) -> Figure {
    Figure { scenario: "queries", what: what.to_owned(), value, unit, bar }
}

/// Percent-encodes everything that is no letter or digit.
fn encoded(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte.is_ascii_alphanumeric() {
            true => out.push(char::from(byte)),
            false => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

fn filter(condition: &Value) -> String {
    format!("filter={}", encoded(&json!([condition]).to_string()))
}

fn options(column: &str, value: &str) -> String {
    filter(
        &json!({ "type": "stringOptions", "column": column, "operator": "any of", "value": [value] }),
    )
}

fn member(key: &str, value: &str) -> String {
    filter(
        &json!({ "type": "stringObject", "column": "metadata", "key": key, "operator": "=", "value": value }),
    )
}

/// A question about observations by day and one dimension.
fn question(
    until: u64,
    (at, days): (u64, u64),
    dimension: &str,
    metrics: &[(&str, &str)],
) -> String {
    // Neither begins nor ends on the hour, and never twice at the same time.
    let shift = (at + 1) * 61_000_000_000;
    let metrics: Value = metrics
        .iter()
        .map(|(aggregation, measure)| json!({ "measure": measure, "aggregation": aggregation }))
        .collect();
    let query = json!({
        "view": "observations", "metrics": metrics, "dimensions": [{ "field": dimension }],
        "timeDimension": { "granularity": "day" },
        "fromTimestamp": iso(until - days * DAY_NS + shift), "toTimestamp": iso(until - shift),
    });
    let query = encoded(&query.to_string());
    format!("/api/public/v2/metrics?query={query}")
}

struct Asking {
    connection: Connection,
    filled: Filled,
    figures: Vec<Figure>,
}

impl Asking {
    /// Sorted latencies of so many requests, after one that is not counted.
    async fn timed(
        &mut self,
        n: u64,
        path: impl Fn(u64) -> String,
    ) -> anyhow::Result<Vec<Duration>> {
        let mut took = Vec::new();
        for at in 0..=n {
            let path = path(at);
            let started = Instant::now();
            let (status, body) =
                self.connection.send("GET", &path, "application/json", Default::default()).await?;
            let elapsed = started.elapsed();
            let shown = String::from_utf8_lossy(&body);
            // A search in contents is given up where it would take too long: that is an answer, too.
            let is_given_up = status == 400 && shown.contains("are tested per observation");
            anyhow::ensure!(status == 200 || is_given_up, "{path}: {status} {shown}");
            if at > 0 {
                took.push(elapsed);
            }
        }
        took.sort_unstable();
        Ok(took)
    }

    /// One figure: the 95th percentile in milliseconds. Slow queries are repeated less often.
    async fn p95(
        &mut self,
        what: &str,
        bar: Option<f64>,
        path: impl Fn(u64) -> String,
    ) -> anyhow::Result<()> {
        let first = self.timed(1, &path).await?;
        let n = match quantile(&first, 0.5).as_millis() {
            0..=200 => N_REQUESTS,
            201..=2_000 => 10,
            _ => 2,
        };
        let took = self.timed(n, path).await?;
        let p95 = quantile(&took, 0.95).as_secs_f64() * 1e3;
        let median = quantile(&took, 0.5).as_secs_f64() * 1e3;
        eprintln!("queries: {what}: median {median:.1} ms, p95 {p95:.1} ms");
        let bar = bar.map_or(Bar::None, Bar::AtMost);
        self.figures.push(figure(&format!("{what}: p95"), p95, "ms", bar));
        Ok(())
    }

    async fn traces(&mut self) -> anyhow::Result<()> {
        const LIST: &str = "/api/public/traces?limit=50";
        const BAR: Option<f64> = Some(50.0);
        let filled = self.filled;
        let day = |at: u64| iso(filled.until_ns - at % DAYS * DAY_NS);
        self.p95("traces of a user", BAR, |at| format!("{LIST}&userId=user-{}", at * 7)).await?;
        self.p95("traces of a name, in an environment", BAR, |at| {
            let name = ["chat", "search", "summary"][at as usize % 3];
            format!("{LIST}&name={name}&environment=staging")
        })
        .await?;
        self.p95("traces of an environment before a day", BAR, |at| {
            let before = encoded(&day(at));
            format!("{LIST}&environment=production&toTimestamp={before}")
        })
        .await?;
        self.p95("traces of a session", BAR, |at| format!("{LIST}&sessionId=session-{}", at * 31))
            .await?;
        self.p95("traces with a common tag", BAR, |at| format!("{LIST}&tags=tag-{}", at % 6))
            .await?;
        self.p95("traces with a common metadata member", BAR, |at| {
            let tier = ["gold", "silver", "bronze"][at as usize % 3];
            format!("{LIST}&{}", member("tier", tier))
        })
        .await?;
        for parameter in ["name", "userId", "sessionId", "tags", "environment", "release"] {
            for value in ["needle", "nobody"] {
                let what = format!("traces of {parameter} {value}");
                let path = format!("{LIST}&{parameter}={value}");
                self.p95(&what, BAR, |_| path.clone()).await?;
            }
        }
        for value in ["yes", "no"] {
            let path = format!("{LIST}&{}", member("needle", value));
            let what = format!("traces of metadata needle {value}");
            self.p95(&what, BAR, |_| path.clone()).await?;
        }
        self.p95("traces without a filter", BAR, |_| LIST.to_owned()).await?;
        let large = trace_id(LARGE_TRACE);
        self.p95("a trace of 5,000 observations", Some(150.0), |_| {
            format!("/api/public/traces/{large}")
        })
        .await?;
        self.p95("sessions, first page", None, |_| "/api/public/sessions?limit=50".to_owned()).await
    }

    async fn observations(&mut self) -> anyhow::Result<()> {
        const LIST: &str = "/api/public/v2/observations?limit=50&fields=core,basic,io,model,usage";
        let last_day = encoded(&iso(self.filled.until_ns - DAY_NS));
        let last_day = format!("fromStartTime={last_day}");
        self.p95("observations, newest", None, |_| LIST.to_owned()).await?;
        for (what, query) in [
            ("name", "name=needle".to_owned()),
            ("user", "userId=needle".to_owned()),
            ("session", "sessionId=needle".to_owned()),
            ("environment", "environment=needle".to_owned()),
            ("level", "level=ERROR".to_owned()),
            ("level nobody has", "level=WARNING".to_owned()),
            ("model nobody has", options("model", "nobody")),
            ("metadata", member("needle", "yes")),
            ("metadata, last day", format!("{}&{last_day}", member("needle", "yes"))),
            ("metadata nobody has", member("nothing", "yes")),
            ("metadata nobody has, last day", format!("{}&{last_day}", member("nothing", "yes"))),
        ] {
            let path = format!("{LIST}&{query}");
            self.p95(&format!("observations of a rare {what}"), None, |_| path.clone()).await?;
        }
        self.p95("observations by page, of a type", None, |_| {
            "/api/public/observations?limit=50&type=GENERATION".to_owned()
        })
        .await
    }

    async fn metrics(&mut self) -> anyhow::Result<()> {
        const SUMS: &[(&str, &str)] =
            &[("count", "count"), ("sum", "totalTokens"), ("sum", "totalCost")];
        const MODEL: &str = "providedModelName";
        let filled = self.filled;
        for (what, days, dimension, metrics, bar) in [
            ("by day and model", DAYS, MODEL, SUMS, Some(300.0)),
            ("by day and model, last day", 1, MODEL, SUMS, Some(30.0)),
            ("by day and name", DAYS, "name", SUMS, None),
            ("p95 of latency by model", DAYS, MODEL, &[("p95", "latency")], None),
            ("p95 of latency by model, last day", 1, MODEL, &[("p95", "latency")], None),
            ("histogram of latency", DAYS, MODEL, &[("histogram", "latency")], None),
            ("users by model", DAYS, MODEL, &[("uniq", "uniqueUserIds")], None),
            ("traces by model", DAYS, MODEL, &[("uniq", "traceId")], None),
            ("by tags, last day", 1, "tags", SUMS, None),
            ("cost by type, last day", 1, "costType", &[("sum", "costByType")], None),
        ] {
            let until = filled.until_ns;
            let path = |at| question(until, (at, days), dimension, metrics);
            self.p95(&format!("metrics {what}"), bar, path).await?;
        }
        self.p95("daily metrics, all days", None, |_| "/api/public/metrics/daily".to_owned()).await
    }

    async fn scores(&mut self) -> anyhow::Result<()> {
        const BAR: Option<f64> = Some(50.0);
        for (list, needle) in [("v2", "nobody"), ("v3", "nobody")] {
            let path = format!("/api/public/{list}/scores?limit=50");
            self.p95(&format!("scores {list}"), BAR, |_| path.clone()).await?;
            for (what, query) in [
                ("a name", "name=quality"),
                ("a rare name", "name=needle"),
                ("a name and an environment", "name=tone&environment=staging"),
            ] {
                self.p95(&format!("scores {list} of {what}"), BAR, |_| format!("{path}&{query}"))
                    .await?;
            }
            self.p95(&format!("scores {list} of a name nobody has"), BAR, |_| {
                format!("{path}&name={needle}")
            })
            .await?;
        }
        Ok(())
    }

    /// A position deep in a list: the response time of a page there, compared with the first page.
    async fn deep_pages(&mut self) -> anyhow::Result<()> {
        let mut cursor = String::new();
        for _ in 0..N_WALKED {
            let path = format!("/api/public/v2/observations?limit=1000&fields=core{cursor}");
            let page = self.connection.json("GET", &path, None).await?;
            let Some(next) = page["meta"]["cursor"].as_str() else {
                break;
            };
            cursor = format!("&cursor={}", encoded(next));
        }
        let first = "/api/public/v2/observations?limit=50".to_owned();
        let deep = format!("{first}{cursor}");
        self.compare("observations by cursor", first, deep).await?;
        for (what, list) in [
            ("traces by page", "/api/public/traces?limit=50&fields=core"),
            ("traces of a name by page", "/api/public/traces?limit=50&fields=core&name=chat"),
            ("scores by page", "/api/public/v2/scores?limit=50"),
            ("scores of a name by page", "/api/public/v2/scores?limit=50&name=quality"),
            ("observations by page", "/api/public/observations?limit=50"),
        ] {
            let page = self.connection.json("GET", list, None).await?;
            let last = page["meta"]["totalPages"].as_u64().unwrap_or(1);
            for (name, at) in [("middle", last / 2), ("last", last.max(1))] {
                let deep = format!("{list}&page={at}");
                self.compare(&format!("{what}, {name}"), list.to_owned(), deep).await?;
            }
        }
        Ok(())
    }

    async fn compare(&mut self, what: &str, first: String, deep: String) -> anyhow::Result<()> {
        let first = self.timed(20, |_| first.clone()).await?;
        let deep = self.timed(20, |_| deep.clone()).await?;
        let [first, deep] = [first, deep].map(|took| quantile(&took, 0.5).as_secs_f64() * 1e3);
        eprintln!("queries: {what}: first {first:.1} ms, deep {deep:.1} ms");
        let figures = [
            figure(&format!("{what}: first page"), first, "ms", Bar::None),
            figure(&format!("{what}: deep page"), deep, "ms", Bar::None),
        ];
        self.figures.extend(figures);
        Ok(())
    }
}

/// Prompts at a rate that does not depend on responses: a request that waited for its connection counts from the time
/// at which it was due.
async fn prompts(server: &Server) -> anyhow::Result<Figure> {
    let started = Instant::now() + Duration::from_millis(100);
    let mut senders = Vec::new();
    for sender in 0..N_PROMPT_CONNECTIONS {
        let mut connection = server.connect().await?;
        senders.push(tokio::spawn(async move {
            let mut took = Vec::new();
            for at in (sender..N_PROMPT_REQUESTS).step_by(N_PROMPT_CONNECTIONS as usize) {
                let due = started + Duration::from_secs_f64(at as f64 / PROMPTS_PER_SECOND);
                let is_late = due < Instant::now();
                tokio::time::sleep_until(due.into()).await;
                let from = if is_late { due } else { Instant::now() };
                let path = format!("/api/public/v2/prompts/prompt-{}", at % N_PROMPTS);
                let (status, _) =
                    connection.send("GET", &path, "application/json", Default::default()).await?;
                anyhow::ensure!(status == 200, "{path}: {status}");
                took.push(from.elapsed());
            }
            anyhow::Ok(took)
        }));
    }
    let mut took = Vec::new();
    for sender in senders {
        took.extend(sender.await??);
    }
    took.sort_unstable();
    let millis = |share| quantile(&took, share).as_secs_f64() * 1e3;
    eprintln!("queries: prompts: median {:.2} ms, p99 {:.2} ms", millis(0.5), millis(0.99));
    let what = "a prompt at 1,000 requests a second: p99";
    Ok(figure(what, millis(0.99), "ms", Bar::AtMost(5.0)))
}
