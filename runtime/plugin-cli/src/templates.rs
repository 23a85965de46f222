//! `perpend plugin new` and `perpend plugin update`: the files of a project.
//!
//! A template is a folder of `plugin-sdk/templates`. In its files and file names `{{name}}` is replaced by the
//! name of the project, and `example/{{name}}` by the name of the plug-in with its vendor. Templates do not contain the
//! contract and the SDK: they are copied from `plugin-sdk` to `perpend/` of a project, and `update` replaces them by those of
//! this program.

use std::fs;
use std::path::{Path, PathBuf};

use crate::project::{Language, MANIFEST, Manifest, Project, ProjectError};
use crate::python_module;
use crate::tools::Tools;

/// The paths below `plugin-sdk`, with the contents.
static FILES: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/files.rs"));

/// The version of the templates and SDKs in this program.
pub const TEMPLATE_VERSION: &str = env!("CARGO_PKG_VERSION");
const PLACEHOLDER: &str = "{{name}}";
const VENDOR: &str = "example";
const MAX_NAME_CHARS: usize = 64;

/// A project cannot be created.
#[derive(Debug, thiserror::Error)]
pub enum NewError {
    /// The name is invalid.
    #[error(
        "the name of a plug-in must have 1 to 64 characters of a-z, 0-9 and -, with a letter first, or be \
         vendor/name; got {0:?}"
    )]
    Name(String),
    /// The folder is not empty.
    #[error("{0} already exists and is not empty: choose another name or --dir")]
    NotEmpty(String),
    /// The language has no template.
    #[error("this version of perpend has no template for {0}")]
    NoTemplate(Language),
    /// A file cannot be written.
    #[error(transparent)]
    Project(#[from] ProjectError),
}

/// Creates a project in `dir`, which must be empty or not exist.
///
/// # Errors
/// When the name is invalid or `dir` is not empty. Nothing is written in that case.
pub fn new(name: &str, language: Language, dir: &Path, tools: &Tools) -> Result<Project, NewError> {
    let (vendor, short) = name.split_once('/').unwrap_or((VENDOR, name));
    if ![vendor, short].into_iter().all(is_name) {
        return Err(NewError::Name(name.to_owned()));
    }
    let is_empty = fs::read_dir(dir).map_or(true, |mut entries| entries.next().is_none());
    if !is_empty || dir.is_file() {
        return Err(NewError::NotEmpty(dir.display().to_string()));
    }
    let prefix = format!("templates/{language}/");
    let template: Vec<_> = FILES
        .iter()
        .filter_map(|(file, bytes)| Some((file.strip_prefix(&prefix)?, *bytes)))
        .collect();
    if template.is_empty() {
        return Err(NewError::NoTemplate(language));
    }
    for (file, bytes) in template {
        let file = filled(file, vendor, short);
        match std::str::from_utf8(bytes) {
            Ok(text) => write(&dir.join(file), filled(text, vendor, short).as_bytes())?,
            Err(_) => write(&dir.join(file), bytes)?,
        }
    }
    write_sdk(dir, language)?;
    let manifest = Manifest {
        name: format!("{vendor}/{short}"),
        language,
        template: TEMPLATE_VERSION.to_owned(),
        build: toml::Table::new(),
    };
    // A template can contain build options.
    let choices = fs::read_to_string(dir.join(MANIFEST)).unwrap_or_default();
    let text = format!(
        "# The project of `perpend plugin`. The description of the plug-in is in its source.\n\
         name = {:?}\nlanguage = \"{language}\"\n# The version of perpend whose SDK is in perpend/; \
         `perpend plugin update` updates both.\ntemplate = {TEMPLATE_VERSION:?}\n{choices}",
        manifest.name,
    );
    write(&dir.join(MANIFEST), text.as_bytes())?;
    Ok(Project::open(dir, tools)?)
}

/// Replaces the SDK and the contract in a project by those of this program, and updates the version. Returns
/// the files of the author whose imports were changed because the SDK was renamed.
///
/// # Errors
/// When a file cannot be read or written.
pub fn update(project: &Project) -> Result<Vec<PathBuf>, ProjectError> {
    let dir = project.dir();
    let renamed = match project.language() {
        Language::Python => python_module::rename(dir)?,
        _ => Vec::new(),
    };
    write_sdk(dir, project.language())?;
    let file = dir.join(MANIFEST);
    let wrong = |source| ProjectError::File { file: file.display().to_string(), source };
    let text = fs::read_to_string(&file).map_err(wrong)?;
    let old = format!("template = {:?}", project.manifest().template);
    let new = format!("template = {TEMPLATE_VERSION:?}");
    write(&file, text.replacen(&old, &new, 1).as_bytes())?;
    Ok(renamed)
}

/// A message about the older side and the remedy, when the SDK of a project has another version than this program.
#[must_use]
pub fn age(project: &Project) -> Option<String> {
    if project.language() == Language::Python && python_module::is_former(project.dir()) {
        return Some(
            "the SDK in perpend/ is older: its module is named perpend; `perpend plugin update` renames \
             it to perpend_plugin, including the imports in your files"
                .to_owned(),
        );
    }
    let theirs = project.manifest().template.as_str();
    let (its, ours) = (semver::Version::parse(theirs), semver::Version::parse(TEMPLATE_VERSION));
    match (its, ours) {
        (Ok(its), Ok(ours)) if its < ours => Some(format!(
            "the SDK in perpend/ is older: it is of perpend {its}, this is {ours}; `perpend plugin update` \
             updates it"
        )),
        (Ok(its), Ok(ours)) if ours < its => Some(format!(
            "this perpend is older: it is {ours}, and the SDK in perpend/ is of {its}; install a newer \
             perpend, or downgrade the SDK with `perpend plugin update`"
        )),
        (Err(_), _) => Some(format!(
            "plugin.toml: `template` must be a version, got {theirs:?}; `perpend plugin update` fixes it"
        )),
        _ => None,
    }
}

fn write_sdk(dir: &Path, language: Language) -> Result<(), ProjectError> {
    let folders = language.sdk_folders().iter().chain(&["wit"]);
    for folder in folders {
        let prefix = format!("{folder}/");
        for (file, bytes) in FILES.iter().filter(|(file, _)| file.starts_with(&prefix)) {
            write(&dir.join("perpend").join(file), bytes)?;
        }
    }
    Ok(())
}

fn filled(text: &str, vendor: &str, short: &str) -> String {
    let named = format!("{VENDOR}/{PLACEHOLDER}");
    text.replace(&named, &format!("{vendor}/{short}")).replace(PLACEHOLDER, short)
}

fn is_name(text: &str) -> bool {
    (1..=MAX_NAME_CHARS).contains(&text.len())
        && text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}

fn write(file: &PathBuf, bytes: &[u8]) -> Result<(), ProjectError> {
    let written = match file.parent() {
        Some(folder) => fs::create_dir_all(folder).and_then(|()| fs::write(file, bytes)),
        None => fs::write(file, bytes),
    };
    written.map_err(|source| ProjectError::File { file: file.display().to_string(), source })
}

#[cfg(test)]
mod tests {
    use perpend_domain::plugin::CONTRACT_VERSION;

    use super::*;

    /// The version in `package perpend:evaluator@1.0.0;`.
    fn contract_of(wit: &str) -> Option<&str> {
        let (_, rest) = wit.split_once("package perpend:evaluator@")?;
        rest.split_once(';').map(|(version, _)| version.trim())
    }

    #[test]
    fn a_new_project_has_its_name_the_contract_and_the_sdk() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("tone");
        let project = new("acme/tone", Language::Rust, &dir, &Tools::default()).unwrap();
        assert_eq!(project.manifest().name, "acme/tone");
        let source = fs::read_to_string(dir.join("src/lib.rs")).unwrap();
        assert!(source.contains("name: \"acme/tone\""), "{source}");
        let wit = fs::read_to_string(project.wit().join("world.wit")).unwrap();
        assert_eq!(contract_of(&wit), Some(CONTRACT_VERSION));
        let sdk = fs::read_to_string(project.sdk("rust").join("Cargo.toml")).unwrap();
        assert!(!sdk.contains("workspace"), "{sdk}");
        for file in ["README.md", ".gitignore", "items.jsonl", "tests.jsonl"] {
            let text = fs::read_to_string(dir.join(file)).unwrap();
            assert!(!text.contains("{{"), "{file}: {text}");
        }
    }

    #[test]
    fn existing_files_are_kept_and_invalid_names_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("mine"), "x").unwrap();
        let tools = Tools::default();
        let refused = new("tone", Language::Rust, folder.path(), &tools);
        assert!(matches!(refused, Err(NewError::NotEmpty(_))), "{refused:?}");
        let dir = folder.path().join("new");
        for name in ["", "Tone", "a/b/c", "1a", "../x", "a_b", "/x", "x/"] {
            let refused = new(name, Language::Rust, &dir, &tools);
            assert!(matches!(refused, Err(NewError::Name(_))), "{name}");
        }
        assert!(!dir.exists());
    }

    #[test]
    fn an_update_restores_the_sdk_and_keeps_the_files_of_the_author() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("tone");
        let project = new("tone", Language::Rust, &dir, &Tools::default()).unwrap();
        let manifest = fs::read_to_string(dir.join(MANIFEST)).unwrap();
        let old = manifest.replace(TEMPLATE_VERSION, "0.0.1");
        fs::write(dir.join(MANIFEST), old).unwrap();
        fs::write(dir.join("src/lib.rs"), "mine").unwrap();
        fs::write(project.wit().join("world.wit"), "old").unwrap();
        let old = Project::open(&dir, &Tools::default()).unwrap();
        assert!(age(&old).unwrap().contains("the SDK in perpend/ is older"));
        update(&old).unwrap();
        assert_eq!(age(&Project::open(&dir, &Tools::default()).unwrap()), None);
        assert_eq!(fs::read_to_string(dir.join(MANIFEST)).unwrap(), manifest);
        assert_eq!(fs::read_to_string(dir.join("src/lib.rs")).unwrap(), "mine");
        let wit = fs::read_to_string(project.wit().join("world.wit")).unwrap();
        assert!(wit.contains("package perpend:evaluator"), "{wit}");
    }

    #[test]
    fn an_update_renames_the_python_module_and_keeps_the_files_of_the_author() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("tone");
        let project = new("tone", Language::Python, &dir, &Tools::default()).unwrap();
        assert_eq!(age(&project), None);
        let sdk = project.sdk("python");
        fs::rename(sdk.join("perpend_plugin"), sdk.join("perpend")).unwrap();
        let old = "import perpend\n\nperpend.plugin(\"acme/tone\")\n";
        let renamed = "import perpend_plugin as perpend\n\nperpend.plugin(\"acme/tone\")\n";
        let files = [
            ("evaluators.py", old, renamed),
            ("lib/words.py", "WORDS = ['import perpend']\n", "WORDS = ['import perpend']\n"),
            (
                "tests/test_max_length.py",
                "from perpend.testing import host\n",
                "from perpend_plugin.testing import host\n",
            ),
            // The following files are not part of the project.
            ("venv/pyvenv.cfg", "", ""),
            ("venv/lib/client.py", old, old),
            ("another/plugin.toml", "", ""),
            ("another/evaluators.py", old, old),
            ("target/made.py", old, old),
        ];
        for (name, before, _) in files {
            write(&dir.join(name), before.as_bytes()).unwrap();
        }
        fs::write(sdk.join("perpend/mine.py"), "from perpend import log\n").unwrap();
        assert!(age(&project).unwrap().contains("perpend plugin update"));

        let changed = update(&project).unwrap();
        let expected =
            ["evaluators.py", "perpend/python/perpend/mine.py", "tests/test_max_length.py"];
        assert_eq!(changed, expected.map(PathBuf::from));
        for (name, _, after) in files {
            assert_eq!(fs::read_to_string(dir.join(name)).unwrap(), after, "{name}");
        }
        assert!(!sdk.join("perpend").exists());
        let mine = fs::read_to_string(sdk.join("perpend_plugin/mine.py")).unwrap();
        assert_eq!(mine, "from perpend_plugin import log\n");
        assert!(sdk.join("perpend_plugin/__init__.py").is_file());
        assert_eq!(age(&project), None);
        // After the update `perpend` is the module of another package.
        fs::write(dir.join("evaluators.py"), old).unwrap();
        assert!(update(&project).unwrap().is_empty());
        let evaluators = fs::read_to_string(dir.join("evaluators.py")).unwrap();
        assert_eq!(evaluators, old);
    }
}
