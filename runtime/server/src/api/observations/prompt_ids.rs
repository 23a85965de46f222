//! The id of the prompt's version that an observation names.

use std::collections::BTreeSet;

use assay_domain::ids::ProjectId;
use serde_json::Value;

use crate::App;
use crate::problem::Problem;

/// Name and number in a view that has both.
fn version(view: &Value) -> Option<(String, i64)> {
    let name = view["promptName"].as_str()?;
    Some((name.to_owned(), view["promptVersion"].as_i64()?))
}

/// Puts into the views of observations what only the prompts know. Where no prompt is named nothing is
/// asked.
pub(in crate::api) async fn fill(
    app: &App,
    project: &ProjectId,
    views: &mut [Value],
) -> Result<(), Problem> {
    let wanted: BTreeSet<(String, i64)> = views.iter().filter_map(version).collect();
    if wanted.is_empty() {
        return Ok(());
    }
    let wanted: Vec<_> = wanted.into_iter().collect();
    let ids = app.store.prompt_ids(project, &wanted).await?;
    for view in views {
        if let Some(id) = version(view).and_then(|version| ids.get(&version)) {
            view["promptId"] = id.as_str().into();
        }
    }
    Ok(())
}
