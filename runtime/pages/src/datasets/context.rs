//! A dataset with the viewer of its page, query parameters of its tabs, and links between numbered pages.

use perpend_catalog::datasets::StoredDataset;
use perpend_domain::access::Permission;
use perpend_domain::dataset::as_of;
use perpend_domain::time::Timestamp;
use perpend_http_kit::problem::Problem;
use perpend_views::{
    DatasetHead, PageLinks, RejectedForm, Section, Shell, Text, decode_segment, encode, with_query,
};
use serde::Deserialize;

use super::links::{dataset_href, folder_crumbs, folder_href};
use crate::request::viewer::Viewer;
use crate::state::App;

/// The path of a dataset.
#[derive(Debug, Deserialize)]
pub(crate) struct DatasetPath {
    dataset: String,
}

/// Query parameters of the page of a dataset.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct DatasetParams {
    /// The tab; the items if absent.
    pub(super) tab: Option<String>,
    /// Number of the page of items, changes or differences, from 1.
    pub(super) page: Option<String>,
    /// Text in items.
    pub(super) q: Option<String>,
    /// Key of the metadata of items.
    pub(super) key: Option<String>,
    /// Value of that key.
    pub(super) value: Option<String>,
    /// `active`, `archived` or `all`.
    pub(super) status: Option<String>,
    /// Instant of the shown items.
    pub(super) asof: Option<String>,
    /// Present to check the items against the schemas.
    pub(super) check: Option<String>,
    /// The first of two compared instants.
    pub(super) a: Option<String>,
    /// The second one.
    pub(super) b: Option<String>,
    /// Name of the score of the chart of runs.
    pub(super) score: Option<String>,
    /// Position that the page of runs follows.
    pub(super) after: Option<String>,
}

impl DatasetParams {
    /// The number of the page; an invalid one adds a fault.
    pub(super) fn page_number(&self, faults: &mut Vec<Text>) -> u32 {
        let Some(raw) = self.page.as_deref().filter(|raw| !raw.is_empty()) else { return 1 };
        match raw.parse() {
            Ok(n @ 1..=1_000_000) => n,
            _ => {
                faults.push(fault("page", "a number from 1 to 1000000", raw));
                1
            }
        }
    }
}

/// A message about an invalid query parameter.
pub(super) fn fault(name: &str, expected: &str, found: &str) -> Text {
    let found: String = found.chars().take(100).collect();
    Text::from(format!("`{name}` must be {expected}; got `{found}`."))
}

/// The instant in a query parameter; an invalid one adds a fault.
pub(super) fn instant(name: &str, raw: Option<&str>, faults: &mut Vec<Text>) -> Option<Timestamp> {
    let raw = raw.map(str::trim).filter(|raw| !raw.is_empty())?;
    match Timestamp::parse(raw) {
        Ok(at) => Some(as_of(at)),
        Err(_) => {
            faults.push(fault(name, "a time such as `2026-01-31T12:00:00Z`", raw));
            None
        }
    }
}

/// A dataset with the viewer of its page.
pub(super) struct DatasetContext {
    pub(super) viewer: Viewer,
    pub(super) stored: StoredDataset,
}

impl DatasetContext {
    /// The dataset of a path.
    pub(super) async fn of_path(
        app: &App,
        viewer: Viewer,
        DatasetPath { dataset }: &DatasetPath,
    ) -> Result<Self, Problem> {
        Self::of_id(app, viewer, decode_segment(dataset)).await
    }

    /// The dataset with this id.
    pub(super) async fn of_id(app: &App, viewer: Viewer, id: &str) -> Result<Self, Problem> {
        let stored = app.store.catalog.dataset_by_id(&viewer.project, id).await?;
        let stored = stored.ok_or_else(|| Problem::not_found("dataset"))?;
        Ok(Self { viewer, stored })
    }

    pub(super) fn id(&self) -> &str {
        &self.stored.dataset.id
    }

    pub(super) fn name(&self) -> &str {
        &self.stored.dataset.name
    }

    /// The name without its folders.
    pub(super) fn last_name(&self) -> Text {
        let last = self.name().rsplit('/').next().filter(|name| !name.is_empty());
        Text::from(last.unwrap_or(self.name()))
    }

    /// URL of the dataset.
    pub(super) fn href(&self) -> String {
        dataset_href(&self.viewer.base(), self.id())
    }

    /// Path of an operation on the dataset; `rest` begins with a slash unless it is empty.
    pub(super) fn operation(&self, rest: &str) -> String {
        format!("/api/v1/datasets/{}{rest}", encode(self.name()))
    }

    pub(super) fn shell(&self) -> Shell {
        self.viewer.shell(Section::Datasets)
    }

    /// Labels and URLs of the list of datasets and of the folders of the dataset.
    pub(super) fn crumbs(&self) -> Vec<(Text, String)> {
        let base = self.viewer.base();
        match self.name().rsplit_once('/') {
            Some((folder, name)) if !folder.is_empty() && !name.is_empty() => {
                folder_crumbs(&base, folder)
            }
            _ => vec![(Text::from("Datasets"), folder_href(&base, ""))],
        }
    }

    pub(super) fn head(
        &self,
        tab: &'static str,
        faults: Vec<Text>,
        rejected_form: RejectedForm,
    ) -> DatasetHead {
        let dataset = &self.stored.dataset;
        DatasetHead {
            name: self.last_name(),
            full_name: Text::from(dataset.name.as_str()),
            crumbs: self.crumbs(),
            description: dataset.description.as_deref().map(Text::lines),
            href: self.href(),
            tab,
            may_write: self.viewer.may(Permission::DatasetWrite),
            is_archived: self.stored.archived_at.is_some(),
            faults,
            rejected_form,
        }
    }
}

/// Links to the pages before and after a numbered page. `pairs` are the other parameters of its URL.
pub(super) fn numbered_links(
    path: &str,
    pairs: &[(&'static str, String)],
    (number, limit, n_total): (u32, u32, u64),
) -> PageLinks {
    let at = |number: u32| {
        let mut pairs = pairs.to_vec();
        if 1 < number {
            pairs.push(("page", number.to_string()));
        }
        with_query(path, &pairs)
    };
    let has_next = u64::from(number) * u64::from(limit) < n_total;
    PageLinks {
        first: (2 < number).then(|| at(1)),
        previous: (1 < number).then(|| ("Previous page", at(number - 1))),
        next: has_next.then(|| ("Next page", at(number + 1))),
        last: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_linked_up_to_the_last_one() {
        let links = |number| numbered_links("/d", &[("q", "a b".to_owned())], (number, 50, 101));
        assert_eq!(links(1).next.map(|(_, href)| href).as_deref(), Some("/d?q=a%20b&page=2"));
        assert_eq!(links(2).previous.map(|(_, href)| href).as_deref(), Some("/d?q=a%20b"));
        assert!(links(1).previous.is_none() && links(3).next.is_none());
        assert_eq!(links(3).first.as_deref(), Some("/d?q=a%20b"));
    }

    #[test]
    fn an_instant_of_whole_milliseconds_means_all_of_them_and_an_invalid_one_is_a_fault() {
        let mut faults = Vec::new();
        let at = instant("asof", Some(" 2026-01-31T12:00:00.001Z "), &mut faults).unwrap();
        assert_eq!(at.as_micros() % 1_000, 999);
        assert_eq!(instant("asof", Some(""), &mut faults), None);
        assert!(faults.is_empty());
        assert_eq!(instant("asof", Some("yesterday"), &mut faults), None);
        assert!(faults[0].raw().contains("`yesterday`"));
    }
}
