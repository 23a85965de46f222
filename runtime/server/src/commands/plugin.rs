//! `perpend plugin`: arguments of the plug-in commands, which are implemented in the crate `plugin-cli`.

use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use clap::{Args, Subcommand};
use perpend_config::SettingArgs;
use perpend_domain::bundle::Bundle;
use perpend_domain::time::Clock as _;
use perpend_plugin_cli::{
    Baseline, BenchParams, Error, Language, Plain, Progress, Project, Registry, Report, Sandbox,
    Selection, Silent, Snapshot, Terminal, Tools, Workbench,
};
use serde_json::json;

use super::common::print_line;
use super::plugin_add;
use super::plugin_remote::{Access, ServerRemote, TIMEOUT};
use crate::SystemClock;

/// `perpend plugin` with its common options.
#[derive(Debug, Args)]
pub(super) struct PluginArgs {
    #[command(subcommand)]
    command: PluginCommand,
    /// Print the result as JSON
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum PluginCommand {
    /// Create a project with sample items and tests
    #[command(after_help = "Example:\n  perpend plugin new acme/tone --lang python")]
    New {
        /// Name of the plug-in: NAME or VENDOR/NAME
        name: String,
        /// rust, javascript, typescript, python, go or c
        #[arg(long)]
        lang: Language,
        /// Directory to create [default: NAME]
        #[arg(long)]
        dir: Option<PathBuf>,
    },
    /// Build plugin.wasm with the toolchain of the project's language
    #[command(after_help = "Example:\n  perpend plugin build --project ./tone\n\n\
        Tools are searched for in the project (node_modules, .venv), in $PERPEND_TOOLCHAINS and in PATH.")]
    Build {
        /// Directory of the project
        #[arg(long, value_name = "DIR", default_value = ".")]
        project: PathBuf,
    },
    /// Update the SDK and the contract in a project; in your files, only renamed imports are changed
    #[command(after_help = "Example:\n  perpend plugin update && perpend plugin build")]
    Update {
        /// Directory of the project
        #[arg(long, value_name = "DIR", default_value = ".")]
        project: PathBuf,
    },
    /// Run the checks of a registration, and check that equal calls give equal results
    #[command(after_help = "Example:\n  perpend plugin check plugin.wasm")]
    Check {
        #[command(flatten)]
        selected: Selected,
    },
    /// Score items with one evaluator, with the sandbox and limits of a server
    #[command(after_help = "Examples:\n  \
        perpend plugin run --watch\n  \
        perpend plugin run plugin.wasm --evaluator max-length --config '{\"max_chars\": 5}' --items items.jsonl")]
    Run {
        #[command(flatten)]
        selected: Selected,
        /// File with model replies, one per line: a text or {"structured": JSON}
        #[arg(long, value_name = "FILE")]
        answers: Option<PathBuf>,
        /// Build and run again after each change of a file in the project
        #[arg(long)]
        watch: bool,
    },
    /// Compare scores with the expected ones in tests.jsonl
    #[command(after_help = "Example:\n  perpend plugin test\n\n\
        A line of tests.jsonl:\n  \
        {\"name\": \"short passes\", \"evaluator\": \"max-length\", \"config\": {\"max_chars\": 5}, \
        \"item\": {\"output\": \"hello\"}, \"scores\": {\"within_limit\": true}}\n  \
        \"error\": \"invalid_input\" instead of \"scores\" expects a failure; \"answers\": [...] are \
        model replies.")]
    Test {
        /// The component
        #[arg(value_name = "FILE")]
        file: Option<PathBuf>,
        /// File with tests [default: tests.jsonl next to the component]
        #[arg(long, value_name = "FILE")]
        tests: Option<PathBuf>,
    },
    /// Measure calls per second, median and p99, compared with a minimal evaluator
    #[command(after_help = "Example:\n  perpend plugin bench --seconds 5 --threads 2")]
    Bench {
        #[command(flatten)]
        selected: Selected,
        /// Duration of each measurement, in seconds
        #[arg(long, default_value_t = 2.0)]
        seconds: f64,
        /// Number of threads
        #[arg(long, default_value_t = 1)]
        threads: usize,
    },
    /// Register a component at a server; a component that is already registered is not sent again
    #[command(after_help = "Example:\n  \
        PERPEND_PUBLIC_KEY=pk-... PERPEND_SECRET_KEY=sk-... perpend plugin push --server http://127.0.0.1:4717")]
    Push {
        /// The component
        #[arg(value_name = "FILE")]
        file: Option<PathBuf>,
        #[command(flatten)]
        access: Access,
    },
    /// Compile and register a first-party component for all projects; requires access to the database of the server
    #[command(after_help = "Examples:\n  perpend plugin add perpend/python --data-dir ./data\n  \
        perpend plugin add python.wasm --data-dir ./data")]
    Add {
        /// The component: a .wasm or .wasm.zst file, or the name of a component in the installation
        #[arg(value_name = "FILE|NAME")]
        file: PathBuf,
        #[command(flatten)]
        settings: SettingArgs,
    },
    /// List the plug-ins of a server
    #[command(after_help = "Example:\n  perpend plugin list --json")]
    List {
        #[command(flatten)]
        access: Access,
    },
    /// Show a plug-in of a server: versions, uses and configurations
    #[command(after_help = "Example:\n  perpend plugin show acme/tone@1.2.0")]
    Show {
        /// NAME, NAME@VERSION, or a prefix of a digest
        reference: String,
        #[command(flatten)]
        access: Access,
    },
    /// Create versions of evaluators that use an earlier version of a plug-in
    #[command(after_help = "Example:\n  perpend plugin rollback acme/tone --to 1.1.0 --dry-run")]
    Rollback {
        /// Name of the plug-in, VENDOR/NAME
        name: String,
        /// The version to use [default: the one before the newest registered version]
        #[arg(long)]
        to: Option<String>,
        /// Show the changes without applying them
        #[arg(long)]
        dry_run: bool,
        #[command(flatten)]
        access: Access,
    },
}

/// A component with the evaluator and the items to run it on.
#[derive(Clone, Debug, Args)]
struct Selected {
    /// The component [default: plugin.wasm]
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// Id of the evaluator [default: the only one in the component]
    #[arg(long, value_name = "ID")]
    evaluator: Option<String>,
    /// Configuration of the evaluator, or @FILE [default: {}]
    #[arg(long, value_name = "JSON")]
    config: Option<String>,
    /// File with items, one JSON object per line [default: items.jsonl next to the component]
    #[arg(long, value_name = "FILE")]
    items: Option<PathBuf>,
}

impl Selected {
    fn selection(self) -> Selection {
        Selection {
            file: self.file,
            evaluator: self.evaluator,
            config: self.config,
            items: self.items,
            answers: None,
        }
    }
}

/// Runs a command and prints its result.
pub(super) fn plugin(args: PluginArgs, bundle: Bundle) -> anyhow::Result<ExitCode> {
    let as_json = args.json;
    let progress: Box<dyn Progress> = match std::io::stderr().is_terminal() {
        _ if as_json => Box::new(Silent),
        true => Box::new(Terminal::default()),
        false => Box::new(Plain::default()),
    };
    if let PluginCommand::Run { selected, answers, watch: true } = args.command {
        let mut selection = selected.selection();
        selection.answers = answers;
        return watch(&selection, &*progress, as_json);
    }
    print_report(run_command(args.command, bundle, &*progress), as_json)
}

/// Prints a report; with `as_json`, errors are JSON too.
fn print_report(result: anyhow::Result<Report>, as_json: bool) -> anyhow::Result<ExitCode> {
    let report = match result {
        Ok(report) => report,
        Err(error) if as_json => {
            print_line(&json!({ "error": format!("{error:#}") }).to_string());
            return Ok(ExitCode::FAILURE);
        }
        Err(error) => return Err(error),
    };
    match as_json {
        true => print_line(&format!("{:#}", report.json)),
        false => print_line(report.text.trim_end()),
    }
    Ok(match report.is_ok {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

fn run_command(
    command: PluginCommand,
    bundle: Bundle,
    progress: &dyn Progress,
) -> anyhow::Result<Report> {
    let tools = Tools::from_env();
    Ok(match command {
        PluginCommand::New { name, lang, dir } => {
            let short = name.rsplit('/').next().unwrap_or(&name);
            let dir = dir.unwrap_or_else(|| short.into());
            created_report(
                &perpend_plugin_cli::new(&name, lang, &dir, &tools).map_err(Error::New)?,
                &dir,
            )
        }
        PluginCommand::Build { project } => built(&Project::open(&project, &tools)?, progress)?,
        PluginCommand::Update { project } => updated(&Project::open(&project, &tools)?)?,
        PluginCommand::Check { selected } => {
            let selection = selected.selection();
            note(perpend_plugin_cli::outdated(&selection.folder()));
            with_workbench(progress, |bench| bench.check(&selection))?
        }
        PluginCommand::Run { selected, answers, .. } => {
            let mut selection = selected.selection();
            selection.answers = answers;
            note(perpend_plugin_cli::outdated(&selection.folder()));
            with_workbench(progress, |bench| bench.run(&selection))?
        }
        PluginCommand::Test { file, tests } => {
            let selection = Selection { file, ..Selection::default() };
            note(perpend_plugin_cli::outdated(&selection.folder()));
            with_workbench(progress, |bench| bench.test(&selection, tests))?
        }
        PluginCommand::Bench { selected, seconds, threads } => {
            let measure = measure(seconds, threads)?;
            bench(&selected.selection(), measure, bundle, progress)?
        }
        PluginCommand::Push { file, access } => push(file, &access, progress)?,
        PluginCommand::Add { file, settings } => {
            plugin_add::add(&file, &settings, bundle, progress)?
        }
        PluginCommand::List { access } => {
            Registry::of(&ServerRemote::new(&access, TIMEOUT)?).list()?
        }
        PluginCommand::Show { reference, access } => {
            Registry::of(&ServerRemote::new(&access, TIMEOUT)?).show(&reference)?
        }
        PluginCommand::Rollback { name, to, dry_run, access } => Registry::of(&ServerRemote::new(
            &access, TIMEOUT,
        )?)
        .rollback(&name, to.as_deref(), dry_run)?,
    })
}

/// Prints a note to standard error.
fn note(text: Option<String>) {
    if let Some(text) = text {
        let _ = writeln!(std::io::stderr(), "note: {text}");
    }
}

fn created_report(project: &Project, dir: &Path) -> Report {
    let shown = dir.display();
    let name = &project.manifest().name;
    // Tools that the build requires.
    let missing = perpend_plugin_cli::missing(project);
    let steps: Vec<String> = missing
        .iter()
        .map(|step| format!("\n  {step}"))
        .chain(["\n  perpend plugin build".to_owned(), "\n  perpend plugin run".to_owned()])
        .collect();
    Report {
        text: format!(
            "{name} was created in {shown}, in {}\n  cd {shown}{}",
            project.language(),
            steps.concat()
        ),
        json: json!({
            "name": name, "language": project.language(), "folder": project.dir(), "install": missing,
        }),
        is_ok: true,
    }
}

fn updated(project: &Project) -> anyhow::Result<Report> {
    let files = perpend_plugin_cli::update(project)?;
    let files: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    let version = perpend_plugin_cli::TEMPLATE_VERSION;
    let renamed = match files.is_empty() {
        true => String::new(),
        false => format!(
            "\nthe SDK is now imported as perpend_plugin, also in {}; change names in strings, such as arguments of \
             mock.patch, yourself",
            files.join(", ")
        ),
    };
    Ok(Report {
        text: format!(
            "perpend/ was updated to version {version}; `perpend plugin build` uses it{renamed}"
        ),
        json: json!({ "template": version, "renamedImports": files }),
        is_ok: true,
    })
}

fn built(project: &Project, progress: &dyn Progress) -> anyhow::Result<Report> {
    let age = perpend_plugin_cli::age(project);
    note(age.clone());
    let component = perpend_plugin_cli::build(project, progress).map_err(Error::Build)?;
    let size = component.metadata()?.len();
    Ok(Report {
        text: format!("{} ({} KiB)", component.display(), size.div_ceil(1024)),
        json: json!({ "component": component, "sizeBytes": size, "note": age }),
        is_ok: true,
    })
}

/// The cache directory of compiled components.
fn cache_dir() -> PathBuf {
    let folder = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let cache = folder("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| folder("HOME").map(|home| PathBuf::from(home).join(".cache")));
    match cache {
        Some(cache) => cache.join("perpend/components"),
        None => std::env::temp_dir().join("perpend-components"),
    }
}

fn workbench<'b>(sandbox: &'b Sandbox, progress: &'b dyn Progress) -> Workbench<'b> {
    Workbench {
        sandbox,
        progress,
        now_ms: u64::try_from(SystemClock.now().as_millis()).unwrap_or_default(),
    }
}

fn with_workbench(
    progress: &dyn Progress,
    run: impl FnOnce(&Workbench<'_>) -> Result<Report, Error>,
) -> anyhow::Result<Report> {
    let program = std::env::current_exe().context("cannot determine the path of this program")?;
    let sandbox = Sandbox::processes(program, cache_dir())?;
    Ok(run(&workbench(&sandbox, progress))?)
}

fn measure(seconds: f64, n_threads: usize) -> anyhow::Result<BenchParams> {
    let time = Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|time| !time.is_zero() && n_threads > 0)
        .context("--seconds and --threads must be greater than 0")?;
    Ok(BenchParams { time, n_threads })
}

fn bench(
    selection: &Selection,
    measure: BenchParams,
    bundle: Bundle,
    progress: &dyn Progress,
) -> anyhow::Result<Report> {
    let floor = bundle
        .first_party("perpend/text")
        .map(|plugin| Baseline { component: plugin.bytes, evaluator: "exact-match" });
    let sandbox = Sandbox::in_process(cache_dir())?;
    Ok(workbench(&sandbox, progress).bench(selection, floor, measure)?)
}

fn push(file: Option<PathBuf>, access: &Access, progress: &dyn Progress) -> anyhow::Result<Report> {
    let remote = ServerRemote::new(access, TIMEOUT)?;
    let selection = Selection { file, ..Selection::default() };
    note(perpend_plugin_cli::outdated(&selection.folder()));
    let program = std::env::current_exe().context("cannot determine the path of this program")?;
    let sandbox = Sandbox::processes(program, cache_dir())?;
    // Runs the checks of the server before anything is sent.
    let component = workbench(&sandbox, progress).open(&selection.component())?;
    progress.step(&format!("pushing {}", component.info.name));
    let report = Registry::of(&remote).push(&component);
    progress.done();
    Ok(report?)
}

/// Builds and runs after each change, until interrupted.
fn watch(
    selection: &Selection,
    progress: &dyn Progress,
    as_json: bool,
) -> anyhow::Result<ExitCode> {
    let folder = selection.folder();
    let snapshot = || {
        let mut files = Snapshot::of(&folder).and(&selection.items());
        if !folder.join(perpend_plugin_cli::MANIFEST).is_file() {
            files = files.and(&selection.component());
        }
        files
    };
    let program = std::env::current_exe().context("cannot determine the path of this program")?;
    let sandbox = Sandbox::processes(program, cache_dir())?;
    let once = || -> anyhow::Result<Report> {
        if folder.join(perpend_plugin_cli::MANIFEST).is_file() {
            built(&Project::open(&folder, &Tools::from_env())?, progress)?;
        }
        Ok(workbench(&sandbox, progress).run(selection)?)
    };
    loop {
        let before = snapshot();
        if let Err(error) = print_report(once(), as_json) {
            let _ = writeln!(std::io::stderr(), "perpend: {error:#}");
        }
        note(Some(format!("waiting for changes in {}; press Ctrl-C to stop", folder.display())));
        perpend_plugin_cli::changed(&before, &snapshot);
    }
}
