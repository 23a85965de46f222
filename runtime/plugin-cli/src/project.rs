//! A plug-in project: a folder with a `plugin.toml`.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::tools::Tools;

/// The manifest, in the folder of the project.
pub const MANIFEST: &str = "plugin.toml";
/// The output of a build, in the folder of the project.
pub const COMPONENT: &str = "plugin.wasm";
/// The items for `run`, `check` and `bench`, in the folder of the project.
pub const ITEMS: &str = "items.jsonl";
/// The items with expected scores for `test`, in the folder of the project.
pub const TESTS: &str = "tests.jsonl";

/// The language of a project.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Language {
    /// `rust`
    Rust,
    /// `javascript`
    JavaScript,
    /// `typescript`
    TypeScript,
    /// `python`
    Python,
    /// `go`
    Go,
    /// `c`
    C,
}

impl Language {
    /// All languages, in the order of lists.
    pub const ALL: [Self; 6] =
        [Self::Rust, Self::JavaScript, Self::TypeScript, Self::Python, Self::Go, Self::C];

    /// The name in `plugin.toml` and of the folder of the template.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Rust => "rust",
            Self::JavaScript => "javascript",
            Self::TypeScript => "typescript",
            Self::Python => "python",
            Self::Go => "go",
            Self::C => "c",
        }
    }

    /// The folders of `plugin-sdk` that are copied to `perpend/` of a project, in addition to `wit`.
    pub(crate) const fn sdk_folders(self) -> &'static [&'static str] {
        match self {
            Self::Rust => &["rust", "choices"],
            Self::JavaScript | Self::TypeScript => &["javascript"],
            Self::Python => &["python"],
            Self::Go => &["go"],
            Self::C => &["c"],
        }
    }
}

impl fmt::Display for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An unknown language.
#[derive(Debug, thiserror::Error)]
#[error("the language must be one of rust, javascript, typescript, python, go, c; got {0:?}")]
pub struct UnknownLanguage(String);

impl FromStr for Language {
    type Err = UnknownLanguage;

    fn from_str(raw: &str) -> Result<Self, UnknownLanguage> {
        let found = Self::ALL.into_iter().find(|known| known.as_str() == raw);
        found.ok_or_else(|| UnknownLanguage(raw.to_owned()))
    }
}

/// `plugin.toml`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// The name of the plug-in: `vendor/name`.
    pub name: String,
    /// The language of its sources.
    pub language: Language,
    /// The version of the `perpend` program of the template and the SDK in the project.
    pub template: String,
    /// The options of the build, which depend on the language.
    #[serde(default, skip_serializing_if = "toml::Table::is_empty")]
    pub build: toml::Table,
}

/// The folder is not a valid project.
#[derive(Debug, thiserror::Error)]
pub enum ProjectError {
    /// `plugin.toml` does not exist.
    #[error(
        "{0} has no plugin.toml: change to the folder of a plug-in, or create one with \
         `perpend plugin new NAME --lang rust`"
    )]
    NoManifest(String),
    /// `plugin.toml` is invalid.
    #[error("{file}: {message}")]
    Manifest {
        /// The file.
        file: String,
        /// The problem.
        message: String,
    },
    /// A file cannot be read or written.
    #[error("{file} cannot be read or written")]
    File {
        /// The file.
        file: String,
        /// The cause.
        source: io::Error,
    },
}

/// An open project.
#[derive(Clone, Debug)]
pub struct Project {
    dir: PathBuf,
    manifest: Manifest,
    tools: Tools,
}

impl Project {
    /// Reads the project in `dir`.
    ///
    /// # Errors
    /// When `plugin.toml` does not exist or is invalid.
    pub fn open(dir: &Path, tools: &Tools) -> Result<Self, ProjectError> {
        let file = dir.join(MANIFEST);
        let shown = || file.display().to_string();
        let text = match std::fs::read_to_string(&file) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(ProjectError::NoManifest(dir.display().to_string()));
            }
            Err(source) => {
                return Err(ProjectError::File { file: shown(), source });
            }
        };
        let manifest = toml::from_str(&text).map_err(|error| ProjectError::Manifest {
            file: shown(),
            message: error.to_string().trim_end().to_owned(),
        })?;
        // An absolute path, because tools are started in other folders.
        let dir = dir
            .canonicalize()
            .map_err(|source| ProjectError::File { file: dir.display().to_string(), source })?;
        Ok(Self { tools: tools.of_project(&dir), dir, manifest })
    }

    /// The absolute path of its folder.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Its `plugin.toml`.
    #[must_use]
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The language of its sources.
    #[must_use]
    pub fn language(&self) -> Language {
        self.manifest.language
    }

    /// The search path for its toolchain.
    #[must_use]
    pub fn tools(&self) -> &Tools {
        &self.tools
    }

    /// The path of the component.
    #[must_use]
    pub fn component(&self) -> PathBuf {
        self.dir.join(COMPONENT)
    }

    /// The string option `name` under `[build]` in `plugin.toml`.
    #[must_use]
    pub fn option(&self, name: &str) -> Option<&str> {
        self.manifest.build.get(name).and_then(toml::Value::as_str)
    }

    /// The folder of the WIT files of the contract.
    #[must_use]
    pub fn wit(&self) -> PathBuf {
        self.dir.join("perpend/wit")
    }

    /// A folder of the SDK, such as `javascript`.
    #[must_use]
    pub fn sdk(&self, folder: &str) -> PathBuf {
        self.dir.join("perpend").join(folder)
    }

    /// The folder for intermediate files of a build, `target/perpend`, which is created if necessary.
    ///
    /// # Errors
    /// When it cannot be created.
    pub fn scratch(&self) -> Result<PathBuf, ProjectError> {
        let folder = self.dir.join("target/perpend");
        match std::fs::create_dir_all(&folder) {
            Ok(()) => Ok(folder),
            Err(source) => Err(ProjectError::File { file: folder.display().to_string(), source }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(manifest: &str) -> Result<Project, ProjectError> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(MANIFEST), manifest).unwrap();
        Project::open(folder.path(), &Tools::default())
    }

    #[test]
    fn a_manifest_is_read_with_its_build_options() {
        let project = open(
            "name = \"acme/tone\"\nlanguage = \"typescript\"\ntemplate = \"0.1.0\"\n\
             [build]\nengine = \"spidermonkey\"\n",
        )
        .unwrap();
        assert_eq!(project.language(), Language::TypeScript);
        assert_eq!(project.option("engine"), Some("spidermonkey"));
        assert!(project.component().ends_with("plugin.wasm"));
    }

    #[test]
    fn an_invalid_manifest_is_reported_with_file_and_line() {
        let error = open("name = \"acme/tone\"\nlanguage = \"cobol\"\ntemplate = \"1\"\n");
        let text = error.unwrap_err().to_string();
        for part in ["plugin.toml", "line 2", "cobol", "typescript"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let text = open("nam = \"x\"").unwrap_err().to_string();
        assert!(text.contains("nam"), "{text}");
    }

    #[test]
    fn the_error_for_a_folder_without_manifest_says_how_to_create_a_project() {
        let folder = tempfile::tempdir().unwrap();
        let error = Project::open(folder.path(), &Tools::default()).unwrap_err();
        assert!(error.to_string().contains("perpend plugin new"), "{error}");
    }
}
