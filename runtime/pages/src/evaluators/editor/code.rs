//! The fields of source code, and a working evaluator in each language.

use perpend_domain::evaluation::{
    EvaluatorVersion, JAVASCRIPT_INTERPRETER, Mapping, PYTHON_INTERPRETER, SOURCE_EVALUATOR,
};
use perpend_domain::plugin::Limits;
use perpend_http_kit::extract::Params;
use perpend_http_kit::problem::{Code, Problem};
use perpend_views::{CodeFields, SourceProblem, Text, duration, size};
use serde_json::{Value, json};

use super::problems::FormProblems;
use crate::request::forms::as_submitted;
use crate::request::operations::field_problems;

/// A language with a working evaluator.
pub(in crate::evaluators) struct Language {
    /// As in the API.
    pub(in crate::evaluators) id: &'static str,
    pub(in crate::evaluators) label: &'static str,
    pub(in crate::evaluators) skeleton: &'static str,
}

/// The languages of source code.
pub(in crate::evaluators) static LANGUAGES: [Language; 3] = [
    Language { id: "PYTHON", label: "Python", skeleton: PYTHON },
    Language { id: "TYPESCRIPT", label: "TypeScript", skeleton: TYPESCRIPT },
    Language { id: "JAVASCRIPT", label: "JavaScript", skeleton: JAVASCRIPT },
];

const PYTHON: &str = r#"def evaluate(ctx):
    # ctx.observation has input, output, metadata and tool_calls. In experiments,
    # ctx.experiment has item_expected_output and item_metadata; else it is None.
    output = str(ctx.observation.output or "")
    n_words = len(output.split())
    return EvaluationResult(
        scores=[
            Score(name="words", value=n_words),
            Score(name="is_short", value=n_words <= 100, comment=f"{n_words} words"),
        ]
    )
"#;
const TYPESCRIPT: &str = r#"type Context = {
  observation: { input: unknown; output: unknown; metadata: Record<string, unknown>; toolCalls: unknown[] };
  experiment?: { itemExpectedOutput: unknown; itemMetadata: unknown };
};

export function evaluate(ctx: Context) {
  const output = String(ctx.observation.output ?? "");
  const nWords = output.split(/\s+/).filter(Boolean).length;
  return {
    scores: [
      { name: "words", value: nWords },
      { name: "is_short", value: nWords <= 100, dataType: "BOOLEAN", comment: `${nWords} words` },
    ],
  };
}
"#;
const JAVASCRIPT: &str = r#"// ctx.observation has input, output, metadata and toolCalls. In experiments,
// ctx.experiment has itemExpectedOutput and itemMetadata; else it is undefined.
export function evaluate(ctx) {
  const output = String(ctx.observation.output ?? "");
  const nWords = output.split(/\s+/).filter(Boolean).length;
  return {
    scores: [
      { name: "words", value: nWords },
      { name: "is_short", value: nWords <= 100, dataType: "BOOLEAN", comment: `${nWords} words` },
    ],
  };
}
"#;

/// Members of the body and their fields.
const FIELDS: [(&str, &str); 5] = [
    ("name", "name"),
    ("description", "description"),
    ("sourceCode", "source"),
    ("sourceCodeLanguage", "language"),
    ("plugin", "language"),
];
/// Lines shown before and after the line of a problem.
const NEIGHBORS: usize = 2;

/// The values of the fields of source code.
#[derive(Clone, Debug)]
pub(super) struct CodeForm {
    language: String,
    source: String,
    /// The mapping of the stored version, which has no field.
    mapping: Vec<Mapping>,
}

impl CodeForm {
    /// The working evaluator of a language, of the first one if it is unknown.
    pub(super) fn skeleton(language: &str) -> Self {
        let found = LANGUAGES.iter().find(|one| one.id.eq_ignore_ascii_case(language));
        let found = found.unwrap_or(&LANGUAGES[0]);
        Self {
            language: found.id.to_owned(),
            source: found.skeleton.to_owned(),
            mapping: Vec::new(),
        }
    }

    pub(super) fn of_version(version: &EvaluatorVersion) -> Self {
        let (language, source) = version.source().unwrap_or_default();
        Self {
            language: language.to_owned(),
            source: as_submitted(source),
            mapping: version.mapping.clone(),
        }
    }

    /// Takes the sent values.
    pub(super) fn take(&mut self, fields: &Params) {
        let text = |name: &str| as_submitted(fields.raw(name).unwrap_or_default());
        (self.language, self.source) = (text("language"), text("source"));
    }

    pub(super) fn body(&self) -> Value {
        if self.mapping.is_empty() {
            return json!({
                "type": "code",
                "sourceCode": self.source,
                "sourceCodeLanguage": self.language,
            });
        }
        // The type `code` has no mapping.
        let mut config = json!({ "source": self.source });
        let plugin = match self.language.as_str() {
            "PYTHON" => PYTHON_INTERPRETER,
            language => {
                config["language"] = json!(language.to_ascii_lowercase());
                JAVASCRIPT_INTERPRETER
            }
        };
        json!({
            "type": "plugin",
            "plugin": plugin,
            "evaluator": SOURCE_EVALUATOR,
            "config": config,
            "variableMapping": self.mapping,
        })
    }

    /// Labels and values.
    pub(super) fn values(&self) -> Vec<(String, String)> {
        vec![
            ("Language".to_owned(), self.language.clone()),
            ("Source".to_owned(), self.source.clone()),
        ]
    }

    pub(super) fn problems(problem: &Problem) -> FormProblems {
        let mut fields = field_problems(problem, &FIELDS, "source");
        if problem.code() == Code::InvalidConfig {
            for (_, text) in &mut fields {
                let message = text.raw();
                let (_, message) = message.split_once("/source: ").unwrap_or(("", message));
                *text = Text::from(message.to_owned());
            }
        }
        FormProblems { fields, config: Vec::new() }
    }

    pub(super) fn fields(&self, problems: &FormProblems) -> CodeFields {
        let languages = LANGUAGES.iter();
        let own = problems.fields.iter().filter(|(field, _)| *field == "source");
        CodeFields {
            languages: languages.map(|one| (one.id, one.label, one.id == self.language)).collect(),
            source: self.source.clone(),
            problems: own.map(|(_, message)| source_problem(&self.source, message)).collect(),
            limits: limits(),
        }
    }
}

/// A problem with the lines that it names.
fn source_problem(source: &str, message: &Text) -> SourceProblem {
    let lines = line_of(message.raw()).map(|faulty| {
        let first = faulty.saturating_sub(NEIGHBORS).max(1);
        let lines = source.lines().enumerate().map(|(at, text)| (at.saturating_add(1), text));
        let lines = lines.skip_while(|(number, _)| *number < first);
        let lines = lines.take_while(|(number, _)| *number <= faulty.saturating_add(NEIGHBORS));
        lines.map(|(number, text)| (number, Text::from(text), number == faulty)).collect()
    });
    SourceProblem { lines: lines.unwrap_or_default(), message: message.clone() }
}

/// The line that a message names, such as `SyntaxError: invalid syntax (line 3, column 5)`.
fn line_of(message: &str) -> Option<usize> {
    message.match_indices("line ").find_map(|(at, words)| {
        let rest = message.get(at.saturating_add(words.len())..)?;
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().ok().filter(|line| 0 < *line)
    })
}

/// Limits of the source and of an evaluation.
fn limits() -> Vec<String> {
    let limits = Limits::default();
    vec![
        "The source has at most 256 KiB.".to_owned(),
        format!(
            "An evaluation has {} of processor time, {} of memory and at most {} scores.",
            duration(i64::from(limits.cpu_ms).saturating_mul(1_000)),
            size(limits.memory_bytes),
            limits.n_scores
        ),
        "It runs in a sandbox without network and files.".to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_shows_the_line_that_it_names() {
        let source = "one\ntwo\nthree\nfour\nfive\nsix";
        let message = Text::from("SyntaxError: newline in a string (line 4, column 2)");
        let problem = source_problem(source, &message);
        let numbers: Vec<usize> = problem.lines.iter().map(|(number, _, _)| *number).collect();
        assert_eq!(numbers, [2, 3, 4, 5, 6]);
        let faulty = problem.lines.iter().find(|(_, _, is_faulty)| *is_faulty).unwrap();
        assert_eq!((faulty.0, faulty.1.raw()), (4, "four"));
        assert!(source_problem(source, &Text::from("line nine")).lines.is_empty());
        assert!(source_problem(source, &Text::from("line 99")).lines.is_empty());
    }

    #[test]
    fn a_stored_mapping_is_sent_with_the_changed_source() {
        let mapping = Mapping {
            variable: "output".to_owned(),
            source: "output".to_owned(),
            json_path: Some("$.text".to_owned()),
        };
        let mut form = CodeForm { mapping: vec![mapping], ..CodeForm::skeleton("PYTHON") };
        form.take(&Params::parse("language=TYPESCRIPT&source=a"));
        let body = form.body();
        assert_eq!(body["plugin"], JAVASCRIPT_INTERPRETER);
        assert_eq!(body["config"], json!({ "source": "a", "language": "typescript" }));
        assert_eq!(body["variableMapping"][0]["jsonPath"], "$.text");
        form.mapping.clear();
        assert_eq!(form.body()["type"], "code");
    }

    #[test]
    fn every_language_has_a_skeleton_that_defines_evaluate() {
        for language in &LANGUAGES {
            assert!(language.skeleton.contains("evaluate(ctx"), "{}", language.id);
        }
    }
}
