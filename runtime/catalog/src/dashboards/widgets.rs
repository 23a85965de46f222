//! Widgets as rows.

use perpend_domain::ids::ProjectId;
use perpend_domain::time::Timestamp;
use serde_json::{Value, json};

use super::Widget;
use crate::{Catalog, Error, audit};
use perpend_db::{Arg, PageQuery, from_json, to_json};
use perpend_domain::list::{NumberedPage, Paging};

const COLUMNS: &str = "id, name, description, chart, created_at, updated_at";
const INSERT: &str = "
    INSERT INTO dashboard_widgets (project_id, id, name, description, chart, created_at, updated_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7)";
/// The time of the last change detects a concurrent change between reading and writing.
const UPDATE: &str = "
    UPDATE dashboard_widgets SET name = $3, description = $4, chart = $5, updated_at = $6
     WHERE project_id = $1 AND id = $2 AND updated_at = $7";
const DELETE: &str = "DELETE FROM dashboard_widgets WHERE project_id = $1 AND id = $2";

perpend_db::record! {
    struct WidgetRow {
        id: String,
        name: String,
        description: String,
        chart: String,
        created_at: i64,
        updated_at: i64,
    }
}

impl TryFrom<WidgetRow> for Widget {
    type Error = Error;

    fn try_from(row: WidgetRow) -> Result<Self, Error> {
        Ok(Self {
            id: row.id,
            name: row.name,
            description: row.description,
            chart: from_json("dashboard widget", &row.chart)?,
            created_at: Timestamp::from_micros(row.created_at),
            updated_at: Timestamp::from_micros(row.updated_at),
        })
    }
}

/// Kind of the object in the audit trail.
const AUDITED: &str = "dashboard-widget";

/// The recorded members of a widget.
fn state(widget: &Widget) -> Value {
    json!({ "name": widget.name, "description": widget.description, "chart": widget.chart })
}

impl Catalog {
    /// Stores a new widget.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn create_widget(&self, project: &ProjectId, widget: &Widget) -> Result<(), Error> {
        let chart = to_json("dashboard widget", &widget.chart)?;
        let args: [Arg<'_>; 7] = [
            project.as_str().into(),
            widget.id.as_str().into(),
            widget.name.as_str().into(),
            widget.description.as_str().into(),
            chart.as_str().into(),
            widget.created_at.as_micros().into(),
            widget.updated_at.as_micros().into(),
        ];
        audit::note(AUDITED, &widget.id, None, Some(state(widget)));
        self.pool.change(INSERT, &args).await.map(drop)
    }

    /// Replaces a widget if its last change was at `seen`.
    ///
    /// # Errors
    /// [`Error::Conflict`] if it was deleted or changed since.
    pub async fn update_widget(
        &self,
        project: &ProjectId,
        widget: &Widget,
        seen: Timestamp,
    ) -> Result<(), Error> {
        let chart = to_json("dashboard widget", &widget.chart)?;
        let args: [Arg<'_>; 7] = [
            project.as_str().into(),
            widget.id.as_str().into(),
            widget.name.as_str().into(),
            widget.description.as_str().into(),
            chart.as_str().into(),
            widget.updated_at.as_micros().into(),
            seen.as_micros().into(),
        ];
        let before = self.widget(project, &widget.id).await?;
        audit::note(AUDITED, &widget.id, before.as_ref().map(state), Some(state(widget)));
        match self.pool.change(UPDATE, &args).await? {
            0 => Err(Error::Conflict("the widget was changed meanwhile")),
            _ => Ok(()),
        }
    }

    /// Deletes a widget that is not placed on a dashboard.
    ///
    /// # Errors
    /// [`Error::NotFound`], and [`Error::Conflict`] while it is placed.
    pub async fn delete_widget(&self, project: &ProjectId, id: &str) -> Result<(), Error> {
        let args = [project.as_str().into(), id.into()];
        match self.pool.change(DELETE, &args).await {
            Ok(0) => Err(Error::NotFound),
            Ok(_) => Ok(()),
            Err(error) if error.is_reference() => {
                Err(Error::Conflict("the widget is placed on a dashboard"))
            }
            Err(error) => Err(error),
        }
    }

    /// One widget.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn widget(&self, project: &ProjectId, id: &str) -> Result<Option<Widget>, Error> {
        let sql =
            format!("SELECT {COLUMNS} FROM dashboard_widgets WHERE project_id = $1 AND id = $2");
        let args = [project.as_str().into(), id.into()];
        let mut rows: Vec<WidgetRow> = self.pool.select(&sql, &args).await?;
        rows.pop().map(TryInto::try_into).transpose()
    }

    /// Widgets, the most recently changed first.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn widgets(
        &self,
        project: &ProjectId,
        paging: Paging,
    ) -> Result<NumberedPage<Widget>, Error> {
        let args: [Arg<'_>; 1] = [project.as_str().into()];
        let listed = PageQuery {
            select: COLUMNS,
            from: "FROM dashboard_widgets WHERE project_id = $1",
            args: &args,
            order: "updated_at DESC, id DESC",
        };
        self.pool.numbered::<WidgetRow, _>(&listed, paging).await
    }
}
