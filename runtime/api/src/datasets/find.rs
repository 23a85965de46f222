//! Look-up of a dataset by name.

use perpend_catalog::datasets::StoredDataset;
use perpend_http_kit::auth::Act;
use perpend_http_kit::problem::Problem;

use crate::state::App;

/// The dataset of this name. Some clients encode names twice, so an unknown name is also
/// decoded once more.
pub(crate) async fn find(app: &App, caller: &Act, name: &str) -> Result<StoredDataset, Problem> {
    if let Some(found) = app.store.catalog.dataset(&caller.project, name).await? {
        return Ok(found);
    }
    let decoded = percent_encoding::percent_decode_str(name).decode_utf8();
    if let Some(decoded) = decoded.ok().filter(|decoded| decoded != name)
        && let Some(found) = app.store.catalog.dataset(&caller.project, &decoded).await?
    {
        return Ok(found);
    }
    Err(Problem::not_found("dataset"))
}
