//! Items of a dataset by status and text, including archived ones.

use perpend_db::Arg;
use perpend_domain::dataset::ItemStatus;
use perpend_domain::ids::ProjectId;
use perpend_domain::list::{NumberedPage, Paging};
use perpend_domain::time::Timestamp;

use super::ItemVersion;
use super::items::{COLUMNS, FROM};
use super::row::ItemRow;
use crate::{Catalog, Error};

/// Conditions on the items of a dataset; deleted ones are never found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ItemSearch {
    /// Id of the dataset.
    pub dataset_id: String,
    /// As of this time; the current state if absent.
    pub at: Option<Timestamp>,
    /// Any status if absent.
    pub status: Option<ItemStatus>,
    /// Text that the input, the expected output or the metadata contains; ASCII letters match in any case.
    pub text: Option<String>,
    /// Key and value of a member of the metadata, at any depth.
    pub metadata: Option<(String, String)>,
}

/// A pattern for `LIKE ... ESCAPE '!'` of a text within JSON.
fn pattern(json: &str) -> String {
    let mut pattern = String::with_capacity(json.len() + 2);
    pattern.push('%');
    for c in json.chars() {
        if matches!(c, '!' | '%' | '_') {
            pattern.push('!');
        }
        pattern.push(c);
    }
    pattern.push('%');
    pattern
}

/// A text as it is stored in a JSON string, without the quotes.
fn in_json(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    let inner = quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    inner.unwrap_or(&quoted).to_owned()
}

/// Patterns of a member of an object in compact JSON: a string, or the last or another member with another scalar.
fn member_patterns(key: &str, value: &str) -> [String; 3] {
    let (key, value) = (in_json(key), in_json(value));
    [
        pattern(&format!("\"{key}\":\"{value}\"")),
        pattern(&format!("\"{key}\":{value},")),
        pattern(&format!("\"{key}\":{value}}}")),
    ]
}

impl Catalog {
    /// A page of the items of a dataset that meet the conditions, newest first.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn search_dataset_items(
        &self,
        project: &ProjectId,
        search: &ItemSearch,
        paging: Paging,
    ) -> Result<NumberedPage<ItemVersion>, Error> {
        let like = if self.pool.is_postgres() { "ILIKE" } else { "LIKE" };
        let mut from = format!("{FROM} AND i.dataset_id = $2 AND i.is_deleted = 0");
        let mut args: Vec<Arg<'_>> =
            vec![project.as_str().into(), search.dataset_id.as_str().into()];
        match search.at {
            Some(at) => {
                args.push(at.as_micros().into());
                from.push_str(
                    " AND i.valid_from <= $3 AND (i.valid_to IS NULL OR $3 < i.valid_to)",
                );
            }
            None => from.push_str(" AND i.valid_to IS NULL"),
        }
        if let Some(status) = search.status {
            args.push(status.as_str().into());
            from.push_str(&format!(" AND i.status = ${}", args.len()));
        }
        if let Some(text) = &search.text {
            args.push(pattern(&in_json(text)).into());
            let n = args.len();
            let columns = ["input", "expected_output", "metadata"];
            let any = columns.map(|column| format!("i.{column} {like} ${n} ESCAPE '!'"));
            from.push_str(&format!(" AND ({})", any.join(" OR ")));
        }
        if let Some((key, value)) = &search.metadata {
            let any = member_patterns(key, value).map(|pattern| {
                args.push(pattern.into());
                format!("i.metadata {like} ${} ESCAPE '!'", args.len())
            });
            from.push_str(&format!(" AND ({})", any.join(" OR ")));
        }
        let count = format!("SELECT COUNT(*) {from}");
        let counted: Vec<(i64,)> = self.pool.select(&count, &args).await?;
        let sql = format!(
            "SELECT {COLUMNS} {from} ORDER BY i.created_at DESC, i.id DESC LIMIT {} OFFSET {}",
            paging.limit,
            paging.offset()
        );
        let rows: Vec<ItemRow> = self.pool.select(&sql, &args).await?;
        let items = rows.into_iter().map(ItemVersion::try_from);
        Ok(NumberedPage {
            items: items.collect::<Result<_, _>>()?,
            n_total: counted.first().map_or(0, |(n,)| n.unsigned_abs()),
        })
    }

    /// The active item after this one in the list of items, newest first.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn next_dataset_item(
        &self,
        project: &ProjectId,
        item: &perpend_domain::dataset::DatasetItem,
    ) -> Result<Option<String>, Error> {
        let sql = "
            SELECT i.id FROM dataset_items i
             WHERE i.project_id = $1 AND i.dataset_id = $2 AND i.is_deleted = 0 AND i.status = 'ACTIVE'
               AND i.valid_to IS NULL AND (i.created_at, i.id) < ($3, $4)
             ORDER BY i.created_at DESC, i.id DESC LIMIT 1";
        let args: [Arg<'_>; 4] = [
            project.as_str().into(),
            item.dataset_id.as_str().into(),
            item.created_at.as_micros().into(),
            item.id.as_str().into(),
        ];
        let rows: Vec<(String,)> = self.pool.select(sql, &args).await?;
        Ok(rows.into_iter().next().map(|(id,)| id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_matches_its_text_literally() {
        assert_eq!(pattern(&in_json("50%_!\"\n")), "%50!%!_!!\\\"\\n%");
        let [text, inner, last] = member_patterns("tier", "1");
        assert_eq!((text.as_str(), inner.as_str()), ("%\"tier\":\"1\"%", "%\"tier\":1,%"));
        assert_eq!(last, "%\"tier\":1}%");
    }
}
