//! Pages: response time and transferred bytes of the pages, compressed as browsers request them. Uses the data of the
//! queries and, in addition, two traces of 50,000 observations.

use std::time::{Duration, Instant};

use anyhow::Context as _;

use crate::http::Connection;
use crate::load::quantile;
use crate::report::{Bar, Figure};
use crate::scenario::queries::data::{self, HUGE, HUGE_TRACES, trace_id};
use crate::scenario::screen;
use crate::server::Server;

/// Requests of one figure.
const N_REQUESTS: u64 = 200;
/// Where a page is slow, fewer say as much.
const N_SLOW: u64 = 20;

/// What a page may take, milliseconds, and how many bytes it may have.
#[derive(Clone, Copy, Debug)]
struct Budget(f64, f64);

const PAGE: Budget = Budget(50.0, 45_000.0);
const FRAGMENT: Budget = Budget(30.0, 20_000.0);
const SUGGESTIONS: Budget = Budget(20.0, 4_000.0);
/// Over all time.
const CHART: Budget = Budget(300.0, 6_000.0);
const LARGE: Budget = Budget(50.0, 60_000.0);
const ROWS: Budget = Budget(20.0, 20_000.0);
/// Of two traces of 5,000 observations.
const COMPARED: Budget = Budget(150.0, 45_000.0);
/// Of a page with the statistics of all scores of a name.
const STATISTICS: Budget = Budget(300.0, 45_000.0);
/// Pages of evaluators, rules, jobs and experiments, with the rest of their address.
const EVALUATION: [(&str, &str); 13] = [
    ("evaluators", "evaluators"),
    ("gallery of evaluators", "evaluators/new"),
    ("form of a judge", "evaluators/new/judge"),
    ("form of a rule", "rules/new"),
    ("backfills", "backfills"),
    ("backtests", "backtests"),
    ("executions", "executions"),
    ("score analytics without a name", "scores/analytics"),
    ("plug-ins", "plugins"),
    ("connections", "settings/connections"),
    ("datasets", "datasets"),
    ("experiments", "experiments"),
    ("form of an experiment", "experiments/new"),
];
/// How many times as long the first request after a start may take.
const FIRST: f64 = 5.0;

/// Opens the pages of the data of the queries.
///
/// # Errors
/// When the server refuses something.
pub(crate) async fn measure(n_observations: u64) -> anyhow::Result<Vec<Figure>> {
    let (server, filled) = data::server(n_observations).await?;
    let mut opening = Opening::log_in(&server).await?;
    opening.files().await?;
    opening.lists().await?;
    opening.details(filled).await?;
    opening.large().await?;
    let mut figures = opening.figures;
    let resident = server.resident_bytes() as f64 / f64::from(1 << 20);
    figures.push(figure("resident memory afterwards", resident, "MiB", Bar::None));
    figures.extend(in_a_browser(&server, &opening.base).await?);
    server.stop().await?;
    Ok(figures)
}

async fn in_a_browser(server: &Server, base: &str) -> anyhow::Result<Vec<Figure>> {
    let pages = ["traces", "observations", "sessions", "users", "scores", "rules"];
    let pages = pages.map(|page| (page, format!("{base}/{page}")));
    let large = format!("{base}/traces/{}", trace_id(HUGE));
    let mut pages = pages.to_vec();
    pages.push(("overview", base.to_owned()));
    pages.push(("a trace", format!("{base}/traces/{}", trace_id(97))));
    pages.push(("a trace of 50,000", large.clone()));
    screen::measure((&server.origin(), base), &pages, &large).await
}

fn figure(what: &str, value: f64, unit: &'static str, bar: Bar) -> Figure {
    Figure { scenario: "pages", what: what.to_owned(), value, unit, bar }
}

/// A browser that has logged in.
struct Opening {
    connection: Connection,
    cookie: String,
    /// What the addresses of the project begin with.
    base: String,
    figures: Vec<Figure>,
}

impl Opening {
    async fn log_in(server: &Server) -> anyhow::Result<Self> {
        let mut connection = server.connect().await?;
        let (cookie, base) = connection.log_in().await?;
        Ok(Self { connection, cookie, base, figures: Vec::new() })
    }

    async fn open(&mut self, path: &str) -> anyhow::Result<(Duration, usize)> {
        let started = Instant::now();
        let (status, body) = self.connection.page(path, &self.cookie).await?;
        let took = started.elapsed();
        anyhow::ensure!(status == 200, "{path}: {status}");
        Ok((took, body.len()))
    }

    async fn lists(&mut self) -> anyhow::Result<()> {
        let base = self.base.clone();
        self.page("overview", PAGE, |_| base.clone()).await?;
        self.page("overview of a day in an environment", PAGE, |_| {
            format!("{base}?from=-1d&env=staging")
        })
        .await?;
        for part in ["figures", "traces", "latency", "models", "scores"] {
            self.page(&format!("{part} of a week"), CHART, |_| {
                format!("{base}/_/trends?part={part}")
            })
            .await?;
        }
        let list = |q: &str| format!("{base}/traces?q={q}");
        self.page("traces", PAGE, |_| list("")).await?;
        for (what, q) in [
            ("of a name, in an environment", "name%3Achat%20environment%3Astaging"),
            ("with errors", "level%3AERROR"),
            ("slower than 5 s", "latency%3A%3E5"),
            ("with a low score", "score.quality%3A%3C0.1"),
            ("with a metadata member", "metadata.tier%3Agold"),
            ("of a model", "models%3Agpt-4o"),
            ("with a kind of step, of a prompt", "kinds%3ATOOL%20prompts%3Aprompt-4"),
            ("of a model nobody has", "models%3Anobody"),
        ] {
            self.page(&format!("traces {what}"), PAGE, |_| list(q)).await?;
        }
        for sort in ["-latency", "-totalCost", "-totalTokens", "-errorCount", "-score.quality"] {
            let what = format!("traces by {sort}");
            self.page(&what, PAGE, |_| format!("{base}/traces?sort={sort}")).await?;
        }
        self.page("page 20 of the traces", PAGE, |_| format!("{base}/traces?page=20")).await?;
        self.page("values to filter by", CHART, |_| format!("{base}/_/traces/facets?")).await?;
        for (what, time) in [("a week", ""), ("all time", "from=2010-01-01")] {
            self.page(&format!("traces over {what}"), CHART, |_| {
                format!("{base}/_/traces/bars?{time}")
            })
            .await?;
        }
        for (what, query) in [
            ("observations", ""),
            ("observations, last page", "?before=end"),
            ("observations with errors", "?q=level%3AERROR"),
            ("observations of a model", "?q=type%3AGENERATION+latency%3A%3E0"),
            ("observations by a filter without an index", "?q=statusMessage%3A~nowhere"),
        ] {
            self.page(what, PAGE, |_| format!("{base}/observations{query}")).await?;
        }
        self.scores_and_searches().await
    }

    async fn scores_and_searches(&mut self) -> anyhow::Result<()> {
        let base = self.base.clone();
        self.page("scores", PAGE, |_| format!("{base}/scores")).await?;
        self.page("scores of a name", PAGE, |_| format!("{base}/scores?name=quality")).await?;
        self.page("scores by a filter that no index tells", PAGE, |_| {
            format!("{base}/scores?q=comment%3A~nowhere&superseded=1")
        })
        .await?;
        self.page("what a filter may go on with", SUGGESTIONS, |at| {
            let prefixes = ["level%3A", "name%3Ach", "score.", "user"];
            format!("{base}/_/traces/suggest?q={}", prefixes[at as usize % prefixes.len()])
        })
        .await?;
        for (what, rest) in EVALUATION {
            self.page(what, PAGE, |_| format!("{base}/{rest}")).await?;
        }
        self.page("instance", PAGE, |_| "/instance".to_owned()).await?;
        for (what, rest) in [
            ("statistics of a score", "scores/analytics?a=quality"),
            ("thresholds of a score", "scores/thresholds?name=quality"),
        ] {
            self.page(what, STATISTICS, |_| format!("{base}/{rest}")).await?;
        }
        self.page("palette", SUGGESTIONS, |at| format!("{base}/_/search?q=user-{}", at % 10))
            .await?;
        Ok(())
    }

    async fn details(&mut self, filled: data::Filled) -> anyhow::Result<()> {
        let base = self.base.clone();
        let trace = |at: u64| trace_id(at * 97 % filled.n_traces);
        self.page("a trace", PAGE, |at| format!("{base}/traces/{}", trace(at))).await?;
        self.page("a trace opened from a list", PAGE, |at| {
            format!("{base}/traces/{}?in=%2Ftraces%3Fsort%3D-latency", trace(at))
        })
        .await?;
        self.page("two traces compared", PAGE, |at| {
            format!("{base}/traces/compare?a={}&b={}", trace(at), trace(at + 1))
        })
        .await?;
        let [large, other] = [data::LARGE_TRACE, data::OTHER_LARGE].map(trace_id);
        let compared = format!("{base}/traces/compare?a={large}&b={other}");
        let (first, _) = self.open(&compared).await?;
        self.figures.push(figure(
            "two traces of 5,000 compared, the first time",
            first.as_secs_f64() * 1e3,
            "ms",
            Bar::AtMost(FIRST * COMPARED.0),
        ));
        self.page("two traces of 5,000 compared", COMPARED, |_| compared.clone()).await?;
        for view in ["time", "thread", "log"] {
            let what = format!("a trace as {view}");
            self.page(&what, PAGE, |at| format!("{base}/traces/{}?v={view}", trace(at))).await?;
        }
        self.page("pane of a trace", FRAGMENT, |at| {
            format!("{base}/_/traces/{}/detail", trace(at))
        })
        .await?;
        self.page("tree of a value", FRAGMENT, |at| {
            format!("{base}/_/value?trace={}&part=metadata&as=tree", trace(at))
        })
        .await?;
        self.page("sessions", PAGE, |_| format!("{base}/sessions")).await?;
        self.page("a session", PAGE, |at| format!("{base}/sessions/session-{}", at * 31)).await?;
        let long = format!("{base}/sessions/{}", data::LONG_SESSION);
        self.page("a session of 20,000 traces", PAGE, |_| long.clone()).await?;
        self.page("turns in the middle of a session of 20,000 traces", PAGE, |at| {
            format!("{long}?turn={}", 1 + at * 97)
        })
        .await?;
        self.page("users", PAGE, |_| format!("{base}/users")).await?;
        for (what, list) in [
            ("sessions with errors", "sessions?q=errorCount%3A%3E0"),
            ("users with errors", "users?q=errorCount%3A%3E0"),
            ("sessions of a user", "sessions?q=userId%3Auser-7"),
        ] {
            self.page(what, PAGE, |_| format!("{base}/{list}")).await?;
        }
        self.page("a user", PAGE, |at| format!("{base}/users/{}", data::user_of(at * 97))).await?;
        self.page("rules", PAGE, |_| format!("{base}/rules")).await?;
        Ok(())
    }

    /// Two figures: the 95th percentile in milliseconds after a first request, and the most bytes.
    async fn page(
        &mut self,
        what: &str,
        Budget(most_ms, most_bytes): Budget,
        path: impl Fn(u64) -> String,
    ) -> anyhow::Result<()> {
        let (first, _) = self.open(&path(0)).await?;
        let n = match first.as_millis() {
            0..=300 => N_REQUESTS,
            _ => N_SLOW,
        };
        let (mut took, mut most) = (Vec::new(), 0);
        for at in 1..=n {
            let (elapsed, n_bytes) = self.open(&path(at)).await?;
            took.push(elapsed);
            most = most.max(n_bytes);
        }
        took.sort_unstable();
        let p95 = quantile(&took, 0.95).as_secs_f64() * 1e3;
        eprintln!("pages: {what}: p95 {p95:.1} ms, {most} bytes");
        self.figures.push(figure(&format!("{what}: p95"), p95, "ms", Bar::AtMost(most_ms)));
        let most = most as f64;
        self.figures.push(figure(
            &format!("{what}: at most"),
            most,
            "bytes",
            Bar::AtMost(most_bytes),
        ));
        Ok(())
    }

    /// The files that a first visit loads in addition to the page.
    async fn files(&mut self) -> anyhow::Result<()> {
        let (_, body) = self.connection.plain_page(&self.base, &self.cookie).await?;
        let text = String::from_utf8_lossy(&body).into_owned();
        let files = text.split('"').filter(|part| part.starts_with("/assets/"));
        let files: std::collections::BTreeSet<&str> = files.collect();
        let mut sum = 0;
        for file in files {
            sum += self.open(file).await?.1;
        }
        self.figures.push(figure(
            "files of a first visit",
            sum as f64,
            "bytes",
            Bar::AtMost(45_000.0),
        ));
        Ok(())
    }

    /// Traces of 50,000 observations.
    async fn large(&mut self) -> anyhow::Result<()> {
        let base = self.base.clone();
        let mut first = Vec::new();
        for huge in 0..HUGE_TRACES {
            let path = format!("{base}/traces/{}", trace_id(HUGE - huge));
            first.push(self.open(&path).await?.0);
        }
        first.sort_unstable();
        let slowest = first.last().context("no large trace")?.as_secs_f64() * 1e3;
        let what = "a trace of 50,000, the first time: slowest";
        self.figures.push(figure(what, slowest, "ms", Bar::AtMost(250.0)));
        let trace = trace_id(HUGE);
        let page = format!("{base}/traces/{trace}");
        self.page("a trace of 50,000", LARGE, |_| page.clone()).await?;
        self.page("a trace of 50,000 as log", LARGE, |at| format!("{page}?v=log&at={}", at * 211))
            .await?;
        self.page("rows of a trace of 50,000", ROWS, |at| {
            format!("{base}/_/traces/{trace}/rows?trace&group=0&at={}&n=200", at * 223)
        })
        .await
    }
}
