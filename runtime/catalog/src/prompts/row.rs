//! Prompts as rows.

use perpend_domain::prompt::PromptBody;
use perpend_domain::time::Timestamp;

use super::Prompt;
use crate::Error;
use perpend_db::from_json;

perpend_db::record! {
    pub(super) struct PromptRow {
        id: String,
        name: String,
        version: i64,
        body: String,
        config: String,
        commit_message: Option<String>,
        created_by: String,
        created_at: i64,
        updated_at: i64,
        tags: String,
        labels: Option<String>,
    }
}

/// Labels are stored as one text; none of them has a comma.
pub(super) fn labels(joined: Option<&str>) -> Vec<String> {
    let mut labels: Vec<String> = joined
        .unwrap_or_default()
        .split(',')
        .filter(|label| !label.is_empty())
        .map(str::to_owned)
        .collect();
    labels.sort_unstable();
    labels
}

impl TryFrom<PromptRow> for Prompt {
    type Error = Error;

    fn try_from(row: PromptRow) -> Result<Self, Error> {
        let body = PromptBody::from_stored(from_json("prompt", &row.body)?);
        Ok(Self {
            id: row.id,
            name: row.name,
            version: row.version,
            body: body.ok_or_else(|| Error::Inconsistent {
                what: "prompt",
                detail: "neither a text nor messages".to_owned(),
            })?,
            config: from_json("prompt", &row.config)?,
            labels: labels(row.labels.as_deref()),
            tags: from_json("prompt", &row.tags)?,
            commit_message: row.commit_message,
            created_by: row.created_by,
            created_at: Timestamp::from_micros(row.created_at),
            updated_at: Timestamp::from_micros(row.updated_at),
        })
    }
}
