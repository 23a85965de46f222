//! `perpend dataset`: import and export of the items of a dataset.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use clap::{Args, Subcommand, ValueEnum};
use perpend_plugin_cli::{Remote as _, RemoteResponse};
use serde_json::{Value, json};

use super::plugin_remote::{Access, ServerRemote};
use super::wait::wait_for;

/// Timeout of a request: an upload or a download of a large file.
const TIMEOUT: Duration = Duration::from_secs(30 * 60);
/// Exit status of an import with rejected rows. 1 is a failure of the command, 2 an invalid argument.
const REJECTED: u8 = 3;

#[derive(Debug, Args)]
pub(super) struct DatasetArgs {
    #[command(subcommand)]
    command: DatasetCommand,
}

#[derive(Debug, Subcommand)]
enum DatasetCommand {
    /// Import a file of items: CSV, TSV, JSON Lines or JSON
    #[command(after_help = "Examples:\n  \
        perpend dataset import questions.csv --dataset questions --create\n  \
        perpend dataset import log.tsv --dataset q --map question=input.question --map answer=expectedOutput --check\n\n\
        Exit status: 0 all rows are imported, 1 the import failed, 3 some rows were rejected")]
    Import(ImportArgs),
    /// Write the items of a dataset to a file that can be imported
    Export(ExportArgs),
}

#[derive(Debug, Args)]
struct ImportArgs {
    /// The file
    file: PathBuf,
    /// Name of the dataset
    #[arg(long, value_name = "NAME")]
    dataset: String,
    /// Create the dataset if it does not exist
    #[arg(long)]
    create: bool,
    /// Format of the file [default: by its extension and content]
    #[arg(long)]
    format: Option<Format>,
    /// Character encoding, such as utf-8 or windows-1252 [default: by the content]
    #[arg(long, value_name = "LABEL")]
    encoding: Option<String>,
    /// Delimiter of cells [default: by the content]
    #[arg(long, value_name = "CHARACTER")]
    delimiter: Option<String>,
    /// The first line has values, not column names
    #[arg(long)]
    no_header: bool,
    /// A column and its target: `id`, `input`, `expectedOutput` or `metadata`, with keys after points, and a type after a
    /// colon: text, number, boolean or json [default: by the names of the columns]
    #[arg(long = "map", value_name = "COLUMN=TARGET[:TYPE]")]
    mapping: Vec<String>,
    /// Rows whose id exists
    #[arg(long, value_enum, default_value_t = Duplicates::Update)]
    duplicates: Duplicates,
    /// Check all rows without importing them
    #[arg(long)]
    check: bool,
    /// Write the problems of rejected rows to this file: JSON Lines if it ends in .jsonl, else CSV
    #[arg(long, value_name = "FILE")]
    rejected: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    access: Access,
}

#[derive(Debug, Args)]
struct ExportArgs {
    /// Name of the dataset
    #[arg(long, value_name = "NAME")]
    dataset: String,
    /// Format [default: by the extension of --output, else jsonl]
    #[arg(long)]
    format: Option<Format>,
    /// Items as of this time, such as 2026-03-01T10:00:00Z
    #[arg(long, value_name = "TIME")]
    version: Option<String>,
    /// The file [default: standard output]
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    access: Access,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Csv,
    Tsv,
    Jsonl,
    Json,
}

impl Format {
    const fn name(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::Tsv => "tsv",
            Self::Jsonl => "jsonl",
            Self::Json => "json",
        }
    }

    fn of_path(path: &Path) -> Option<Self> {
        let extension = path.extension()?.to_str()?;
        Self::from_str(extension, true).ok()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Duplicates {
    /// Keep the item unchanged
    Skip,
    /// Create a new version of the item
    Update,
    /// Stop the import
    Stop,
}

impl Duplicates {
    const fn name(self) -> &'static str {
        match self {
            Self::Skip => "skip",
            Self::Update => "update",
            Self::Stop => "stop",
        }
    }
}

pub(super) fn dataset(args: &DatasetArgs) -> anyhow::Result<ExitCode> {
    match &args.command {
        DatasetCommand::Import(args) => import(args),
        DatasetCommand::Export(args) => export(args),
    }
}

/// A path segment or a query value.
fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                encoded.push(char::from(byte));
            }
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

fn succeeded(answer: RemoteResponse) -> anyhow::Result<Value> {
    if matches!(answer.status, 200 | 201) {
        return Ok(answer.body);
    }
    let detail = answer.body["detail"].as_str().or_else(|| answer.body["message"].as_str());
    anyhow::bail!("the server returned {}: {}", answer.status, detail.unwrap_or_default())
}

fn send(
    remote: &ServerRemote,
    method: &str,
    path: &str,
    body: Option<&Value>,
) -> anyhow::Result<Value> {
    let body = body.map(serde_json::to_vec).transpose()?;
    let body = body.map(|body| ("application/json", body));
    succeeded(remote.send(method, path, body).map_err(anyhow::Error::msg)?)
}

/// `COLUMN=TARGET[:TYPE]` as an element of `mapping`. The name of a column may contain `=`.
fn mapping(raw: &str) -> anyhow::Result<Value> {
    let (column, place) = raw
        .rsplit_once('=')
        .with_context(|| format!("--map must be COLUMN=TARGET[:TYPE], got {raw:?}"))?;
    let (place, kind) = place.rsplit_once(':').unwrap_or((place, "text"));
    let mut keys = place.split('.');
    let target = keys.next().unwrap_or_default();
    let path: Vec<&str> = keys.collect();
    Ok(json!({ "column": column, "target": target, "path": path, "type": kind }))
}

fn import(args: &ImportArgs) -> anyhow::Result<ExitCode> {
    let remote = ServerRemote::new(&args.access, TIMEOUT)?;
    let mapping = args.mapping.iter().map(|raw| mapping(raw)).collect::<Result<Vec<_>, _>>()?;
    if args.create {
        let body = json!({ "name": args.dataset });
        send(&remote, "POST", "/api/public/v2/datasets", Some(&body))?;
    }
    let base = format!("/api/v1/datasets/{}", encode(&args.dataset));
    let uploaded = upload(&remote, &base, args)?;
    let id = uploaded["id"].as_str().unwrap_or_default();
    let path = format!("{base}/imports/{}", encode(id));
    if !mapping.is_empty() {
        send(&remote, "PATCH", &path, Some(&json!({ "mapping": mapping })))?;
    }
    let stage = if args.check { "check" } else { "start" };
    send(&remote, "POST", &format!("{path}/{stage}"), None)?;
    let done = wait(&remote, &path)?;
    if let Some(file) = &args.rejected {
        let format = Format::of_path(file).filter(|format| *format == Format::Jsonl);
        let format = format.map_or("csv", Format::name);
        download(&remote, &format!("{path}/rejected?format={format}"), Some(file))?;
    }
    let mut out = std::io::stdout().lock();
    match args.json {
        true => writeln!(out, "{done:#}")?,
        false => write!(out, "{}", report_text(&done))?,
    }
    let n_invalid = done["progress"]["invalid"].as_u64().unwrap_or_default();
    Ok(match (done["state"].as_str(), n_invalid) {
        (Some("completed" | "checked"), 0) => ExitCode::SUCCESS,
        (Some("completed" | "checked"), _) => ExitCode::from(REJECTED),
        _ => ExitCode::FAILURE,
    })
}

fn upload(remote: &ServerRemote, base: &str, args: &ImportArgs) -> anyhow::Result<Value> {
    let name = args.file.file_name().unwrap_or_default().to_string_lossy();
    let mut path =
        format!("{base}/import?fileName={}&duplicates={}", encode(&name), args.duplicates.name());
    let options = [
        ("format", args.format.map(|format| format.name().to_owned())),
        ("encoding", args.encoding.clone()),
        ("delimiter", args.delimiter.clone()),
        ("header", args.no_header.then(|| "false".to_owned())),
    ];
    for (option, value) in options {
        if let Some(value) = value {
            path.push_str(&format!("&{option}={}", encode(&value)));
        }
    }
    succeeded(remote.post_file(&path, &args.file)?)
}

/// Waits for the end of a stage.
fn wait(remote: &ServerRemote, path: &str) -> anyhow::Result<Value> {
    let read = || send(remote, "GET", path, None);
    wait_for("{bar:40} {pos}% {msg}", read, |bar, import| {
        bar.set_length(100);
        let progress = &import["progress"];
        bar.set_position((progress["share"].as_f64().unwrap_or_default() * 100.0) as u64);
        bar.set_message(format!("{} rows, {} invalid", progress["rows"], progress["invalid"]));
        !matches!(import["state"].as_str(), Some("checking" | "importing"))
    })
}

fn report_text(import: &Value) -> String {
    let progress = &import["progress"];
    let rows = if progress["rows"] == 1 { "row" } else { "rows" };
    let mut text = format!(
        "{}: {} {rows}: {} created, {} updated, {} unchanged, {} skipped, {} rejected\n",
        import["state"].as_str().unwrap_or_default(),
        progress["rows"],
        progress["created"],
        progress["updated"],
        progress["unchanged"],
        progress["skipped"],
        progress["invalid"]
    );
    if let Some(error) = import["error"].as_str() {
        text.push_str(&format!("  {error}\n"));
    }
    text
}

/// Writes a response to a file, or to standard output.
fn download(remote: &ServerRemote, path: &str, file: Option<&Path>) -> anyhow::Result<()> {
    let mut out: Box<dyn Write + Send> = match file {
        Some(file) => {
            let created = File::create(file);
            Box::new(created.with_context(|| format!("{} cannot be written", file.display()))?)
        }
        None => Box::new(std::io::stdout()),
    };
    let mut out = BufWriter::new(&mut out);
    if let Some(refused) = remote.download(path, &mut out)? {
        succeeded(refused)?;
    }
    out.flush()?;
    Ok(())
}

fn export(args: &ExportArgs) -> anyhow::Result<ExitCode> {
    let remote = ServerRemote::new(&args.access, TIMEOUT)?;
    let by_name = args.output.as_deref().and_then(Format::of_path);
    let format = args.format.or(by_name).unwrap_or(Format::Jsonl);
    let mut path =
        format!("/api/v1/datasets/{}/export?format={}", encode(&args.dataset), format.name());
    if let Some(version) = &args.version {
        path.push_str(&format!("&version={}", encode(version)));
    }
    download(&remote, &path, args.output.as_deref())?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_is_mapped_to_a_place_with_keys_and_a_type() {
        let expected = json!({
            "column": "a=b", "target": "input", "path": ["question", "text"], "type": "json",
        });
        assert_eq!(mapping("a=b=input.question.text:json").unwrap(), expected);
        let expected = json!({ "column": "q", "target": "id", "path": [], "type": "text" });
        assert_eq!(mapping("q=id").unwrap(), expected);
        assert!(mapping("q").is_err());
    }

    #[test]
    fn names_are_encoded_for_paths() {
        assert_eq!(encode("a/b ü%"), "a%2Fb%20%C3%BC%25");
    }
}
