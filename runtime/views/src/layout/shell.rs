//! The frame of every page: top bar with the project, and sidebar with the sections.

use crate::markup::{encode, segment};
use crate::urls::{Focus, is_known};
use askama::Template;
use perpend_domain::telemetry::GroupKey;
use perpend_domain::time::Timestamp;

use crate::layout::forms::FormContext;
use crate::layout::preferences::Preferences;
use crate::{ApiRequest, Text};

/// The frame of a page.
#[derive(Clone, Debug, Default)]
pub struct Shell {
    /// Absent before login.
    pub project: Option<ProjectLink>,
    /// Other projects of the session, last used first.
    pub others: Vec<ProjectLink>,
    /// Section to highlight in the sidebar.
    pub section: Section,
    /// Preferences of the browser.
    pub preferences: Preferences,
    /// Values for its forms.
    pub forms: FormContext,
    /// Time range and environments, which links to sections preserve.
    pub focus: Focus,
    /// URL of the page; empty for an error page.
    pub url: String,
    /// Counts of the sidebar.
    pub attention: AttentionCounts,
    /// API requests for the same data.
    pub api: Vec<ApiRequest>,
    /// Failures of the server with their remedies.
    pub alarms: Vec<&'static str>,
    /// Whether the viewer may see the page of the instance.
    pub is_operator: bool,
    /// Name of the account of the viewer.
    pub account: Option<Text>,
    /// Sections that the viewer may not see.
    pub hidden: Vec<Section>,
    /// Time of the response.
    pub now: Timestamp,
}

/// Counts of items that need attention, shown in the sidebar.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AttentionCounts {
    /// Paused rules.
    pub paused: u64,
    /// Failed executions in the last 24 hours.
    pub failed: u64,
}

impl AttentionCounts {
    /// Maximum of each count.
    pub const LIMIT: u32 = 100;
}

/// A project with its URL.
#[derive(Clone, Debug)]
pub struct ProjectLink {
    pub(crate) name: Text,
    base: String,
}

impl ProjectLink {
    /// `id` and `name` of the project.
    #[must_use]
    pub fn new(id: &str, name: &str) -> Self {
        Self { name: Text::from(name), base: base(id) }
    }
}

/// Base URL of the pages of a project.
#[must_use]
pub fn base(project: &str) -> String {
    format!("/project/{}", encode(project))
}

/// URL of the list of sessions or of users. `base` is the URL of the project.
#[must_use]
pub fn list_href(base: &str, by: GroupKey) -> String {
    let path = match by {
        GroupKey::Session => "sessions",
        GroupKey::User => "users",
    };
    format!("{base}/{path}")
}

/// URL of a session or user.
#[must_use]
pub fn href(base: &str, by: GroupKey, id: &str) -> String {
    format!("{}/{}", list_href(base, by), segment(id))
}

/// URL of the page of an execution. `base` is the URL of the project.
#[must_use]
pub fn execution_href(base: &str, id: &str) -> String {
    format!("{base}/executions/{}", encode(id))
}

/// URL of the page of a rule. `base` is the URL of the project.
#[must_use]
pub fn rule_href(base: &str, id: &str) -> String {
    format!("{base}/rules/{}", encode(id))
}

/// URL of the page of an evaluator. `base` is the URL of the project.
#[must_use]
pub fn evaluator_href(base: &str, id: &str) -> String {
    format!("{base}/evaluators/{}", encode(id))
}

/// The sections of the sidebar.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Section {
    /// No section of the sidebar.
    #[default]
    Other,
    /// Overview.
    Overview,
    /// Traces.
    Traces,
    /// Observations.
    Observations,
    /// Sessions.
    Sessions,
    /// Users.
    Users,
    /// Scores.
    Scores,
    /// Rules.
    Rules,
    /// Evaluators.
    Evaluators,
    /// Executions.
    Executions,
    /// Datasets.
    Datasets,
    /// Experiments.
    Experiments,
    /// Connections to model providers.
    Connections,
    /// Plug-ins.
    Plugins,
    /// Key pairs.
    Keys,
    /// Members of the organization.
    Members,
    /// Audit trail.
    Audit,
    /// API reference.
    Reference,
    /// Search.
    Search,
}

/// An entry of the sidebar.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SidebarEntry {
    pub(crate) section: Section,
    pub(crate) label: &'static str,
    /// Path relative to the project.
    path: &'static str,
    /// Second key of the shortcut, after `g`.
    pub(crate) key: &'static str,
    /// Icon of the collapsed sidebar: an SVG path in a box of 16 by 16.
    pub(crate) icon: &'static str,
}

/// A group of entries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SidebarGroup {
    pub(crate) label: &'static str,
    pub(crate) entries: &'static [SidebarEntry],
}

const fn entry(
    section: Section,
    label: &'static str,
    path: &'static str,
    (key, icon): (&'static str, &'static str),
) -> SidebarEntry {
    SidebarEntry { section, label, path, key, icon }
}

static GROUPS: [SidebarGroup; 4] = [
    SidebarGroup {
        label: "Observe",
        entries: &[
            entry(Section::Overview, "Overview", "", ("h", "M2 8l6-5 6 5M4 7v6h8V7")),
            entry(Section::Traces, "Traces", "/traces", ("t", "M2 4h7M5 8h9M8 12h5")),
            entry(
                Section::Observations,
                "Observations",
                "/observations",
                ("o", "M2 4h2M6 4h8M2 8h2M6 8h8M2 12h2M6 12h8"),
            ),
            entry(Section::Sessions, "Sessions", "/sessions", ("s", "M2 3h12v8H8l-3 3v-3H2z")),
            entry(
                Section::Users,
                "Users",
                "/users",
                ("u", "M8 8a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5M3 14a5 5 0 0 1 10 0"),
            ),
        ],
    },
    SidebarGroup {
        label: "Evaluate",
        entries: &[
            entry(Section::Scores, "Scores", "/scores", ("c", "M2 12a6 6 0 0 1 12 0M8 12l3-4")),
            entry(Section::Rules, "Rules", "/rules", ("r", "M2 5h12M2 11h12M6 3v4M10 9v4")),
            entry(
                Section::Evaluators,
                "Evaluators",
                "/evaluators",
                ("v", "M3 8l3 3 7-7M2 3h6M2 14h12"),
            ),
            entry(Section::Executions, "Executions", "/executions", ("e", "M5 3l7 5-7 5z")),
        ],
    },
    SidebarGroup {
        label: "Improve",
        entries: &[
            entry(Section::Datasets, "Datasets", "/datasets", ("d", "M2 3h12v10H2zM2 6h12M6 6v7")),
            entry(
                Section::Experiments,
                "Experiments",
                "/experiments",
                ("p", "M6 2h4M7 2v4L3 13h10L9 6V2"),
            ),
        ],
    },
    SidebarGroup {
        label: "Settings",
        entries: &[
            entry(
                Section::Connections,
                "Connections",
                "/settings/connections",
                ("l", "M6 10l4-4M7 4l2-2 5 5-2 2M9 12l-2 2-5-5 2-2"),
            ),
            entry(
                Section::Plugins,
                "Plug-ins",
                "/plugins",
                ("i", "M5 2v4M11 2v4M3 6h10v3a5 5 0 0 1-10 0zM8 14v2"),
            ),
            entry(
                Section::Keys,
                "Keys",
                "/settings/keys",
                ("k", "M10 2a4 4 0 1 1 0 8 4 4 0 0 1 0-8M7 9l-5 5v-3M4 12l2 2"),
            ),
            entry(
                Section::Members,
                "Members",
                "/settings/members",
                (
                    "m",
                    "M6 8a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5M1 14a5 5 0 0 1 10 0M11 4a2 2 0 0 1 0 4M13 13a4 4 0 0 0-2-3",
                ),
            ),
            entry(
                Section::Audit,
                "Audit trail",
                "/settings/audit",
                ("a", "M4 2h8v12H4zM6 5h4M6 8h4M6 11h2"),
            ),
        ],
    },
];

/// A part of each page that depends on the frame alone. Parts are templates of their own because a template
/// repeats the code of those that it extends or includes.
macro_rules! frame_part {
    ($name:ident, $path:literal) => {
        #[derive(Debug, Template)]
        #[template(path = $path)]
        pub(crate) struct $name<'a> {
            shell: &'a Shell,
        }
    };
}

frame_part!(FrameHead, "shell_head.html");
frame_part!(FrameTop, "shell_frame.html");
frame_part!(FrameFlash, "shell_flash.html");
frame_part!(FrameEnd, "shell_end.html");

impl Shell {
    pub(crate) const fn head(&self) -> FrameHead<'_> {
        FrameHead { shell: self }
    }

    pub(crate) const fn frame(&self) -> FrameTop<'_> {
        FrameTop { shell: self }
    }

    pub(crate) const fn flash(&self) -> FrameFlash<'_> {
        FrameFlash { shell: self }
    }

    pub(crate) const fn end(&self) -> FrameEnd<'_> {
        FrameEnd { shell: self }
    }
}

impl Shell {
    /// Time of day, with the date unless it is today.
    pub(crate) fn short_time(&self, at: &Timestamp) -> String {
        crate::format::short_time(*at, self.now)
    }

    /// `3 min ago`; empty for a future time.
    pub(crate) fn ago(&self, at: &Timestamp) -> String {
        crate::format::ago(*at, self.now).unwrap_or_default()
    }

    pub(crate) fn name(&self) -> Option<&Text> {
        self.project.as_ref().map(|project| &project.name)
    }

    /// Base URL of the project; empty before login.
    #[must_use]
    pub fn base(&self) -> &str {
        self.project.as_ref().map_or("", |project| &project.base)
    }

    /// The canonical URL: without parameters for the position in a list, for the list from which the page was opened, and
    /// without unknown parameters.
    pub(crate) fn canonical(&self) -> Option<String> {
        const LEFT_OUT: [&str; 8] =
            ["in", "view", "after", "before", "page", "saved", "looked", "found"];
        let (path, query) = self.url.split_once('?').unwrap_or((&self.url, ""));
        let pairs = query.split('&').filter(|pair| {
            let name = pair.split('=').next().unwrap_or_default();
            is_known(name) && !LEFT_OUT.contains(&name)
        });
        let pairs: Vec<&str> = pairs.collect();
        let address = match pairs.is_empty() {
            true => path.to_owned(),
            false => format!("{path}?{}", pairs.join("&")),
        };
        (!address.is_empty()).then_some(address)
    }

    /// Sets the API requests for the same data.
    #[must_use]
    pub fn with_api(self, api: impl IntoIterator<Item = ApiRequest>) -> Self {
        Self { api: api.into_iter().collect(), ..self }
    }

    pub(crate) fn shows(&self, entry: &SidebarEntry) -> bool {
        !self.hidden.contains(&entry.section)
    }

    pub(crate) fn groups(&self) -> &'static [SidebarGroup] {
        &GROUPS
    }

    pub(crate) fn href(&self, entry: &SidebarEntry) -> String {
        format!("{}{}{}", self.base(), entry.path, self.focus.query())
    }

    /// URL of the same section in another project.
    pub(crate) fn in_project(&self, other: &ProjectLink) -> String {
        let mut entries = GROUPS.iter().flat_map(|group| group.entries);
        let path = entries.find(|entry| self.is_current(entry));
        let path = path.map_or("", |entry| entry.path);
        format!("{}{path}{}", other.base, self.focus.query())
    }

    /// Count of an entry: number, description and CSS class.
    pub(crate) fn counter(
        &self,
        entry: &SidebarEntry,
    ) -> Option<(String, &'static str, &'static str)> {
        let (n, what, class) = match entry.section {
            Section::Rules => (self.attention.paused, "paused", "waiting"),
            Section::Executions => (self.attention.failed, "failed in 24 hours", "bad"),
            _ => return None,
        };
        let limit = u64::from(AttentionCounts::LIMIT);
        let shown = match n < limit {
            true => n.to_string(),
            false => format!("{}+", limit - 1),
        };
        (0 < n).then_some((shown, what, class))
    }

    pub(crate) fn is_current(&self, entry: &SidebarEntry) -> bool {
        self.section == entry.section
    }

    pub(crate) fn is_reference(&self) -> bool {
        self.section == Section::Reference
    }

    /// Labels and URLs of the sections and global pages.
    #[must_use]
    pub fn places(&self) -> Vec<(&'static str, String)> {
        let entries = GROUPS.iter().flat_map(|group| group.entries);
        let entries = entries.filter(|entry| self.shows(entry));
        let own = entries.map(|entry| (entry.label, self.href(entry)));
        let others = [("API reference", "/api/reference"), ("Preferences", "/preferences")];
        let others = others.map(|(label, href)| (label, format!("{href}{}", self.focus.query())));
        let instance = self.is_operator.then(|| ("Instance", "/instance".to_owned()));
        own.chain(others).chain(instance).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn section_keys_are_unique() {
        let keys = GROUPS.iter().flat_map(|group| group.entries).map(|entry| entry.key);
        let mut keys: Vec<_> = keys.collect();
        let n = keys.len();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), n);
    }

    #[test]
    fn only_rules_and_executions_have_counts_and_zero_is_not_shown() {
        let counted = |paused, failed| {
            let attention = AttentionCounts { paused, failed };
            let shell = Shell { attention, ..Shell::default() };
            let entries = GROUPS.iter().flat_map(|group| group.entries);
            let all = entries.filter_map(|entry| shell.counter(entry));
            all.map(|(n, what, _)| format!("{n} {what}")).collect::<Vec<_>>()
        };
        assert!(counted(0, 0).is_empty());
        assert_eq!(counted(2, 0), ["2 paused"]);
        assert_eq!(counted(0, 99), ["99 failed in 24 hours"]);
        assert_eq!(counted(1, 100), ["1 paused", "99+ failed in 24 hours"]);
    }

    #[test]
    fn the_canonical_url_omits_where_the_page_was_opened_from() {
        let canonical = |here: &str| {
            let shell = Shell { url: here.to_owned(), ..Shell::default() };
            shell.canonical()
        };
        for (here, own) in [
            ("/project/p", "/project/p"),
            ("/project/p/traces?after=_5_a&q=in%3Aa&n=25", "/project/p/traces?q=in%3Aa&n=25"),
            ("/project/p/traces?page=2&before=end&ref=mail", "/project/p/traces"),
            (
                "/project/p/traces/t?in=%2Ftraces&observation=o&view=x",
                "/project/p/traces/t?observation=o",
            ),
            ("/project/p/traces/t?trace&min=ERROR", "/project/p/traces/t?trace&min=ERROR"),
        ] {
            assert_eq!(canonical(here).as_deref(), Some(own));
        }
        assert_eq!(canonical(""), None);
    }

    #[test]
    fn a_project_id_is_one_path_segment() {
        assert_eq!(base("a/b c-d"), "/project/a%2Fb%20c-d");
    }
}
