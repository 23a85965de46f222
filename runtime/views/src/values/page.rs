//! A value: its forms in the pane of a step, and the page of one of its nodes.

use crate::markup::{encode, segment};
use askama::Template;
use perpend_domain::mapping::NodePath;
use perpend_domain::payload::Payload;

use crate::format::{count, size};
use crate::values::content::{Addresses, Block, Form, Forms, Places, Shown, ValueParams, places};
use crate::{Shell, Text};

/// Nodes around one that are linked to, beside the root.
const MAX_CRUMBS: usize = 20;
/// Levels that a reader may open or close at once.
const LEVELS: [usize; 3] = [1, 2, 3];

/// A link to another form of a value, or to more or fewer open levels of it.
#[derive(Debug)]
pub(crate) struct Tab {
    pub(crate) label: String,
    pub(crate) href: String,
    pub(crate) is_current: bool,
}

/// A value among those of a step.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) title: &'static str,
    pub(crate) block: Block,
    pub(crate) tabs: Vec<Tab>,
    pub(crate) levels: Vec<Tab>,
    pub(crate) at: Addresses,
}

impl Part {
    /// In the form that was chosen for it; `address` is that of the page around it, up to the forms.
    pub(crate) fn new(
        (title, part): (&'static str, &'static str),
        at: Addresses,
        (forms, address): (&Forms, &str),
        shown: impl FnOnce(&ValueParams, &Addresses) -> Shown,
    ) -> Self {
        let shown = shown(&ValueParams::form(forms.of(part)), &at);
        let tabs = named(&shown.forms).map(|(form, label)| Tab {
            label: label.to_owned(),
            href: format!("{address}{}", forms.with(part, form).query()),
            is_current: Some(form) == shown.form,
        });
        Self {
            title,
            tabs: match shown.block.is_absent() {
                true => Vec::new(),
                false => tabs.collect(),
            },
            levels: levels(&shown.block, None, &at),
            block: shown.block,
            at,
        }
    }
}

fn named(forms: &[Form]) -> impl Iterator<Item = (Form, &'static str)> {
    let all = Form::ALL.iter().filter(|(form, ..)| forms.contains(form));
    all.map(|(form, _, label)| (*form, *label))
}

/// The pages with so many levels of a tree open.
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

/// What the page of a node is made from.
#[derive(Debug)]
pub struct ValueInput {
    /// The address of the project.
    pub base: String,
    /// The id and, where it has one, the name of the trace.
    pub trace: (String, Option<Text>),
    /// The id and the name of the observation.
    pub observation: Option<(String, Text)>,
    /// Which of its values: `input`, `output`, `metadata` or `tools`.
    pub part: String,
    /// The value.
    pub payload: Payload,
    /// The node in it.
    pub path: NodePath,
    /// What of the node is asked for.
    pub asked: ValueParams,
    /// The text to look for in the node.
    pub find: Option<String>,
}

/// A node of a value: in a form, or where a text stands in it.
#[derive(Debug, Template)]
#[template(path = "value_view.html")]
pub struct ValueView {
    title: &'static str,
    /// What it is the value of: words and address.
    of: Vec<(Text, String)>,
    /// The nodes around it, from the root on, and itself.
    steps: Vec<(Text, String)>,
    path: Text,
    size: String,
    tabs: Vec<Tab>,
    levels: Vec<Tab>,
    at: Addresses,
    find: Text,
    block: Block,
    places: Option<Places>,
}

/// The page of it.
#[derive(Debug, Template)]
#[template(path = "value.html")]
pub struct ValuePage {
    /// Around the page.
    pub shell: Shell,
    /// The node.
    pub view: ValueView,
    /// What of the address could not be read.
    pub notices: Vec<Text>,
}

impl ValueView {
    /// Lays it out; none when the value has no such node.
    #[must_use]
    pub fn new(input: ValueInput) -> Option<Self> {
        let ValueInput {
            base,
            trace: (trace, name),
            observation,
            part,
            payload,
            path,
            asked,
            find,
        } = input;
        let step = observation.as_ref().map(|(id, _)| id.as_str());
        let whole = Addresses::new(&base, &trace, step, &part);
        let at = whole.at(&path.to_string());
        let places = match &find {
            Some(text) => Some(places(&payload, &path, text, &at)?),
            None => None,
        };
        let asked = ValueParams { is_unfolded: true, ..asked };
        let shown = match places {
            None => Shown::of_path(&payload, &path, &asked, &whole)?,
            Some(_) => Shown::of(None, &asked, &whole),
        };
        let page = format!("{base}/traces/{}", segment(&trace));
        let mut of = vec![
            (Text::from("Traces"), format!("{base}/traces")),
            (name.unwrap_or_else(|| Text::from(trace)), page.clone()),
        ];
        of.extend(observation.map(|(id, name)| {
            let href = format!("{page}?observation={}", encode(&id));
            (name, href)
        }));
        let tabs = named(&shown.forms).map(|(form, label)| Tab {
            label: label.to_owned(),
            href: at.page(&format!("&as={}", form.name())),
            is_current: Some(form) == shown.form,
        });
        // Of a deep node those around it that are nearest.
        let first = path.0.len().saturating_sub(MAX_CRUMBS);
        let nearest = (0..=path.0.len()).filter(|n| *n == 0 || first < *n);
        let around = nearest.map(|n| {
            let of = NodePath(path.0[..n].to_vec()).to_string();
            let word = match n.checked_sub(1) {
                None => "$".to_owned(),
                Some(last) => path.0[last].to_string(),
            };
            (Text::from(word), whole.at(&of).page("&as=tree"))
        });
        Some(Self {
            title: titled(&part),
            of,
            steps: around.collect(),
            path: Text::from(path.to_string()),
            size: match path.0.is_empty() {
                true => size(payload.as_str().len() as u64),
                false => String::new(),
            },
            tabs: tabs.collect(),
            levels: levels(&shown.block, asked.depth, &at),
            find: Text::from(find.unwrap_or_default()),
            block: shown.block,
            places,
            at,
        })
    }

    fn n_places(&self) -> String {
        let Some(places) = &self.places else {
            return String::new();
        };
        let n = count(places.list.len() as u64);
        match (places.has_more || places.is_partial, places.list.len()) {
            (true, _) => format!("More than {n} places; some of them"),
            (false, 1) => "1 place".to_owned(),
            (false, _) => format!("{n} places"),
        }
    }
}

/// What a part is called on pages.
fn titled(part: &str) -> &'static str {
    match part {
        "input" => "Input",
        "output" => "Output",
        "tools" => "Tools offered",
        _ => "Metadata",
    }
}
