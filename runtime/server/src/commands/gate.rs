//! `perpend gate`: checks a run against requirements and a baseline.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Args;
use perpend_experiments::comparison::DirectionSource;
use perpend_experiments::gate::{GateReport, GateRuns};
use perpend_experiments::report::{Links, encoded, gate_junit, gate_markdown, gate_text};
use perpend_experiments::run_file::RunFile;
use perpend_experiments::{CompareOptions, GateConfig};
use perpend_plugin_cli::Remote as _;
use serde_json::json;

use super::experiments_remote::{project, run_id, succeeded};
use super::plugin_remote::{Access, ServerRemote, TIMEOUT};

/// Exit status for a configuration or a connection that cannot be used.
pub(super) const UNUSABLE: u8 = 3;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    perpend gate --run \"new prompt\" --baseline branch:main --config gate.toml\n  \
    perpend gate --result new.json --baseline old.json --junit gate.xml\n\n\
    Exit status: 0 passed, 1 a requirement failed, 2 undecided, 3 configuration or connection, 4 the run cost too much")]
pub(super) struct GateArgs {
    /// Id or name of the run
    #[arg(long, value_name = "RUN", required_unless_present = "result", conflicts_with = "result")]
    run: Option<String>,
    /// A file with the results of the run, as `perpend experiment show RUN --json --items` prints it; needs no server
    #[arg(long, value_name = "FILE")]
    result: Option<PathBuf>,
    /// The baseline: id or name of a run, or `branch:NAME` for the newest run whose metadata have this `branch`; with
    /// --result a file
    #[arg(long, value_name = "REF")]
    baseline: Option<String>,
    /// The requirements
    #[arg(long, value_name = "FILE", default_value = "gate.toml")]
    config: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Also write JUnit XML to this file
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Also list each item with each metric of the requirements: in the JSON, and as cases in JUnit XML
    #[arg(long)]
    items: bool,
    /// Also write Markdown for a pull request to this file
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    #[command(flatten)]
    access: Access,
}

pub(super) fn gate(args: &GateArgs) -> anyhow::Result<ExitCode> {
    match checked(args) {
        Ok(code) => Ok(ExitCode::from(code)),
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "perpend: {error:#}");
            Ok(ExitCode::from(UNUSABLE))
        }
    }
}

fn checked(args: &GateArgs) -> anyhow::Result<u8> {
    let path = args.config.display();
    let text =
        std::fs::read_to_string(&args.config).with_context(|| format!("cannot read {path}"))?;
    let config = GateConfig::from_toml(&text).with_context(|| format!("{path} is invalid"))?;
    let (report, links) = match &args.result {
        Some(file) => (of_files(&config, file, args)?, None),
        None => on_server(&config, args)?,
    };
    let mut out = std::io::stdout().lock();
    match args.json {
        true => writeln!(out, "{}", serde_json::to_string_pretty(&report)?)?,
        false => write!(out, "{}", gate_text(&report))?,
    }
    if let Some(path) = &args.junit {
        write(path, &gate_junit(&report))?;
    }
    if let Some(path) = &args.markdown {
        write(path, &gate_markdown(&report, links.as_ref()))?;
    }
    Ok(report.outcome.exit_code())
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

fn on_server(config: &GateConfig, args: &GateArgs) -> anyhow::Result<(GateReport, Option<Links>)> {
    let remote = ServerRemote::new(&args.access, TIMEOUT)?;
    let run = args.run.as_deref().unwrap_or_default();
    let id = run_id(&remote, run)?;
    let mut body = json!({ "config": config, "baseline": args.baseline });
    if args.items {
        // Servers of older versions refuse the member.
        body["items"] = true.into();
    }
    let body = serde_json::to_vec(&body)?;
    let path = format!("/api/v1/experiments/{}/gates", encoded(&id));
    let answer = remote.send("POST", &path, Some(("application/json", body)));
    let answer = succeeded(answer.map_err(anyhow::Error::msg)?)?;
    let report = serde_json::from_value(answer["report"].clone())
        .context("the server returned a report in an unsupported format")?;
    let address = remote.address().trim_end_matches('/');
    let links =
        project(&remote).map(|id| Links { project: format!("{address}/project/{}", encoded(&id)) });
    Ok((report, links))
}

/// Checks the results in a file against those in another one.
fn of_files(config: &GateConfig, result: &Path, args: &GateArgs) -> anyhow::Result<GateReport> {
    let cluster_by = &config.stats.cluster_by;
    anyhow::ensure!(
        cluster_by == "item",
        "`stats.cluster_by` must be `item` with --result, because files have no metadata of items; got `{cluster_by}`"
    );
    let mut options = CompareOptions::default();
    let run = read(result, &mut options)?;
    let baseline = args.baseline.as_deref();
    let baseline = baseline.map(|path| read(Path::new(path), &mut options)).transpose()?;
    let runs = GateRuns { run, baseline };
    Ok(match args.items {
        true => perpend_experiments::gate_with_items(config, runs, &options)?,
        false => perpend_experiments::gate(config, runs, &options)?,
    })
}

fn read(
    path: &Path,
    options: &mut CompareOptions,
) -> anyhow::Result<perpend_domain::experiment::RunResults> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {shown}"))?;
    let file = RunFile::from_json(&text).with_context(|| format!("{shown} is invalid"))?;
    let results = file.results().with_context(|| format!("{shown} is invalid"))?;
    for (score, direction) in file.directions {
        let definition = options.scores.entry(score).or_default();
        definition.direction.get_or_insert((direction, DirectionSource::Request));
    }
    for (score, categories) in file.categories {
        let definition = options.scores.entry(score).or_default();
        if definition.categories.is_empty() {
            definition.categories = categories;
        }
    }
    Ok(results)
}
