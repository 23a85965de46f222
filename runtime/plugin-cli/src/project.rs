//! A plug-in project: a folder with a `plugin.toml`.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::tools::Tools;

/// What makes a folder a project.
pub const MANIFEST: &str = "plugin.toml";
/// What a build makes, in the project's folder.
pub const COMPONENT: &str = "plugin.wasm";
/// Items that `run`, `check` and `bench` use, in the project's folder.
pub const ITEMS: &str = "items.jsonl";
/// Items with the scores that are expected, in the project's folder.
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
    /// All of them, in the order they are shown.
    pub const ALL: [Self; 6] =
        [Self::Rust, Self::JavaScript, Self::TypeScript, Self::Python, Self::Go, Self::C];

    /// As it stands in `plugin.toml`; also the name of its templates' folder.
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

    /// Folders of `plugin-sdk` that a project of this language gets below `perpend/`, besides `wit`.
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

/// There is no such language here.
#[derive(Debug, thiserror::Error)]
#[error("{0:?} is not one of rust, javascript, typescript, python, go and c")]
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
    /// `vendor/name`, as the plug-in calls itself.
    pub name: String,
    /// What it is written in.
    pub language: Language,
    /// Version of the `perpend` program whose template and SDK the project holds.
    pub template: String,
    /// Choices of the build, by language.
    #[serde(default, skip_serializing_if = "toml::Table::is_empty")]
    pub build: toml::Table,
}

/// A folder cannot be used as a project.
#[derive(Debug, thiserror::Error)]
pub enum ProjectError {
    /// There is no `plugin.toml`.
    #[error(
        "{0} has no plugin.toml: go into a plug-in's folder, or make one with \
         `perpend plugin new NAME --lang rust`"
    )]
    NoManifest(String),
    /// It says something that is not understood.
    #[error("{file}: {message}")]
    Manifest {
        /// The file.
        file: String,
        /// What is wrong.
        message: String,
    },
    /// A file cannot be read or written.
    #[error("{file} cannot be read or written")]
    File {
        /// The file.
        file: String,
        /// Why not.
        source: io::Error,
    },
}

/// A project that was opened.
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
    /// When there is none, or its `plugin.toml` is wrong.
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
        // Tools are started in other folders, and are told where the project is.
        let dir = dir
            .canonicalize()
            .map_err(|source| ProjectError::File { file: dir.display().to_string(), source })?;
        Ok(Self { tools: tools.of_project(&dir), dir, manifest })
    }

    /// Its folder, absolute.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Its `plugin.toml`.
    #[must_use]
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// What it is written in.
    #[must_use]
    pub fn language(&self) -> Language {
        self.manifest.language
    }

    /// Where its toolchain is looked for.
    #[must_use]
    pub fn tools(&self) -> &Tools {
        &self.tools
    }

    /// Where its build puts the component.
    #[must_use]
    pub fn component(&self) -> PathBuf {
        self.dir.join(COMPONENT)
    }

    /// A text under `[build]` in `plugin.toml`.
    #[must_use]
    pub fn option(&self, name: &str) -> Option<&str> {
        self.manifest.build.get(name).and_then(toml::Value::as_str)
    }

    /// The contract: the folder of its WIT files.
    #[must_use]
    pub fn wit(&self) -> PathBuf {
        self.dir.join("perpend/wit")
    }

    /// A folder of the SDK, such as `javascript`.
    #[must_use]
    pub fn sdk(&self, folder: &str) -> PathBuf {
        self.dir.join("perpend").join(folder)
    }

    /// A folder for what a build makes on its way, `target/perpend`; it is made when it is not there.
    ///
    /// # Errors
    /// When it cannot be made.
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
    fn a_manifest_is_read_with_the_choices_of_its_build() {
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
    fn what_is_wrong_with_a_manifest_is_named_with_its_file_and_line() {
        let error = open("name = \"acme/tone\"\nlanguage = \"cobol\"\ntemplate = \"1\"\n");
        let text = error.unwrap_err().to_string();
        for part in ["plugin.toml", "line 2", "cobol", "typescript"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let text = open("nam = \"x\"").unwrap_err().to_string();
        assert!(text.contains("nam"), "{text}");
    }

    #[test]
    fn a_folder_that_is_no_project_says_how_to_make_one() {
        let folder = tempfile::tempdir().unwrap();
        let error = Project::open(folder.path(), &Tools::default()).unwrap_err();
        assert!(error.to_string().contains("perpend plugin new"), "{error}");
    }
}
