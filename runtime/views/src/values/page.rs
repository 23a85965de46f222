//! A value in the detail pane of an observation or a trace, and the page of a node of a value.

use crate::markup::{encode, segment};
use askama::Template;
use perpend_domain::mapping::NodePath;
use perpend_domain::payload::Payload;

use crate::format::{count, size};
use crate::values::content::{
    Addresses, Block, Form, Forms, RenderedValue, TextMatches, ValueParams, find_text,
};
use crate::{Shell, Text};

/// Maximum number of linked ancestors of a node, in addition to the root.
const MAX_CRUMBS: usize = 20;
/// Choices for the number of expanded levels.
const LEVELS: [usize; 3] = [1, 2, 3];

/// A link to another form of a value, or to another number of expanded levels.
#[derive(Debug)]
pub(crate) struct Tab {
    pub(crate) label: String,
    pub(crate) href: String,
    pub(crate) is_current: bool,
}

/// One of the values of an observation or a trace.
#[derive(Debug)]
pub(crate) struct ValuePart {
    pub(crate) title: &'static str,
    pub(crate) block: Block,
    pub(crate) tabs: Vec<Tab>,
    pub(crate) levels: Vec<Tab>,
    pub(crate) at: Addresses,
}

impl ValuePart {
    /// Renders a value in the form selected in `forms`; `address` is the URL of the enclosing page without the forms.
    pub(crate) fn new(
        (title, part): (&'static str, &'static str),
        at: Addresses,
        (forms, address): (&Forms, &str),
        render: impl FnOnce(&ValueParams, &Addresses) -> RenderedValue,
    ) -> Self {
        let rendered = render(&ValueParams::form(forms.of(part)), &at);
        let tabs = form_labels(&rendered.forms).map(|(form, label)| Tab {
            label: label.to_owned(),
            href: format!("{address}{}", forms.with(part, form).query()),
            is_current: Some(form) == rendered.form,
        });
        Self {
            title,
            tabs: match rendered.block.is_absent() {
                true => Vec::new(),
                false => tabs.collect(),
            },
            levels: levels(&rendered.block, None, &at),
            block: rendered.block,
            at,
        }
    }
}

fn form_labels(forms: &[Form]) -> impl Iterator<Item = (Form, &'static str)> {
    let all = Form::ALL.iter().filter(|(form, ..)| forms.contains(form));
    all.map(|(form, _, label)| (*form, *label))
}

/// Links to pages with other numbers of expanded levels.
fn levels(block: &Block, depth: Option<usize>, at: &Addresses) -> Vec<Tab> {
    if !matches!(block, Block::Tree(_)) {
        return Vec::new();
    }
    let some = LEVELS.map(|n| (Some(n), n.to_string(), format!("&as=tree&depth={n}")));
    let all = [(None, "all".to_owned(), "&as=tree".to_owned())];
    let tabs = some.into_iter().chain(all).map(|(n, label, more)| Tab {
        label,
        href: at.page(&more),
        is_current: n == depth,
    });
    tabs.collect()
}

/// Input of [`ValueView`].
#[derive(Debug)]
pub struct ValueInput {
    /// Base URL of the project.
    pub base: String,
    /// Id and optional name of the trace.
    pub trace: (String, Option<Text>),
    /// Id and name of the observation; absent for values of the trace.
    pub observation: Option<(String, Text)>,
    /// `input`, `output`, `metadata` or `tools`.
    pub part: String,
    /// The complete value.
    pub payload: Payload,
    /// Path of the node.
    pub path: NodePath,
    /// Form and part of the node.
    pub params: ValueParams,
    /// Text to search for in the node.
    pub find: Option<String>,
}

/// A node of a value in one of its forms, or the matches of a text search in it.
#[derive(Debug, Template)]
#[template(path = "value_view.html")]
pub struct ValueView {
    title: &'static str,
    /// Breadcrumbs: labels and URLs of the trace list, the trace and the observation.
    crumbs: Vec<(Text, String)>,
    /// Labels and URLs of the ancestors and of the node, from the root on.
    ancestors: Vec<(Text, String)>,
    path: Text,
    size: String,
    tabs: Vec<Tab>,
    levels: Vec<Tab>,
    at: Addresses,
    find: Text,
    block: Block,
    matches: Option<TextMatches>,
}

/// The page of a node of a value.
#[derive(Debug, Template)]
#[template(path = "value.html")]
pub struct ValuePage {
    /// Page frame.
    pub shell: Shell,
    /// The node.
    pub view: ValueView,
    /// Invalid query parameters.
    pub notices: Vec<Text>,
}

impl ValueView {
    /// `None` if the value does not contain the node.
    #[must_use]
    pub fn new(input: ValueInput) -> Option<Self> {
        let ValueInput {
            base,
            trace: (trace, name),
            observation,
            part,
            payload,
            path,
            params,
            find,
        } = input;
        let observation_id = observation.as_ref().map(|(id, _)| id.as_str());
        let whole = Addresses::new(&base, &trace, observation_id, &part);
        let at = whole.at(&path.to_string());
        let matches = match &find {
            Some(text) => Some(find_text(&payload, &path, text, &at)?),
            None => None,
        };
        let params = ValueParams { is_expanded: true, ..params };
        let rendered = match matches {
            None => RenderedValue::of_path(&payload, &path, &params, &whole)?,
            Some(_) => RenderedValue::of(None, &params, &whole),
        };
        let page = format!("{base}/traces/{}", segment(&trace));
        let mut crumbs = vec![
            (Text::from("Traces"), format!("{base}/traces")),
            (name.unwrap_or_else(|| Text::from(trace)), page.clone()),
        ];
        crumbs.extend(observation.map(|(id, name)| {
            let href = format!("{page}?observation={}", encode(&id));
            (name, href)
        }));
        let tabs = form_labels(&rendered.forms).map(|(form, label)| Tab {
            label: label.to_owned(),
            href: at.page(&format!("&as={}", form.name())),
            is_current: Some(form) == rendered.form,
        });
        // For a deep node, only the nearest ancestors.
        let first = path.0.len().saturating_sub(MAX_CRUMBS);
        let nearest = (0..=path.0.len()).filter(|n| *n == 0 || first < *n);
        let around = nearest.map(|n| {
            let path_text = NodePath(path.0[..n].to_vec()).to_string();
            let label = match n.checked_sub(1) {
                None => "$".to_owned(),
                Some(last) => path.0[last].to_string(),
            };
            (Text::from(label), whole.at(&path_text).page("&as=tree"))
        });
        Some(Self {
            title: part_title(&part),
            crumbs,
            ancestors: around.collect(),
            path: Text::from(path.to_string()),
            size: match path.0.is_empty() {
                true => size(payload.as_str().len() as u64),
                false => String::new(),
            },
            tabs: tabs.collect(),
            levels: levels(&rendered.block, params.depth, &at),
            find: Text::from(find.unwrap_or_default()),
            block: rendered.block,
            matches,
            at,
        })
    }

    fn match_count(&self) -> String {
        let Some(matches) = &self.matches else {
            return String::new();
        };
        let n = count(matches.list.len() as u64);
        match (matches.has_more || matches.is_partial, matches.list.len()) {
            (true, _) => format!("More than {n} matches, showing the first"),
            (false, 1) => "1 match".to_owned(),
            (false, _) => format!("{n} matches"),
        }
    }
}

fn part_title(part: &str) -> &'static str {
    match part {
        "input" => "Input",
        "output" => "Output",
        "tools" => "Offered tools",
        _ => "Metadata",
    }
}
