//! The list as a file, with the chosen columns. The parameters are those of the list.

use axum::extract::{RawQuery, State};
use axum::response::Response;
use perpend_domain::list::ListPosition;
use perpend_http_kit::problem::Problem;
use perpend_views::ChosenColumn;

use crate::export::{
    ExportColumn, ExportFormat, ExportedList, ExportedPage, reject_faults, respond,
};
use crate::list::source::{ListParams, ListQuery, ListRequest, ListScope, ListSource};
use crate::request::viewer::Viewer;
use crate::state::App;

/// `GET P/export/{list}`
pub(crate) async fn export_list<L: ListSource>(
    State(app): State<App>,
    viewer: Viewer,
    RawQuery(raw): RawQuery,
) -> Result<Response, Problem> {
    let format = ExportFormat::from_query(raw.as_deref())?;
    let scope = ListScope { app: app.clone(), viewer };
    let mut request = ListRequest::<L>::new(scope, raw.as_deref())?;
    let ListParams { source, columns, notices, parsed, .. } = &mut request.params;
    reject_faults(notices, parsed)?;
    source.prepare_file(columns);
    let columns = exported_columns(columns);
    let list = ListExport { request, position: ListPosition::default() };
    respond(&app, (L::LIST.texts.name, format), list, columns).await
}

struct ListExport<L: ListSource> {
    request: ListRequest<L>,
    position: ListPosition,
}

impl<L: ListSource> ExportedList for ListExport<L> {
    type Row = L::Row;

    async fn next_page(&mut self) -> Result<ExportedPage<L::Row>, Problem> {
        let ListRequest { scope, conditions, params } = &self.request;
        let source = &params.source;
        let query = ListQuery {
            conditions,
            position: &self.position,
            page: 1,
            limit: source.rows_per_read(),
            max_tested: L::MAX_TESTED,
        };
        let page = source.read(scope, query).await?;
        let rows = source.rows(scope, page.items).await?;
        let next = page.stopped.or(page.older);
        let is_last = next.is_none();
        self.position = next.map(ListPosition::after).unwrap_or_default();
        Ok(ExportedPage { rows, is_last })
    }
}

/// The columns of a file. A column of the list with several values is several columns here; the id comes first.
fn exported_columns<R: 'static>(chosen: &[ChosenColumn<R>]) -> Vec<ExportColumn<R>> {
    let mut columns: Vec<ExportColumn<R>> = Vec::new();
    let mut add = |column: ExportColumn<R>| {
        if columns.iter().all(|other| other.id() != column.id()) {
            let at = if column.id() == "id" { 0 } else { columns.len() };
            columns.insert(at, column);
        }
    };
    for column in chosen {
        let (id, heading) = column.names_in_files();
        let own = column.clone();
        add(ExportColumn::new(id, heading, move |row: &R| own.value(row)));
        for &(id, heading, value) in column.further() {
            add(ExportColumn::new(id, heading, value));
        }
    }
    columns
}
