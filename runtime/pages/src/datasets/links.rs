//! URLs of datasets, folders and items. `base` is the URL of the project.

use perpend_views::{Text, encode, segment};

/// URL of a dataset.
pub(crate) fn dataset_href(base: &str, id: &str) -> String {
    format!("{base}/datasets/{}", segment(id))
}

/// URL of an item.
pub(crate) fn item_href(base: &str, dataset_id: &str, item_id: &str) -> String {
    format!("{}/items/{}", dataset_href(base, dataset_id), segment(item_id))
}

/// URL of the datasets in a folder.
pub(crate) fn folder_href(base: &str, folder: &str) -> String {
    match folder {
        "" => format!("{base}/datasets"),
        folder => format!("{base}/datasets?folder={}", encode(folder)),
    }
}

/// Labels and URLs of the list of all datasets and of the folders down to this one; empty for the root.
pub(crate) fn folder_crumbs(base: &str, folder: &str) -> Vec<(Text, String)> {
    if folder.is_empty() {
        return Vec::new();
    }
    let mut crumbs = vec![(Text::from("Datasets"), folder_href(base, ""))];
    let ends = folder.match_indices('/').map(|(at, _)| at).chain([folder.len()]);
    let mut start = 0;
    for end in ends {
        let name = folder.get(start..end).unwrap_or_default();
        let path = folder.get(..end).unwrap_or_default();
        crumbs.push((Text::from(name), folder_href(base, path)));
        start = end + 1;
    }
    crumbs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_of_a_folder_is_a_link() {
        let crumbs = folder_crumbs("/p", "a/b c");
        let crumbs: Vec<_> =
            crumbs.iter().map(|(name, href)| (name.raw(), href.as_str())).collect();
        assert_eq!(
            crumbs,
            [
                ("Datasets", "/p/datasets"),
                ("a", "/p/datasets?folder=a"),
                ("b c", "/p/datasets?folder=a%2Fb%20c"),
            ]
        );
        assert!(folder_crumbs("/p", "").is_empty());
    }
}
