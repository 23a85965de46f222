//! What goes wrong on the author's path. Each message names the file, the evaluator and the field, and
//! the way out.

use std::fmt::Write as _;
use std::io;
use std::path::Path;

use perpend_worker_protocol::ComponentProblem;

use crate::build::BuildError;
use crate::project::ProjectError;
use crate::templates::NewError;
use perpend_domain::plugin::CONTRACT_VERSION;

/// A command did not get to its end.
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
        /// Why not.
        source: io::Error,
    },
    /// There is no component yet.
    #[error("{file} is not there{hint}")]
    NoComponent {
        /// Where it should be.
        file: String,
        /// What makes one.
        hint: &'static str,
    },
    /// The file is no plug-in.
    #[error("{file} cannot be used as a plug-in:{}", listed(.problems))]
    Component {
        /// The file.
        file: String,
        /// Everything that is wrong with it.
        problems: Vec<ComponentProblem>,
    },
    /// No evaluator, or not which one, was named.
    #[error("{file} has the evaluators {}: {why}", .ids.join(", "))]
    Evaluator {
        /// The file.
        file: String,
        /// The evaluators there are.
        ids: Vec<String>,
        /// What to do.
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
    /// A line of items or tests cannot be read.
    #[error("{file}:{line}: {message}")]
    Line {
        /// The file.
        file: String,
        /// Counted from 1.
        line: usize,
        /// What is wrong.
        message: String,
    },
    /// The sandbox cannot be used.
    #[error("the sandbox cannot start: {0}")]
    Sandbox(String),
    /// The server did not do it.
    #[error("{0}")]
    Server(String),
}

impl Error {
    pub(crate) fn file(file: &Path, source: io::Error) -> Self {
        Self::File { file: file.display().to_string(), source }
    }
}

/// Each problem on a line of its own, and behind it what mends it where that is known.
fn listed(problems: &[ComponentProblem]) -> String {
    let mut text = String::new();
    for problem in problems {
        let _ = write!(text, "\n  {problem}");
        if let Some(way_out) = mend(problem) {
            let _ = write!(text, "\n    {way_out}");
        }
    }
    text
}

/// Which side is older, where a problem is about versions of the contract, and what to do.
pub(crate) fn mend(problem: &ComponentProblem) -> Option<String> {
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
             the newer perpend, or build it for {offered}: `perpend plugin update && perpend plugin build`"
        )
    } else {
        format!(
            "the plug-in is older: it was built for contract {its}, this perpend offers {offered}. Renew it: \
             `perpend plugin update && perpend plugin build`"
        )
    })
}

/// The versions behind `perpend:evaluator/...@` in a text.
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
    fn a_mismatch_of_versions_says_which_side_is_older_and_what_to_do() {
        let newer = ComponentProblem::new("import perpend:evaluator/log@2.0.0", "was asked for");
        let text = mend(&newer).unwrap();
        assert!(text.contains("the plug-in is newer"), "{text}");
        assert!(text.contains("perpend plugin update"), "{text}");
        let older = ComponentProblem::new(
            "export perpend:evaluator/evaluator@1.0.0",
            "missing; the component exports [\"perpend:evaluator/evaluator@0.9.0\"]",
        );
        let text = mend(&older).unwrap();
        assert!(text.contains("the plug-in is older"), "{text}");
        assert_eq!(mend(&ComponentProblem::new("describe", "trap")), None);
        let same = ComponentProblem::new("import perpend:evaluator/model@1.0.0", "not granted");
        assert_eq!(mend(&same), None);
    }
}
