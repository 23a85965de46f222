//! Dashboards with their placements.

use perpend_domain::ids::ProjectId;
use perpend_domain::time::Timestamp;
use serde_json::{Value, json};

use super::{Dashboard, PlacedChart, Placement, Tile};
use crate::{Catalog, Error, audit};
use perpend_db::{Arg, PageQuery, Tx, from_json, in_transaction, query, to_json, value_list};
use perpend_domain::list::{NumberedPage, Paging};

/// A change of a dashboard; absent fields are unchanged.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DashboardPatch {
    /// New name.
    pub name: Option<String>,
    /// New description.
    pub description: Option<String>,
    /// New conditions.
    pub filters: Option<Vec<Value>>,
    /// New placements, which replace all existing ones.
    pub placements: Option<Vec<Placement>>,
}

/// A placement to be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewPlacement {
    /// Its id.
    pub id: String,
    /// Content of the placement.
    pub content: PlacedChart,
    /// First column.
    pub x: i64,
    /// First row; below all existing placements if absent.
    pub y: Option<i64>,
    /// Columns.
    pub width: i64,
    /// Rows.
    pub height: i64,
}

const COLUMNS: &str = "id, name, description, filters, created_at, updated_at";
const INSERT: &str = "
    INSERT INTO dashboards (project_id, id, name, description, filters, created_at, updated_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7)";
const UPDATE: &str = "
    UPDATE dashboards SET name = COALESCE($3, name), description = COALESCE($4, description),
           filters = COALESCE($5, filters), updated_at = $6
     WHERE project_id = $1 AND id = $2";
const TOUCH: &str = "UPDATE dashboards SET updated_at = $3 WHERE project_id = $1 AND id = $2";
const DELETE: &str = "DELETE FROM dashboards WHERE project_id = $1 AND id = $2";
const CLEAR: &str = "DELETE FROM dashboard_placements WHERE project_id = $1 AND dashboard_id = $2";
const END: &str = "
    SELECT COALESCE(MAX(y + height), 0), COALESCE(MAX(place) + 1, 0), COUNT(*)
      FROM dashboard_placements WHERE project_id = $1 AND dashboard_id = $2";
const PUT: &str = "
    INSERT INTO dashboard_placements
        (project_id, dashboard_id, id, place, widget_id, preset_id, x, y, width, height)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
    ON CONFLICT (project_id, dashboard_id, id) DO NOTHING";
const MOVE: &str = "
    UPDATE dashboard_placements SET x = $4, y = $5, width = $6, height = $7
     WHERE project_id = $1 AND dashboard_id = $2 AND id = $3";
const REMOVE: &str = "
    DELETE FROM dashboard_placements WHERE project_id = $1 AND dashboard_id = $2 AND id = $3";

perpend_db::record! {
    struct DashboardRow {
        id: String,
        name: String,
        description: String,
        filters: String,
        created_at: i64,
        updated_at: i64,
    }
}

impl TryFrom<DashboardRow> for Dashboard {
    type Error = Error;

    fn try_from(row: DashboardRow) -> Result<Self, Error> {
        Ok(Self {
            id: row.id,
            name: row.name,
            description: row.description,
            filters: from_json("dashboard", &row.filters)?,
            placements: Vec::new(),
            created_at: Timestamp::from_micros(row.created_at),
            updated_at: Timestamp::from_micros(row.updated_at),
        })
    }
}

perpend_db::record! {
    struct PlacementRow {
        dashboard_id: String,
        id: String,
        widget_id: Option<String>,
        preset_id: Option<String>,
        x: i64,
        y: i64,
        width: i64,
        height: i64,
    }
}

impl From<PlacementRow> for Placement {
    fn from(row: PlacementRow) -> Self {
        Self {
            id: row.id,
            content: match row.widget_id {
                Some(id) => PlacedChart::Widget(id),
                None => PlacedChart::Preset(row.preset_id.unwrap_or_default()),
            },
            tile: Tile { x: row.x, y: row.y, width: row.width, height: row.height },
        }
    }
}

/// The values of [`PUT`].
fn row<'a>(
    project: &'a ProjectId,
    dashboard: &'a str,
    placement: &'a Placement,
    place: i64,
) -> [Arg<'a>; 10] {
    let (widget, preset) = match &placement.content {
        PlacedChart::Widget(id) => (Some(id.as_str()), None),
        PlacedChart::Preset(id) => (None, Some(id.as_str())),
    };
    let tile = placement.tile;
    [
        project.as_str().into(),
        dashboard.into(),
        placement.id.as_str().into(),
        place.into(),
        widget.into(),
        preset.into(),
        tile.x.into(),
        tile.y.into(),
        tile.width.into(),
        tile.height.into(),
    ]
}

/// Inserts placements into an empty grid.
async fn put_all(
    tx: &mut Tx,
    project: &ProjectId,
    dashboard: &str,
    placements: &[Placement],
) -> Result<(), Error> {
    for (place, placement) in (0_i64..).zip(placements) {
        if tx.execute(PUT, &row(project, dashboard, placement, place)).await? == 0 {
            return Err(Error::Conflict(SAME_ID));
        }
    }
    Ok(())
}

/// Kind of the object in the audit trail.
const AUDITED: &str = "dashboard";
const SAME_ID: &str = "the dashboard has a placement with this id";

/// A missing widget is reported like a missing dashboard.
fn missing(error: Error) -> Error {
    match error.is_reference() {
        true => Error::NotFound,
        false => error,
    }
}

impl Catalog {
    /// Stores a new dashboard with its placements.
    ///
    /// # Errors
    /// [`Error::NotFound`] if a placement has a widget that the project does not have.
    pub async fn create_dashboard(
        &self,
        project: &ProjectId,
        dashboard: &Dashboard,
    ) -> Result<(), Error> {
        let made = self.insert_dashboard(project, dashboard);
        made.await.map_err(missing)
    }

    async fn insert_dashboard(
        &self,
        project: &ProjectId,
        dashboard: &Dashboard,
    ) -> Result<(), Error> {
        let filters = to_json("dashboard", &dashboard.filters)?;
        let args: [Arg<'_>; 7] = [
            project.as_str().into(),
            dashboard.id.as_str().into(),
            dashboard.name.as_str().into(),
            dashboard.description.as_str().into(),
            filters.as_str().into(),
            dashboard.created_at.as_micros().into(),
            dashboard.updated_at.as_micros().into(),
        ];
        in_transaction!(&self.pool, |tx| {
            tx.execute(INSERT, &args).await?;
            audit::note(AUDITED, &dashboard.id, None, Some(json!({ "name": dashboard.name })));
            put_all(&mut tx, project, &dashboard.id, &dashboard.placements).await?;
        });
        Ok(())
    }

    /// Changes a dashboard.
    ///
    /// # Errors
    /// [`Error::NotFound`] without the dashboard, or if a placement has a widget that the project does not
    /// have.
    pub async fn update_dashboard(
        &self,
        project: &ProjectId,
        id: &str,
        patch: &DashboardPatch,
        now: Timestamp,
    ) -> Result<Dashboard, Error> {
        let changed = self.write_patch(project, id, patch, now);
        changed.await.map_err(missing)?;
        self.dashboard(project, id).await?.ok_or(Error::NotFound)
    }

    async fn write_patch(
        &self,
        project: &ProjectId,
        id: &str,
        patch: &DashboardPatch,
        now: Timestamp,
    ) -> Result<(), Error> {
        let filters = patch.filters.as_ref();
        let filters = filters.map(|all| to_json("dashboard", all)).transpose()?;
        let args: [Arg<'_>; 6] = [
            project.as_str().into(),
            id.into(),
            patch.name.as_deref().into(),
            patch.description.as_deref().into(),
            filters.as_deref().into(),
            now.as_micros().into(),
        ];
        in_transaction!(&self.pool, |tx| {
            if tx.execute(UPDATE, &args).await? == 0 {
                return Err(Error::NotFound);
            }
            let after = json!({
                "name": patch.name,
                "description": patch.description,
                "filters": patch.filters,
                "placements": patch.placements.as_ref().map(Vec::len),
            });
            audit::note(AUDITED, id, None, Some(after));
            if let Some(placements) = &patch.placements {
                tx.execute(CLEAR, &args[..2]).await?;
                put_all(&mut tx, project, id, placements).await?;
            }
        });
        Ok(())
    }

    /// Deletes a dashboard with its placements; the widgets stay.
    ///
    /// # Errors
    /// [`Error::NotFound`] without the dashboard.
    pub async fn delete_dashboard(&self, project: &ProjectId, id: &str) -> Result<(), Error> {
        let args = [project.as_str().into(), id.into()];
        match self.pool.change(DELETE, &args).await? {
            0 => Err(Error::NotFound),
            _ => Ok(()),
        }
    }

    /// One dashboard.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn dashboard(
        &self,
        project: &ProjectId,
        id: &str,
    ) -> Result<Option<Dashboard>, Error> {
        let sql = format!("SELECT {COLUMNS} FROM dashboards WHERE project_id = $1 AND id = $2");
        let args = [project.as_str().into(), id.into()];
        let rows: Vec<DashboardRow> = self.pool.select(&sql, &args).await?;
        let found = rows.into_iter().map(TryInto::try_into);
        let mut found = found.collect::<Result<Vec<Dashboard>, Error>>()?;
        self.fill(project, &mut found).await?;
        Ok(found.pop())
    }

    /// Dashboards, the most recently changed first.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn dashboards(
        &self,
        project: &ProjectId,
        paging: Paging,
    ) -> Result<NumberedPage<Dashboard>, Error> {
        let args: [Arg<'_>; 1] = [project.as_str().into()];
        let listed = PageQuery {
            select: COLUMNS,
            from: "FROM dashboards WHERE project_id = $1",
            args: &args,
            order: "updated_at DESC, id DESC",
        };
        let mut found = self.pool.numbered::<DashboardRow, Dashboard>(&listed, paging).await?;
        self.fill(project, &mut found.items).await?;
        Ok(found)
    }

    /// Reads the placements of these dashboards.
    async fn fill(&self, project: &ProjectId, dashboards: &mut [Dashboard]) -> Result<(), Error> {
        if dashboards.is_empty() {
            return Ok(());
        }
        let sql = format!(
            "SELECT dashboard_id, id, widget_id, preset_id, x, y, width, height
               FROM dashboard_placements WHERE project_id = $1 AND dashboard_id IN ({})
              ORDER BY dashboard_id, place, id",
            value_list(dashboards.len(), 2)
        );
        let mut args: Vec<Arg<'_>> = vec![project.as_str().into()];
        args.extend(dashboards.iter().map(|each| Arg::from(each.id.as_str())));
        let rows: Vec<PlacementRow> = self.pool.select(&sql, &args).await?;
        for row in rows {
            let mut of = dashboards.iter_mut();
            if let Some(dashboard) = of.find(|each| each.id == row.dashboard_id) {
                dashboard.placements.push(row.into());
            }
        }
        Ok(())
    }

    /// Adds a placement to a dashboard with fewer than `max` of them.
    ///
    /// # Errors
    /// [`Error::NotFound`] without the dashboard or the widget, [`Error::Conflict`] if a placement has this
    /// id or there are too many.
    pub async fn add_placement(
        &self,
        project: &ProjectId,
        dashboard: &str,
        new: &NewPlacement,
        max: i64,
        now: Timestamp,
    ) -> Result<Placement, Error> {
        let added = self.insert_placement(project, dashboard, new, max, now);
        added.await.map_err(missing)
    }

    async fn insert_placement(
        &self,
        project: &ProjectId,
        dashboard: &str,
        new: &NewPlacement,
        max: i64,
        now: Timestamp,
    ) -> Result<Placement, Error> {
        let args: [Arg<'_>; 3] =
            [project.as_str().into(), dashboard.into(), now.as_micros().into()];
        audit::note(AUDITED, dashboard, None, Some(json!({ "placement": new.id })));
        Ok(in_transaction!(&self.pool, |tx| {
            if tx.execute(TOUCH, &args).await? == 0 {
                return Err(Error::NotFound);
            }
            let (end, place, n_tiles): (i64, i64, i64) =
                query(END).bind_all(&args[..2]).fetch_one(&mut tx).await?;
            if n_tiles >= max {
                return Err(Error::Conflict("the dashboard has the maximum number of placements"));
            }
            let placement = Placement {
                id: new.id.clone(),
                content: new.content.clone(),
                tile: Tile {
                    x: new.x,
                    y: new.y.unwrap_or(end),
                    width: new.width,
                    height: new.height,
                },
            };
            if tx.execute(PUT, &row(project, dashboard, &placement, place)).await? == 0 {
                return Err(Error::Conflict(SAME_ID));
            }
            placement
        }))
    }

    /// Moves a placement.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the dashboard has no such placement.
    pub async fn move_placement(
        &self,
        project: &ProjectId,
        dashboard: &str,
        id: &str,
        tile: Tile,
        now: Timestamp,
    ) -> Result<(), Error> {
        let args: [Arg<'_>; 7] = [
            project.as_str().into(),
            dashboard.into(),
            id.into(),
            tile.x.into(),
            tile.y.into(),
            tile.width.into(),
            tile.height.into(),
        ];
        audit::note(AUDITED, dashboard, None, Some(json!({ "movedPlacement": id })));
        self.change_grid(MOVE, &args, now).await
    }

    /// Deletes a placement; its widget stays.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the dashboard has no such placement.
    pub async fn delete_placement(
        &self,
        project: &ProjectId,
        dashboard: &str,
        id: &str,
        now: Timestamp,
    ) -> Result<(), Error> {
        let args: [Arg<'_>; 3] = [project.as_str().into(), dashboard.into(), id.into()];
        audit::note(AUDITED, dashboard, Some(json!({ "placement": id })), None);
        self.change_grid(REMOVE, &args, now).await
    }

    /// Changes one placement, whose first two values identify the dashboard, and the time of the last change
    /// of the dashboard.
    async fn change_grid(
        &self,
        sql: &'static str,
        args: &[Arg<'_>],
        now: Timestamp,
    ) -> Result<(), Error> {
        let mut touch: Vec<Arg<'_>> = args.iter().take(2).cloned().collect();
        touch.push(now.as_micros().into());
        in_transaction!(&self.pool, |tx| {
            if tx.execute(TOUCH, &touch).await? == 0 || tx.execute(sql, args).await? == 0 {
                return Err(Error::NotFound);
            }
        });
        Ok(())
    }
}
