//! `perpend plugin`: the arguments of the author's path. What the commands do is in the crate `author`.

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
    Error, Floor, Language, Measure, Plain, Progress, Project, Registry, Report, Sandbox,
    Selection, Silent, Snapshot, Terminal, Tools, Workbench,
};
use serde_json::json;

use super::kit::say;
use super::plugin_add;
use super::plugin_remote::{Access, ServerRemote, TIMEOUT};
use crate::SystemClock;

/// `perpend plugin` with what all of its commands take.
#[derive(Debug, Args)]
pub(super) struct PluginArgs {
    #[command(subcommand)]
    command: PluginCommand,
    /// Print the outcome as JSON
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum PluginCommand {
    /// Make a project that builds as it is, with sample items and tests
    #[command(after_help = "Example:\n  perpend plugin new acme/tone --lang python")]
    New {
        /// The plug-in's name: NAME, or VENDOR/NAME
        name: String,
        /// rust, javascript, typescript, python, go or c
        #[arg(long)]
        lang: Language,
        /// The folder to make [default: NAME]
        #[arg(long)]
        dir: Option<PathBuf>,
    },
    /// Build plugin.wasm with the toolchain of the project's language
    #[command(after_help = "Example:\n  perpend plugin build --project ./tone\n\n\
        Tools are looked for in the project (node_modules, .venv), in $PERPEND_TOOLCHAINS and on PATH.")]
    Build {
        /// The project's folder
        #[arg(long, value_name = "DIR", default_value = ".")]
        project: PathBuf,
    },
    /// Renew the SDK and the contract in a project; your files stay, but for imports of what was renamed
    #[command(after_help = "Example:\n  perpend plugin update && perpend plugin build")]
    Update {
        /// The project's folder
        #[arg(long, value_name = "DIR", default_value = ".")]
        project: PathBuf,
    },
    /// Check what a server checks when a plug-in is registered, and that equal calls give equal bytes
    #[command(after_help = "Example:\n  perpend plugin check plugin.wasm")]
    Check {
        #[command(flatten)]
        selected: Selected,
    },
    /// Score items with one evaluator, behind the same walls and limits as on a server
    #[command(after_help = "Examples:\n  \
        perpend plugin run --watch\n  \
        perpend plugin run plugin.wasm --evaluator max-length --config '{\"max_chars\": 5}' --items items.jsonl")]
    Run {
        #[command(flatten)]
        selected: Selected,
        /// Answers that stand in for a model: a text, or {"structured": JSON}, to a line
        #[arg(long, value_name = "FILE")]
        answers: Option<PathBuf>,
        /// Build and run again whenever a file of the project changes
        #[arg(long)]
        watch: bool,
    },
    /// Compare scores with the expected ones in tests.jsonl
    #[command(after_help = "Example:\n  perpend plugin test\n\n\
        A line of tests.jsonl:\n  \
        {\"name\": \"short passes\", \"evaluator\": \"max-length\", \"config\": {\"max_chars\": 5}, \
        \"item\": {\"output\": \"hello\"}, \"scores\": {\"within_limit\": true}}\n  \
        \"error\": \"invalid_input\" in place of \"scores\" expects a failure; \"answers\": [...] stands in \
        for a model.")]
    Test {
        /// The component
        #[arg(value_name = "FILE")]
        file: Option<PathBuf>,
        /// The tests [default: tests.jsonl beside the component]
        #[arg(long, value_name = "FILE")]
        tests: Option<PathBuf>,
    },
    /// Measure calls per second, median and p99, beside an evaluator that does next to nothing
    #[command(after_help = "Example:\n  perpend plugin bench --seconds 5 --threads 2")]
    Bench {
        #[command(flatten)]
        selected: Selected,
        /// How long each side is measured
        #[arg(long, default_value_t = 2.0)]
        seconds: f64,
        /// Threads that make calls
        #[arg(long, default_value_t = 1)]
        threads: usize,
    },
    /// Register a component at a server; bytes that are there already are not sent
    #[command(after_help = "Example:\n  \
        PERPEND_PUBLIC_KEY=pk-... PERPEND_SECRET_KEY=sk-... perpend plugin push --server http://127.0.0.1:4717")]
    Push {
        /// The component
        #[arg(value_name = "FILE")]
        file: Option<PathBuf>,
        #[command(flatten)]
        access: Access,
    },
    /// Compile and register a first-party component for all projects; needs the database of the server
    #[command(after_help = "Examples:\n  perpend plugin add perpend/python --data-dir ./data\n  \
        perpend plugin add python.wasm --data-dir ./data")]
    Add {
        /// The component: .wasm, packed .wasm.zst, or the name of one that was installed with the program
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
    /// Show one plug-in of a server: its versions, who uses it, its configurations
    #[command(after_help = "Example:\n  perpend plugin show acme/tone@1.2.0")]
    Show {
        /// NAME, NAME@VERSION, or a digest or its beginning
        reference: String,
        #[command(flatten)]
        access: Access,
    },
    /// Give the evaluators that use a plug-in a former version of it, as new versions of theirs
    #[command(after_help = "Example:\n  perpend plugin rollback acme/tone --to 1.1.0 --dry-run")]
    Rollback {
        /// The plug-in's name, VENDOR/NAME
        name: String,
        /// The version to go to [default: from the newest registered one to the one before it]
        #[arg(long)]
        to: Option<String>,
        /// Show what would change, and change nothing
        #[arg(long)]
        dry_run: bool,
        #[command(flatten)]
        access: Access,
    },
}

/// The component and what is done with it.
#[derive(Clone, Debug, Args)]
struct Selected {
    /// The component [default: plugin.wasm]
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// The evaluator in it [default: the only one]
    #[arg(long, value_name = "ID")]
    evaluator: Option<String>,
    /// Its configuration, or @FILE with it [default: {}]
    #[arg(long, value_name = "JSON")]
    config: Option<String>,
    /// Items, one JSON object to a line [default: items.jsonl beside the component]
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

/// Does what was asked, and prints it.
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
        return watched(&selection, &*progress, as_json);
    }
    told(act(args.command, bundle, &*progress), as_json)
}

/// Prints a report; a failure is JSON too where JSON was asked for.
fn told(done: anyhow::Result<Report>, as_json: bool) -> anyhow::Result<ExitCode> {
    let report = match done {
        Ok(report) => report,
        Err(error) if as_json => {
            say(&json!({ "error": format!("{error:#}") }).to_string());
            return Ok(ExitCode::FAILURE);
        }
        Err(error) => return Err(error),
    };
    match as_json {
        true => say(&format!("{:#}", report.json)),
        false => say(report.text.trim_end()),
    }
    Ok(match report.is_ok {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

fn act(command: PluginCommand, bundle: Bundle, progress: &dyn Progress) -> anyhow::Result<Report> {
    use PluginCommand as Asked;
    let tools = Tools::from_env();
    Ok(match command {
        Asked::New { name, lang, dir } => {
            let short = name.rsplit('/').next().unwrap_or(&name);
            let dir = dir.unwrap_or_else(|| short.into());
            made(&perpend_plugin_cli::new(&name, lang, &dir, &tools).map_err(Error::New)?, &dir)
        }
        Asked::Build { project } => built(&Project::open(&project, &tools)?, progress)?,
        Asked::Update { project } => updated(&Project::open(&project, &tools)?)?,
        Asked::Check { selected } => {
            let selection = selected.selection();
            note(perpend_plugin_cli::outdated(&selection.folder()));
            at_work(progress, |bench| bench.check(&selection))?
        }
        Asked::Run { selected, answers, .. } => {
            let mut selection = selected.selection();
            selection.answers = answers;
            note(perpend_plugin_cli::outdated(&selection.folder()));
            at_work(progress, |bench| bench.run(&selection))?
        }
        Asked::Test { file, tests } => {
            let selection = Selection { file, ..Selection::default() };
            note(perpend_plugin_cli::outdated(&selection.folder()));
            at_work(progress, |bench| bench.test(&selection, tests))?
        }
        Asked::Bench { selected, seconds, threads } => {
            let measure = measure(seconds, threads)?;
            bench(&selected.selection(), measure, bundle, progress)?
        }
        Asked::Push { file, access } => push(file, &access, progress)?,
        Asked::Add { file, settings } => plugin_add::add(&file, &settings, bundle, progress)?,
        Asked::List { access } => Registry::of(&ServerRemote::new(&access, TIMEOUT)?).list()?,
        Asked::Show { reference, access } => {
            Registry::of(&ServerRemote::new(&access, TIMEOUT)?).show(&reference)?
        }
        Asked::Rollback { name, to, dry_run, access } => Registry::of(&ServerRemote::new(
            &access, TIMEOUT,
        )?)
        .rollback(&name, to.as_deref(), dry_run)?,
    })
}

/// A line for the person at the terminal, beside what the command prints.
fn note(text: Option<String>) {
    if let Some(text) = text {
        let _ = writeln!(std::io::stderr(), "note: {text}");
    }
}

fn made(project: &Project, dir: &Path) -> Report {
    let shown = dir.display();
    let name = &project.manifest().name;
    // What the build would ask for, before it is asked.
    let missing = perpend_plugin_cli::missing(project);
    let steps: Vec<String> = missing
        .iter()
        .map(|step| format!("\n  {step}"))
        .chain(["\n  perpend plugin build".to_owned(), "\n  perpend plugin run".to_owned()])
        .collect();
    Report {
        text: format!(
            "{name} is in {shown}, in {}\n  cd {shown}{}",
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
            "\nthe SDK is imported as perpend_plugin now, also in {}; names in texts, such as of mock.patch, are \
             yours to change",
            files.join(", ")
        ),
    };
    Ok(Report {
        text: format!(
            "perpend/ is that of perpend {version}; `perpend plugin build` uses it{renamed}"
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

/// Where compiled components are kept between commands.
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

fn at_work(
    progress: &dyn Progress,
    act: impl FnOnce(&Workbench<'_>) -> Result<Report, Error>,
) -> anyhow::Result<Report> {
    let program = std::env::current_exe().context("the path of this program")?;
    let sandbox = Sandbox::processes(program, cache_dir())?;
    Ok(act(&workbench(&sandbox, progress))?)
}

fn measure(seconds: f64, n_threads: usize) -> anyhow::Result<Measure> {
    let time = Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|time| !time.is_zero() && n_threads > 0)
        .context("--seconds and --threads have to be more than 0")?;
    Ok(Measure { time, n_threads })
}

fn bench(
    selection: &Selection,
    measure: Measure,
    bundle: Bundle,
    progress: &dyn Progress,
) -> anyhow::Result<Report> {
    let floor = bundle
        .first_party("perpend/text")
        .map(|plugin| Floor { component: plugin.bytes, evaluator: "exact-match" });
    let sandbox = Sandbox::in_process(cache_dir())?;
    Ok(workbench(&sandbox, progress).bench(selection, floor, measure)?)
}

fn push(file: Option<PathBuf>, access: &Access, progress: &dyn Progress) -> anyhow::Result<Report> {
    let remote = ServerRemote::new(access, TIMEOUT)?;
    let selection = Selection { file, ..Selection::default() };
    note(perpend_plugin_cli::outdated(&selection.folder()));
    let program = std::env::current_exe().context("the path of this program")?;
    let sandbox = Sandbox::processes(program, cache_dir())?;
    // What a server would refuse is refused here, before anything is sent.
    let component = workbench(&sandbox, progress).open(&selection.component())?;
    progress.step(&format!("pushing {}", component.info.name));
    let report = Registry::of(&remote).push(&component);
    progress.done();
    Ok(report?)
}

/// Builds and runs, and again after each change, until it is interrupted.
fn watched(
    selection: &Selection,
    progress: &dyn Progress,
    as_json: bool,
) -> anyhow::Result<ExitCode> {
    let folder = selection.folder();
    let look = || {
        let mut seen = Snapshot::of(&folder).and(&selection.items());
        if !folder.join(perpend_plugin_cli::MANIFEST).is_file() {
            seen = seen.and(&selection.component());
        }
        seen
    };
    let program = std::env::current_exe().context("the path of this program")?;
    let sandbox = Sandbox::processes(program, cache_dir())?;
    let once = || -> anyhow::Result<Report> {
        if folder.join(perpend_plugin_cli::MANIFEST).is_file() {
            built(&Project::open(&folder, &Tools::from_env())?, progress)?;
        }
        Ok(workbench(&sandbox, progress).run(selection)?)
    };
    loop {
        let before = look();
        if let Err(error) = told(once(), as_json) {
            let _ = writeln!(std::io::stderr(), "perpend: {error:#}");
        }
        note(Some(format!("waiting for a change in {}; Ctrl-C ends it", folder.display())));
        perpend_plugin_cli::changed(&before, &look);
    }
}
