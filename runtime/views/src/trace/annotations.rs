//! Scores, corrections and comments by people on a trace or an observation, with their forms.

use perpend_domain::payload::Payload;
use perpend_domain::score::{Score, ScoreDataType, ScoreValue};
use perpend_domain::score_config::ScoreConfig;
use perpend_domain::time::Timestamp;

use crate::Text;
use crate::format::{clock, exact_number};
use crate::layout::forms::RejectedForm;
use crate::markup::is_hidden;
use crate::scores::score::shown;
use crate::values::content::display_text;

/// Largest output that the form of a correction begins with, in bytes.
const MAX_OUTPUT_BYTES: usize = 32 << 10;
/// Characters of a shown value.
const MAX_VALUE_CHARS: usize = 500;
/// Types of a score without a score config.
const TYPES: [(&str, &str); 4] = [
    ("NUMERIC", "number"),
    ("BOOLEAN", "true or false"),
    ("CATEGORICAL", "category"),
    ("TEXT", "text"),
];

/// Scores and comments by people on a selection, and the forms for them.
#[derive(Clone, Debug, Default)]
pub struct AnnotationsInput {
    /// URL prefix of the actions of the forms, that of the trace.
    pub base: String,
    /// Id of the observation; absent if the trace is selected.
    pub observation: Option<String>,
    /// Score configs that new scores may use.
    pub configs: Vec<ScoreConfig>,
    /// Whether there are more score configs.
    pub has_more_configs: bool,
    /// Scores by people.
    pub scores: Vec<AnnotatedScore>,
    /// Comments, the oldest first.
    pub comments: Vec<CommentLine>,
    /// Number of comments before them.
    pub n_earlier_comments: u64,
    /// Whether the viewer may write scores.
    pub may_score: bool,
    /// Whether the viewer may delete scores.
    pub may_delete_scores: bool,
    /// Whether the viewer may write and delete comments.
    pub may_comment: bool,
    /// A rejected form.
    pub rejected_form: RejectedForm,
}

/// A score by a person.
#[derive(Clone, Debug)]
pub struct AnnotatedScore {
    /// The score.
    pub score: Score,
    /// The name of its author.
    pub author: Option<String>,
    /// Whether the viewer may change it, with the permission to write scores.
    pub may_change: bool,
}

/// A comment.
#[derive(Clone, Debug)]
pub struct CommentLine {
    pub(crate) id: String,
    pub(crate) content: Text,
    pub(crate) author: Option<Text>,
    pub(crate) at: String,
    pub(crate) at_iso: String,
}

impl CommentLine {
    /// A comment, with the name of its author if known.
    #[must_use]
    pub fn new(id: &str, content: &str, author: Option<&str>, at: Timestamp) -> Self {
        Self {
            id: id.to_owned(),
            content: display_text(content),
            author: author.map(Text::from),
            at: clock(at),
            at_iso: at.to_string(),
        }
    }
}

/// How a form takes the value of a score.
#[derive(Clone, Debug)]
pub(crate) enum ValueField {
    /// A number, with bounds if there are any.
    Number { min: Option<String>, max: Option<String> },
    /// One of these values, with their labels.
    Choice(Vec<(String, Text)>),
    /// A short text.
    Line,
    /// A long text.
    Lines,
}

/// A form that creates or changes a score.
#[derive(Clone, Debug)]
pub(crate) struct ScoreForm {
    /// Identifies the form on the page.
    pub(crate) key: String,
    pub(crate) title: Text,
    pub(crate) description: Option<Text>,
    /// Names and values of the hidden fields.
    pub(crate) hidden_fields: Vec<(&'static str, String)>,
    /// Whether name and type can be chosen.
    pub(crate) is_free: bool,
    pub(crate) field: ValueField,
    pub(crate) name: String,
    pub(crate) data_type: String,
    pub(crate) value: String,
    pub(crate) comment: String,
    pub(crate) rejected_form: RejectedForm,
}

impl ScoreForm {
    fn new(key: String, title: Text, field: ValueField) -> Self {
        Self {
            key,
            title,
            description: None,
            hidden_fields: Vec::new(),
            is_free: false,
            field,
            name: String::new(),
            data_type: String::new(),
            value: String::new(),
            comment: String::new(),
            rejected_form: RejectedForm::default(),
        }
    }

    fn of_config(config: &ScoreConfig) -> Self {
        let key = format!("config:{}", config.id);
        Self {
            description: config.description.as_deref().map(display_text),
            hidden_fields: vec![("config", config.id.clone())],
            ..Self::new(key, Text::from(config.name.as_str()), field_of_config(config))
        }
    }

    fn free() -> Self {
        let title = Text::from("Another score");
        Self { is_free: true, ..Self::new("free".to_owned(), title, ValueField::Line) }
    }

    fn correction() -> Self {
        let title = Text::from("Corrected output");
        let hidden_fields = vec![("correction", "1".to_owned())];
        Self { hidden_fields, ..Self::new("correction".to_owned(), title, ValueField::Lines) }
    }

    /// The form that changes a score.
    fn of_score(score: &Score, configs: &[ScoreConfig]) -> Self {
        let written = &score.written;
        let config = written.config_id.as_deref();
        let config = config.and_then(|id| configs.iter().find(|config| config.id == id));
        let field = match (config, &written.value) {
            (Some(config), _) => field_of_config(config),
            (None, ScoreValue::Numeric(_)) => ValueField::Number { min: None, max: None },
            (None, ScoreValue::Boolean(_)) => ValueField::Choice(truths()),
            (None, ScoreValue::Categorical(_) | ScoreValue::Text(_)) => ValueField::Line,
            (None, ScoreValue::Correction(_)) => ValueField::Lines,
        };
        let id = written.id.as_str();
        Self {
            hidden_fields: vec![("score", id.to_owned())],
            value: match &written.value {
                ScoreValue::Numeric(number) => exact_number(*number),
                ScoreValue::Boolean(truth) => truth.to_string(),
                ScoreValue::Categorical(text)
                | ScoreValue::Text(text)
                | ScoreValue::Correction(text) => text.clone(),
            },
            comment: written.comment.clone().unwrap_or_default(),
            ..Self::new(format!("score:{id}"), Text::from("Change"), field)
        }
    }

    /// With the sent values and problems, if it is the rejected form.
    fn with_rejected(self, rejected: &RejectedForm) -> Self {
        if rejected.value("which") != self.key {
            return self;
        }
        let value = |field| rejected.value(field).to_owned();
        Self {
            name: value("score_name"),
            data_type: value("data_type"),
            value: value("value"),
            comment: value("comment"),
            rejected_form: rejected.clone(),
            ..self
        }
    }

    /// Whether the form was rejected and is shown opened.
    pub(crate) fn is_rejected(&self) -> bool {
        !self.rejected_form.problems.is_empty()
    }

    /// A correction has no comment field of its own.
    pub(crate) const fn is_correction(&self) -> bool {
        matches!(self.field, ValueField::Lines)
    }

    /// Whether the value has line breaks, which browsers drop from an `input`.
    pub(crate) fn has_lines(&self) -> bool {
        self.value.contains(['\n', '\r'])
    }

    pub(crate) const fn is_number(&self) -> bool {
        matches!(self.field, ValueField::Number { .. })
    }

    pub(crate) fn min(&self) -> Option<&str> {
        match &self.field {
            ValueField::Number { min, .. } => min.as_deref(),
            _ => None,
        }
    }

    pub(crate) fn max(&self) -> Option<&str> {
        match &self.field {
            ValueField::Number { max, .. } => max.as_deref(),
            _ => None,
        }
    }

    /// Values to choose from, with their labels; empty if the value is typed.
    pub(crate) fn choices(&self) -> &[(String, Text)] {
        match &self.field {
            ValueField::Choice(choices) => choices,
            _ => &[],
        }
    }

    /// Types, and whether each is chosen.
    pub(crate) fn types(&self) -> impl Iterator<Item = (&'static str, &'static str, bool)> {
        TYPES.into_iter().map(|(name, label)| (name, label, name == self.data_type))
    }

    /// Problems of fields that the form does not show.
    pub(crate) fn other_problems(&self) -> impl Iterator<Item = &Text> {
        let problems = self.rejected_form.problems.iter();
        let others = problems.filter(move |problem| match problem.0 {
            "value" => false,
            "score_name" | "data_type" => !self.is_free,
            "comment" => self.is_correction(),
            _ => true,
        });
        others.map(|(_, problem)| problem)
    }
}

fn truths() -> Vec<(String, Text)> {
    ["true", "false"].map(|truth| (truth.to_owned(), Text::from(truth))).into()
}

fn field_of_config(config: &ScoreConfig) -> ValueField {
    let bound = |bound: Option<f64>| bound.map(exact_number);
    match config.data_type {
        ScoreDataType::Numeric => {
            ValueField::Number { min: bound(config.min_value), max: bound(config.max_value) }
        }
        ScoreDataType::Boolean => ValueField::Choice(truths()),
        ScoreDataType::Categorical => {
            let categories = config.categories.iter().flatten();
            let choice = |label: &str| (label.to_owned(), Text::from(label));
            ValueField::Choice(categories.map(|category| choice(&category.label)).collect())
        }
        ScoreDataType::Text => ValueField::Line,
        ScoreDataType::Correction => ValueField::Lines,
    }
}

/// A score by a person.
#[derive(Clone, Debug)]
pub(crate) struct GivenScore {
    pub(crate) id: String,
    pub(crate) name: Text,
    pub(crate) value: Text,
    pub(crate) comment: Option<Text>,
    pub(crate) author: Option<Text>,
    pub(crate) at: String,
    pub(crate) at_iso: String,
    pub(crate) may_change: bool,
    pub(crate) form: ScoreForm,
}

/// The part of the detail pane with scores and comments by people.
#[derive(Clone, Debug, Default)]
pub(crate) struct Annotations {
    pub(crate) base: String,
    pub(crate) observation: Option<String>,
    pub(crate) given: Vec<GivenScore>,
    pub(crate) forms: Vec<ScoreForm>,
    pub(crate) has_more_configs: bool,
    pub(crate) comments: Vec<CommentLine>,
    pub(crate) n_earlier_comments: u64,
    pub(crate) may_score: bool,
    pub(crate) may_delete_scores: bool,
    pub(crate) may_comment: bool,
    pub(crate) rejected_comment: RejectedForm,
}

impl Annotations {
    /// `output` is that of the selection, which a correction begins with.
    pub(crate) fn new(input: AnnotationsInput, output: Option<&Payload>) -> Self {
        let rejected = &input.rejected_form;
        let is_corrected = input.scores.iter().any(|given| is_correction(&given.score));
        let correction = ScoreForm {
            value: output.and_then(editable).unwrap_or_default(),
            ..ScoreForm::correction()
        };
        let configs = input.configs.iter().map(ScoreForm::of_config);
        let forms = configs.chain([ScoreForm::free()]);
        // A second correction would hide the first one.
        let forms = forms.chain((!is_corrected).then_some(correction));
        let given = input.scores.iter().map(|AnnotatedScore { score, author, may_change }| {
            let written = &score.written;
            GivenScore {
                id: written.id.to_string(),
                name: match is_correction(score) {
                    true => Text::from("Corrected output"),
                    false => Text::from(written.name.as_str()),
                },
                value: shown(&written.value, MAX_VALUE_CHARS).0,
                comment: written
                    .comment
                    .as_deref()
                    .filter(|text| !text.is_empty())
                    .map(display_text),
                author: author.as_deref().map(Text::from),
                at: clock(written.timestamp),
                at_iso: written.timestamp.to_string(),
                may_change: *may_change && input.may_score,
                form: ScoreForm::of_score(score, &input.configs).with_rejected(rejected),
            }
        });
        Self {
            given: given.collect(),
            forms: forms.map(|form| form.with_rejected(rejected)).collect(),
            rejected_comment: match rejected.value("which") {
                "comment" => rejected.clone(),
                _ => RejectedForm::default(),
            },
            base: input.base,
            observation: input.observation,
            has_more_configs: input.has_more_configs,
            comments: input.comments,
            n_earlier_comments: input.n_earlier_comments,
            may_score: input.may_score,
            may_delete_scores: input.may_delete_scores,
            may_comment: input.may_comment,
        }
    }

    /// Whether there is nothing to show.
    pub(crate) fn is_empty(&self) -> bool {
        let is_read_only = !self.may_score && !self.may_comment;
        is_read_only && self.given.is_empty() && self.comments.is_empty()
    }
}

fn is_correction(score: &Score) -> bool {
    matches!(score.written.value, ScoreValue::Correction(_))
}

/// The text of an output, unless it is long or has characters that a text area would hide.
fn editable(output: &Payload) -> Option<String> {
    let text = match output {
        Payload::Text(text) => text.clone(),
        Payload::Json(_) => serde_json::to_string_pretty(&output.to_value()).ok()?,
    };
    let is_plain = |c: char| !is_hidden(c) && (!c.is_control() || c == '\n' || c == '\t');
    (text.len() <= MAX_OUTPUT_BYTES && text.chars().all(is_plain)).then_some(text)
}

#[cfg(test)]
mod tests {
    use perpend_domain::ids::{ScoreId, TraceId};
    use perpend_domain::score::{NewScore, ScoreSource, Subject};
    use perpend_domain::score_config::Category;

    use super::*;
    use crate::samples_tests::*;
    use crate::{DetailInput, DetailPage};

    fn given(id: &str, value: ScoreValue) -> AnnotatedScore {
        let at = Timestamp::from_millis(0);
        let written = NewScore {
            id: ScoreId::new(id).unwrap(),
            name: HOSTILE.to_owned(),
            value,
            subject: Subject::Trace(TraceId::new("t").unwrap()),
            source: ScoreSource::Annotation,
            timestamp: at,
            environment: "default".to_owned(),
            comment: Some(typed()),
            metadata: serde_json::Map::new(),
            config_id: None,
            queue_id: None,
            author_user_id: None,
            origin: None,
        };
        AnnotatedScore {
            score: Score { written, created_at: at, updated_at: at },
            author: Some(HOSTILE.to_owned()),
            may_change: true,
        }
    }

    fn config(id: &str, data_type: ScoreDataType) -> ScoreConfig {
        let at = Timestamp::from_millis(0);
        ScoreConfig {
            id: id.to_owned(),
            name: HOSTILE.to_owned(),
            data_type,
            is_archived: false,
            min_value: Some(0.0),
            max_value: Some(1.0),
            categories: Some(vec![Category { value: 1.0, label: typed() }]),
            direction: None,
            description: Some(HOSTILE.to_owned()),
            created_at: at,
            updated_at: at,
        }
    }

    fn input() -> AnnotationsInput {
        AnnotationsInput {
            base: "/project/p/traces/t".to_owned(),
            configs: vec![
                config("n", ScoreDataType::Numeric),
                config("c", ScoreDataType::Categorical),
            ],
            scores: vec![given("s", ScoreValue::Text(typed()))],
            comments: vec![CommentLine::new(
                "c",
                HOSTILE,
                Some(HOSTILE),
                Timestamp::from_millis(0),
            )],
            may_score: true,
            may_delete_scores: true,
            may_comment: true,
            ..AnnotationsInput::default()
        }
    }

    fn page(annotations: AnnotationsInput) -> String {
        let input = DetailInput {
            base: "/project/p".to_owned(),
            form_context: forms(),
            annotations: Some(annotations),
            ..DetailInput::default()
        };
        checked(&DetailPage::of_observation(&hostile_observation(), input))
    }

    #[test]
    fn forms_and_comments_are_inert_and_shown_with_permission_only() {
        let html = page(input());
        assert!(html.contains("min=\"0\"") && html.contains("max=\"1\""), "{html}");
        assert!(html.contains("/scores/delete\"") && html.contains("/comments/delete\""));
        let read_only = page(AnnotationsInput {
            may_score: false,
            may_delete_scores: false,
            may_comment: false,
            ..input()
        });
        assert!(!read_only.contains("/t/scores") && !read_only.contains("/t/comments"));
    }

    #[test]
    fn a_score_of_another_author_has_no_form() {
        let html = |may_change| {
            let scores =
                vec![AnnotatedScore { may_change, ..given("s", ScoreValue::Text(typed())) }];
            page(AnnotationsInput { scores, ..input() })
        };
        let form = "name=\"which\" value=\"score:s\"";
        assert!(html(true).contains(form) && !html(false).contains(form));
    }

    #[test]
    fn a_text_with_line_breaks_is_edited_in_a_text_area() {
        let page_of = |text: &str| {
            let scores = vec![given("s", ScoreValue::Text(text.to_owned()))];
            page(AnnotationsInput { scores, ..input() })
        };
        let form = "<textarea name=\"value\" rows=\"6\" required>";
        assert!(page_of("first\nsecond").contains(&format!("{form}\nfirst\nsecond</textarea>")));
        assert!(!page_of("first").contains(form));
    }

    #[test]
    fn a_rejected_form_is_open_with_its_values_and_problems() {
        let rejected_form = RejectedForm {
            values: vec![("which", "config:n".to_owned()), ("value", typed())],
            problems: vec![("value", text(HOSTILE)), ("config", text(HOSTILE))],
        };
        let html = page(AnnotationsInput { rejected_form, ..input() });
        assert_eq!(html.matches("id=\"field-value\"").count(), 1);
        assert_eq!(html.matches("<details class=\"made\" open>").count(), 1);
    }

    #[test]
    fn a_correction_begins_with_the_output_and_is_offered_once() {
        let output = Payload::from_value(serde_json::json!({ "a": 1 }));
        let value = |annotations: AnnotationsInput, output: &Payload| {
            let annotations = Annotations::new(annotations, Some(output));
            let form = annotations.forms.into_iter().find(ScoreForm::is_correction);
            form.map(|form| form.value)
        };
        assert_eq!(value(input(), &output).unwrap(), "{\n  \"a\": 1\n}");
        let hidden = Payload::Text("a\u{202e}b".to_owned());
        assert_eq!(value(input(), &hidden).unwrap(), "", "a text area would hide a character");
        let corrected = AnnotationsInput {
            scores: vec![given("s", ScoreValue::Correction("b".to_owned()))],
            ..input()
        };
        assert_eq!(value(corrected, &output), None);
    }
}
