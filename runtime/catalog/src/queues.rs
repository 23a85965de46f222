//! Annotation queues: their items and the assigned users.

use perpend_domain::ids::ProjectId;
use perpend_domain::time::Timestamp;
use serde_json::json;

use crate::{Catalog, Error, audit};
use perpend_db::{Arg, PageQuery, from_json, to_json};
use perpend_domain::list::{NumberedPage, Paging};

/// An annotation queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queue {
    /// Its id.
    pub id: String,
    /// Its name, unique within the project.
    pub name: String,
    /// Description for users.
    pub description: Option<String>,
    /// Ids of the score configs of the queue, at least one.
    pub score_config_ids: Vec<String>,
    /// Time of creation.
    pub created_at: Timestamp,
    /// Time of the last change.
    pub updated_at: Timestamp,
}

/// An item of an annotation queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueItem {
    /// Its id, unique within the queue.
    pub id: String,
    /// The queue.
    pub queue_id: String,
    /// Id of the subject.
    pub object_id: String,
    /// TRACE, OBSERVATION or SESSION.
    pub object_type: String,
    /// Time of completion; absent for an open item.
    pub completed_at: Option<Timestamp>,
    /// Time of creation.
    pub created_at: Timestamp,
    /// Time of the last change.
    pub updated_at: Timestamp,
}

const QUEUE: &str = "id, name, description, score_config_ids, created_at, updated_at";
const ITEM: &str = "id, queue_id, object_id, object_type, completed_at, created_at, updated_at";
const INSERT: &str = "
    INSERT INTO annotation_queues (project_id, id, name, description, score_config_ids, created_at,
                                   updated_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (project_id, name) DO NOTHING";
const INSERT_ITEM: &str = "
    INSERT INTO annotation_queue_items (project_id, queue_id, id, object_id, object_type, status,
                                        completed_at, created_at, updated_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)";
const UPDATE_ITEM: &str = "
    UPDATE annotation_queue_items SET status = $4, completed_at = $5, updated_at = $6
     WHERE project_id = $1 AND queue_id = $2 AND id = $3";
const DELETE_ITEM: &str = "
    DELETE FROM annotation_queue_items WHERE project_id = $1 AND queue_id = $2 AND id = $3";
const ASSIGN: &str = "
    INSERT INTO annotation_assignments (project_id, queue_id, user_id, created_at)
    VALUES ($1, $2, $3, $4) ON CONFLICT (project_id, queue_id, user_id) DO NOTHING";
const UNASSIGN: &str = "
    DELETE FROM annotation_assignments WHERE project_id = $1 AND queue_id = $2 AND user_id = $3";

perpend_db::record! {
    struct QueueRow {
        id: String,
        name: String,
        description: Option<String>,
        score_config_ids: String,
        created_at: i64,
        updated_at: i64,
    }
}

impl TryFrom<QueueRow> for Queue {
    type Error = Error;

    fn try_from(row: QueueRow) -> Result<Self, Error> {
        Ok(Self {
            id: row.id,
            name: row.name,
            description: row.description,
            score_config_ids: from_json("annotation queue", &row.score_config_ids)?,
            created_at: Timestamp::from_micros(row.created_at),
            updated_at: Timestamp::from_micros(row.updated_at),
        })
    }
}

perpend_db::record! {
    struct ItemRow {
        id: String,
        queue_id: String,
        object_id: String,
        object_type: String,
        completed_at: Option<i64>,
        created_at: i64,
        updated_at: i64,
    }
}

impl TryFrom<ItemRow> for QueueItem {
    type Error = Error;

    fn try_from(row: ItemRow) -> Result<Self, Error> {
        Ok(Self {
            id: row.id,
            queue_id: row.queue_id,
            object_id: row.object_id,
            object_type: row.object_type,
            completed_at: row.completed_at.map(Timestamp::from_micros),
            created_at: Timestamp::from_micros(row.created_at),
            updated_at: Timestamp::from_micros(row.updated_at),
        })
    }
}

/// The state as a filter value.
const fn status(completed_at: Option<Timestamp>) -> &'static str {
    match completed_at {
        Some(_) => "COMPLETED",
        None => "PENDING",
    }
}

impl Catalog {
    /// Stores a new queue.
    ///
    /// # Errors
    /// [`Error::Conflict`] when the project has a queue of this name.
    pub async fn create_queue(&self, project: &ProjectId, queue: &Queue) -> Result<(), Error> {
        let configs = to_json("annotation queue", &queue.score_config_ids)?;
        let args: [Arg<'_>; 7] = [
            project.as_str().into(),
            queue.id.as_str().into(),
            queue.name.as_str().into(),
            queue.description.as_deref().into(),
            configs.as_str().into(),
            queue.created_at.as_micros().into(),
            queue.updated_at.as_micros().into(),
        ];
        let after = json!({ "name": queue.name, "scoreConfigIds": queue.score_config_ids });
        audit::note("annotation-queue", &queue.id, None, Some(after));
        match self.pool.change(INSERT, &args).await? {
            0 => Err(Error::Conflict("a queue of this name exists")),
            _ => Ok(()),
        }
    }

    /// One queue.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn queue(&self, project: &ProjectId, id: &str) -> Result<Option<Queue>, Error> {
        let sql =
            format!("SELECT {QUEUE} FROM annotation_queues WHERE project_id = $1 AND id = $2");
        let args = [project.as_str().into(), id.into()];
        let mut rows: Vec<QueueRow> = self.pool.select(&sql, &args).await?;
        rows.pop().map(TryInto::try_into).transpose()
    }

    /// Queues, newest first.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn queues(
        &self,
        project: &ProjectId,
        paging: Paging,
    ) -> Result<NumberedPage<Queue>, Error> {
        let args: [Arg<'_>; 1] = [project.as_str().into()];
        let listed = PageQuery {
            select: QUEUE,
            from: "FROM annotation_queues WHERE project_id = $1",
            args: &args,
            order: "created_at DESC, id DESC",
        };
        self.pool.numbered::<QueueRow, _>(&listed, paging).await
    }

    /// Adds an item to a queue, which has to exist.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn create_queue_item(
        &self,
        project: &ProjectId,
        item: &QueueItem,
    ) -> Result<(), Error> {
        let args: [Arg<'_>; 9] = [
            project.as_str().into(),
            item.queue_id.as_str().into(),
            item.id.as_str().into(),
            item.object_id.as_str().into(),
            item.object_type.as_str().into(),
            status(item.completed_at).into(),
            item.completed_at.map(Timestamp::as_micros).into(),
            item.created_at.as_micros().into(),
            item.updated_at.as_micros().into(),
        ];
        self.pool.change(INSERT_ITEM, &args).await.map(drop)
    }

    /// One item of a queue.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn queue_item(
        &self,
        project: &ProjectId,
        queue: &str,
        id: &str,
    ) -> Result<Option<QueueItem>, Error> {
        let sql = format!(
            "SELECT {ITEM} FROM annotation_queue_items \
             WHERE project_id = $1 AND queue_id = $2 AND id = $3"
        );
        let args = [project.as_str().into(), queue.into(), id.into()];
        let mut rows: Vec<ItemRow> = self.pool.select(&sql, &args).await?;
        rows.pop().map(TryInto::try_into).transpose()
    }

    /// Items of a queue, newest first; only completed or only open ones if given.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn queue_items(
        &self,
        project: &ProjectId,
        queue: &str,
        is_completed: Option<bool>,
        paging: Paging,
    ) -> Result<NumberedPage<QueueItem>, Error> {
        let from = match is_completed {
            None => "FROM annotation_queue_items WHERE project_id = $1 AND queue_id = $2",
            Some(true) => {
                "FROM annotation_queue_items
                  WHERE project_id = $1 AND queue_id = $2 AND status = 'COMPLETED'"
            }
            Some(false) => {
                "FROM annotation_queue_items
                  WHERE project_id = $1 AND queue_id = $2 AND status = 'PENDING'"
            }
        };
        let args: [Arg<'_>; 2] = [project.as_str().into(), queue.into()];
        let listed =
            PageQuery { select: ITEM, from, args: &args, order: "created_at DESC, id DESC" };
        self.pool.numbered::<ItemRow, _>(&listed, paging).await
    }

    /// Sets whether an item is completed.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the queue has no such item.
    pub async fn update_queue_item(
        &self,
        project: &ProjectId,
        item: &QueueItem,
    ) -> Result<(), Error> {
        let args: [Arg<'_>; 6] = [
            project.as_str().into(),
            item.queue_id.as_str().into(),
            item.id.as_str().into(),
            status(item.completed_at).into(),
            item.completed_at.map(Timestamp::as_micros).into(),
            item.updated_at.as_micros().into(),
        ];
        found(self.pool.change(UPDATE_ITEM, &args).await?)
    }

    /// Deletes an item of a queue.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the queue has no such item.
    pub async fn delete_queue_item(
        &self,
        project: &ProjectId,
        queue: &str,
        id: &str,
    ) -> Result<(), Error> {
        let args = [project.as_str().into(), queue.into(), id.into()];
        found(self.pool.change(DELETE_ITEM, &args).await?)
    }

    /// Assigns a user to a queue, which has to exist; repeating it is a no-op.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn assign_queue(
        &self,
        project: &ProjectId,
        queue: &str,
        user: &str,
        now: Timestamp,
    ) -> Result<(), Error> {
        let args: [Arg<'_>; 4] =
            [project.as_str().into(), queue.into(), user.into(), now.as_micros().into()];
        let after = Some(json!({ "userId": user }));
        audit::note("annotation-queue", queue, None, after);
        self.pool.change(ASSIGN, &args).await.map(drop)
    }

    /// Removes the assignment of a user; a missing assignment is no error.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn unassign_queue(
        &self,
        project: &ProjectId,
        queue: &str,
        user: &str,
    ) -> Result<(), Error> {
        let args = [project.as_str().into(), queue.into(), user.into()];
        let before = Some(json!({ "userId": user }));
        audit::note("annotation-queue", queue, before, None);
        self.pool.change(UNASSIGN, &args).await.map(drop)
    }
}

const fn found(n_changed: u64) -> Result<(), Error> {
    match n_changed {
        0 => Err(Error::NotFound),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::on_each_database;

    #[tokio::test]
    async fn a_queue_is_completed_and_belongs_to_one_project() {
        on_each_database(|store| async move {
            let (ours, theirs) = (ProjectId::new("a").unwrap(), ProjectId::new("b").unwrap());
            let at = Timestamp::from_millis(1);
            let queue = Queue {
                id: "q".to_owned(),
                name: "review".to_owned(),
                description: None,
                score_config_ids: vec!["c".to_owned()],
                created_at: at,
                updated_at: at,
            };
            store.catalog.create_queue(&ours, &queue).await.unwrap();
            let mut other = queue.clone();
            other.id = "r".to_owned();
            let again = store.catalog.create_queue(&ours, &other).await;
            assert!(matches!(again, Err(Error::Conflict(_))));
            assert_eq!(store.catalog.queue(&ours, "q").await.unwrap(), Some(queue));
            assert_eq!(store.catalog.queue(&theirs, "q").await.unwrap(), None);
            for id in ["one", "two"] {
                let item = QueueItem {
                    id: id.to_owned(),
                    queue_id: "q".to_owned(),
                    object_id: "t".to_owned(),
                    object_type: "TRACE".to_owned(),
                    completed_at: None,
                    created_at: at,
                    updated_at: at,
                };
                store.catalog.create_queue_item(&ours, &item).await.unwrap();
            }
            let mut item = store.catalog.queue_item(&ours, "q", "one").await.unwrap().unwrap();
            item.completed_at = Some(Timestamp::from_millis(5));
            store.catalog.update_queue_item(&ours, &item).await.unwrap();
            let foreign = store.catalog.update_queue_item(&theirs, &item).await;
            assert!(matches!(foreign, Err(Error::NotFound)));
            for (wanted, ids) in
                [(Some(true), vec!["one"]), (Some(false), vec!["two"]), (None, vec!["two", "one"])]
            {
                let page =
                    store.catalog.queue_items(&ours, "q", wanted, Paging::default()).await.unwrap();
                let found: Vec<_> = page.items.iter().map(|item| item.id.as_str()).collect();
                assert_eq!(found, ids);
            }
            store.catalog.delete_queue_item(&ours, "q", "one").await.unwrap();
            assert!(store.catalog.delete_queue_item(&ours, "q", "one").await.is_err());
            for _ in 0..2 {
                store.catalog.assign_queue(&ours, "q", "ann", at).await.unwrap();
                store.catalog.unassign_queue(&ours, "q", "bob").await.unwrap();
            }
        })
        .await;
    }
}
