//! Errors of the commands. Each message names the file, the evaluator and the field, and a remedy.

use std::fmt::Write as _;
use std::io;
use std::path::Path;

use perpend_worker_protocol::ComponentProblem;

use crate::build::BuildError;
use crate::project::ProjectError;
use crate::templates::NewError;
use perpend_domain::plugin::CONTRACT_VERSION;

/// A command failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The project.
    #[error(transparent)]
    Project(#[from] ProjectError),
    /// A new project.
    #[error(transparent)]
    New(#[from] NewError),
    /// A build.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// A file cannot be read or written.
    #[error("{file} cannot be read or written")]
    File {
        /// The file.
        file: String,
        /// The cause.
        source: io::Error,
    },
    /// The component does not exist.
    #[error("{file} does not exist{hint}")]
    NoComponent {
        /// The expected path.
        file: String,
        /// The command that creates it.
        hint: &'static str,
    },
    /// The file is not a plug-in.
    #[error("{file} cannot be used as a plug-in:{}", problem_lines(.problems))]
    Component {
        /// The file.
        file: String,
        /// All problems of the component.
        problems: Vec<ComponentProblem>,
    },
    /// The evaluator is unknown or ambiguous.
    #[error("{file} has the evaluators {}: {why}", .ids.join(", "))]
    Evaluator {
        /// The file.
        file: String,
        /// The ids of the evaluators.
        ids: Vec<String>,
        /// The reason.
        why: String,
    },
    /// The configuration does not fit the evaluator.
    #[error("{place}: the configuration does not fit the evaluator {evaluator}:{issues}")]
    Config {
        /// The file and line, or the flag.
        place: String,
        /// The evaluator.
        evaluator: String,
        /// A line for each problem.
        issues: String,
    },
    /// A line of items or tests is invalid.
    #[error("{file}:{line}: {message}")]
    Line {
        /// The file.
        file: String,
        /// The line number, from 1.
        line: usize,
        /// The problem.
        message: String,
    },
    /// The sandbox cannot start.
    #[error("the sandbox cannot start: {0}")]
    Sandbox(String),
    /// The server refused the request or did not respond.
    #[error("{0}")]
    Server(String),
}

impl Error {
    pub(crate) fn file(file: &Path, source: io::Error) -> Self {
        Self::File { file: file.display().to_string(), source }
    }
}

/// Each problem on its own line, followed by its remedy if one is known.
fn problem_lines(problems: &[ComponentProblem]) -> String {
    let mut text = String::new();
    for problem in problems {
        let _ = write!(text, "\n  {problem}");
        if let Some(remedy) = remedy(problem) {
            let _ = write!(text, "\n    {remedy}");
        }
    }
    text
}

/// The remedy for a mismatch of contract versions; `None` for other problems.
pub(crate) fn remedy(problem: &ComponentProblem) -> Option<String> {
    let named = problem.at.contains("perpend:evaluator/") || problem.at.starts_with("export");
    if !named {
        return None;
    }
    let ours = CONTRACT_VERSION;
    let theirs =
        versions(&problem.at).chain(versions(&problem.message)).find(|version| version != ours)?;
    let (Ok(its), Ok(offered)) = (semver::Version::parse(&theirs), semver::Version::parse(ours))
    else {
        return None;
    };
    Some(if offered < its {
        format!(
            "the plug-in is newer: it was built for contract {its}, this perpend offers {offered}. Install \
             a newer perpend, or build the plug-in for {offered}: `perpend plugin update && perpend plugin build`"
        )
    } else {
        format!(
            "the plug-in is older: it was built for contract {its}, this perpend offers {offered}. Update it: \
             `perpend plugin update && perpend plugin build`"
        )
    })
}

/// The versions after `perpend:evaluator/...@` in a text.
fn versions(text: &str) -> impl Iterator<Item = String> + '_ {
    let parts = text.split("perpend:evaluator/").skip(1);
    parts.filter_map(|part| {
        let (interface, rest) = part.split_once('@')?;
        let is_name = |c: char| c.is_ascii_lowercase() || c == '-';
        if !interface.chars().all(is_name) {
            return None;
        }
        let is_version = |c: char| c.is_ascii_alphanumeric() || ".-+".contains(c);
        let version: String = rest.chars().take_while(|c| is_version(*c)).collect();
        Some(version)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remedy_for_a_version_mismatch_names_the_older_side() {
        let newer = ComponentProblem::new("import perpend:evaluator/log@2.0.0", "was requested");
        let text = remedy(&newer).unwrap();
        assert!(text.contains("the plug-in is newer"), "{text}");
        assert!(text.contains("perpend plugin update"), "{text}");
        let older = ComponentProblem::new(
            "export perpend:evaluator/evaluator@1.0.0",
            "missing; the component exports [\"perpend:evaluator/evaluator@0.9.0\"]",
        );
        let text = remedy(&older).unwrap();
        assert!(text.contains("the plug-in is older"), "{text}");
        assert_eq!(remedy(&ComponentProblem::new("describe", "trap")), None);
        let same = ComponentProblem::new("import perpend:evaluator/model@1.0.0", "not granted");
        assert_eq!(remedy(&same), None);
    }
}
