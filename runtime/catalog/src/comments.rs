//! Comments by users on traces, observations, sessions and prompts.

use perpend_domain::ids::ProjectId;
use perpend_domain::time::Timestamp;

use crate::{Catalog, Error};
use perpend_db::{Arg, PageQuery};
use perpend_domain::list::{NumberedPage, Paging};

/// A comment. It is immutable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comment {
    /// Its id.
    pub id: String,
    /// TRACE, OBSERVATION, SESSION or PROMPT.
    pub object_type: String,
    /// Id of the subject.
    pub object_id: String,
    /// Trace of an observation; absent for other subjects, and if the writer does not know it.
    pub trace_id: Option<String>,
    /// The text.
    pub content: String,
    /// Author.
    pub author_user_id: Option<String>,
    /// Time of creation.
    pub created_at: Timestamp,
}

/// Filter of comments; absent fields match all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommentQuery {
    /// Kind of the subject.
    pub object_type: Option<String>,
    /// Id of the subject.
    pub object_id: Option<String>,
    /// Trace of the subject. Comments without a trace match too.
    pub trace_id: Option<String>,
    /// Author.
    pub author_user_id: Option<String>,
}

const COLUMNS: &str = "id, object_type, object_id, trace_id, content, author_user_id, created_at";
const INSERT: &str = "
    INSERT INTO comments (project_id, id, object_type, object_id, trace_id, content, author_user_id, created_at,
                          updated_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)";
const GET: &str = "
    SELECT id, object_type, object_id, trace_id, content, author_user_id, created_at
      FROM comments WHERE project_id = $1 AND id = $2";

const DELETE: &str = "DELETE FROM comments WHERE project_id = $1 AND id = $2";

perpend_db::record! {
    struct CommentRow {
        id: String,
        object_type: String,
        object_id: String,
        trace_id: Option<String>,
        content: String,
        author_user_id: Option<String>,
        created_at: i64,
    }
}

impl TryFrom<CommentRow> for Comment {
    type Error = Error;

    fn try_from(row: CommentRow) -> Result<Self, Error> {
        Ok(Self {
            id: row.id,
            object_type: row.object_type,
            object_id: row.object_id,
            trace_id: row.trace_id,
            content: row.content,
            author_user_id: row.author_user_id,
            created_at: Timestamp::from_micros(row.created_at),
        })
    }
}

impl Catalog {
    /// Writes a comment.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn create_comment(
        &self,
        project: &ProjectId,
        comment: &Comment,
    ) -> Result<(), Error> {
        let args: [Arg<'_>; 9] = [
            project.as_str().into(),
            comment.id.as_str().into(),
            comment.object_type.as_str().into(),
            comment.object_id.as_str().into(),
            comment.trace_id.as_deref().into(),
            comment.content.as_str().into(),
            comment.author_user_id.as_deref().into(),
            comment.created_at.as_micros().into(),
            comment.created_at.as_micros().into(),
        ];
        self.pool.change(INSERT, &args).await.map(drop)
    }

    /// Whether the project has a version of a prompt with this id.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn has_prompt_id(&self, project: &ProjectId, id: &str) -> Result<bool, Error> {
        const FIND: &str = "
            SELECT COUNT(*) FROM prompt_versions WHERE project_id = $1 AND id = $2";
        let args = [project.as_str().into(), id.into()];
        let found: Vec<(i64,)> = self.pool.select(FIND, &args).await?;
        Ok(found.iter().any(|(n,)| *n > 0))
    }

    /// One comment.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn comment(&self, project: &ProjectId, id: &str) -> Result<Option<Comment>, Error> {
        let args = [project.as_str().into(), id.into()];
        let mut rows: Vec<CommentRow> = self.pool.select(GET, &args).await?;
        rows.pop().map(TryInto::try_into).transpose()
    }

    /// Deletes a comment.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the project has no such comment.
    pub async fn delete_comment(&self, project: &ProjectId, id: &str) -> Result<(), Error> {
        let args = [project.as_str().into(), id.into()];
        match self.pool.change(DELETE, &args).await? {
            0 => Err(Error::NotFound),
            _ => Ok(()),
        }
    }

    /// Comments, newest first.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn comments(
        &self,
        project: &ProjectId,
        query: &CommentQuery,
        paging: Paging,
    ) -> Result<NumberedPage<Comment>, Error> {
        let mut from = "FROM comments WHERE project_id = $1".to_owned();
        let mut args: Vec<Arg<'_>> = vec![project.as_str().into()];
        let conditions = [
            ("object_type", &query.object_type),
            ("object_id", &query.object_id),
            ("author_user_id", &query.author_user_id),
        ];
        for (column, wanted) in conditions {
            if let Some(wanted) = wanted {
                args.push(wanted.as_str().into());
                from.push_str(&format!(" AND {column} = ${}", args.len()));
            }
        }
        if let Some(trace) = &query.trace_id {
            args.push(trace.as_str().into());
            from.push_str(&format!(" AND (trace_id IS NULL OR trace_id = ${})", args.len()));
        }
        let listed = PageQuery {
            select: COLUMNS,
            from: &from,
            args: &args,
            order: "created_at DESC, id DESC",
        };
        self.pool.numbered::<CommentRow, _>(&listed, paging).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::on_each_database;

    #[tokio::test]
    async fn comments_are_found_by_their_subject_and_belong_to_one_project() {
        on_each_database(|store| async move {
            let (ours, theirs) = (ProjectId::new("a").unwrap(), ProjectId::new("b").unwrap());
            for n in 0..4_i64 {
                let comment = Comment {
                    id: format!("c{n}"),
                    object_type: "TRACE".to_owned(),
                    object_id: format!("t{}", n % 2),
                    trace_id: None,
                    content: "text".to_owned(),
                    author_user_id: None,
                    created_at: Timestamp::from_millis(n),
                };
                store.catalog.create_comment(&ours, &comment).await.unwrap();
            }
            let query = CommentQuery {
                object_type: Some("TRACE".to_owned()),
                object_id: Some("t1".to_owned()),
                ..CommentQuery::default()
            };
            let found = store.catalog.comments(&ours, &query, Paging::default()).await.unwrap();
            let ids: Vec<_> = found.items.iter().map(|c| c.id.as_str()).collect();
            assert_eq!((ids.as_slice(), found.n_total), (&["c3", "c1"][..], 2));
            let observation = |id: &str, trace: Option<&str>| Comment {
                id: id.to_owned(),
                object_type: "OBSERVATION".to_owned(),
                object_id: "same".to_owned(),
                trace_id: trace.map(str::to_owned),
                content: "text".to_owned(),
                author_user_id: None,
                created_at: Timestamp::from_millis(0),
            };
            for comment in
                [observation("x", Some("t0")), observation("y", Some("t1")), observation("z", None)]
            {
                store.catalog.create_comment(&ours, &comment).await.unwrap();
            }
            let in_trace = CommentQuery {
                object_type: Some("OBSERVATION".to_owned()),
                object_id: Some("same".to_owned()),
                trace_id: Some("t1".to_owned()),
                author_user_id: None,
            };
            let found = store.catalog.comments(&ours, &in_trace, Paging::default()).await.unwrap();
            let ids: Vec<_> = found.items.iter().map(|c| c.id.as_str()).collect();
            assert_eq!(ids, ["z", "y"], "a comment without a trace is in each");
            let none = store.catalog.comments(&theirs, &query, Paging::default()).await.unwrap();
            assert_eq!(none, NumberedPage::empty());
            assert_eq!(store.catalog.comment(&theirs, "c1").await.unwrap(), None);
            let foreign = store.catalog.delete_comment(&theirs, "c1").await;
            assert!(matches!(foreign, Err(Error::NotFound)));
            store.catalog.delete_comment(&ours, "c1").await.unwrap();
            assert_eq!(store.catalog.comment(&ours, "c1").await.unwrap(), None);
            let again = store.catalog.delete_comment(&ours, "c1").await;
            assert!(matches!(again, Err(Error::NotFound)));
        })
        .await;
    }
}
