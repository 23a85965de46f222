//! `GET P/settings/audit`: the audit trail of a project, newest first.

use perpend_catalog::KeyOwner;
use perpend_catalog::audit::{AuditQuery, AuditRecord, AuditResult};
use perpend_domain::filter::Filter;
use perpend_domain::time::Timestamp;
use perpend_http_kit::problem::Problem;
use perpend_views::{
    AUDIT_ROWS, ApiRequest, AuditRow, ListDeclaration, ListView, SelectFilter, Text,
};

use crate::authors::author_names;
use crate::list::source::{
    ListQuery, ListRequest, ListScope, ListSource, OwnParameter, OwnParameters, PageResult,
    ShownPage,
};
use crate::request::viewer::Viewer;

/// Kinds of objects that the page offers.
const KINDS: [&str; 19] = [
    "evaluation-rule",
    "evaluator",
    "plugin",
    "llm-connection",
    "default-model",
    "model",
    "budget",
    "prompt",
    "skill",
    "score-config",
    "dataset",
    "experiment",
    "backfill",
    "backtest",
    "dashboard",
    "api-key",
    "member",
    "invitation",
    "account",
];

/// The audit trail of a project.
#[derive(Default)]
pub(crate) struct Audit {
    own: OwnParameters,
}

fn any(_: &str) -> bool {
    true
}

impl Audit {
    fn filter(&self, query: &ListQuery<'_>) -> AuditQuery {
        let text = |name| Some(self.own.text(name).to_owned()).filter(|text| !text.is_empty());
        let (from, to) = query.conditions.range;
        AuditQuery {
            actor: text("actor"),
            operation: text("operation"),
            object_kind: text("kind"),
            object_id: text("object"),
            result: AuditResult::from_name(self.own.text("result")),
            from,
            to,
        }
    }
}

impl ListSource for Audit {
    type Item = AuditRecord;
    type Row = AuditRow;

    const LIST: &'static ListDeclaration<AuditRow> = &AUDIT_ROWS;
    const PARAMETERS: &'static [OwnParameter] = &[
        OwnParameter::new("kind", "the kind of an object", any),
        OwnParameter::new("result", "`done` or `denied`", |raw| {
            AuditResult::from_name(raw).is_some()
        }),
        OwnParameter::new("actor", "the name of an actor", any),
        OwnParameter::new("object", "the id of an object", any),
        OwnParameter::new("operation", "the start of the id of an operation", any),
    ];

    fn apply(&mut self, own: &OwnParameters, _: &Filter, _: &mut Vec<Text>) {
        self.own = own.clone();
    }

    async fn read(&self, scope: &ListScope, query: ListQuery<'_>) -> PageResult<AuditRecord> {
        let owner = KeyOwner::Project(scope.viewer.project.clone());
        let filter = self.filter(&query);
        let catalog = &scope.app.store.catalog;
        Ok(catalog.audit_records(&owner, &filter, query.position, query.limit).await?)
    }

    async fn rows(
        &self,
        ListScope { app, viewer }: &ListScope,
        items: Vec<AuditRecord>,
    ) -> Result<Vec<AuditRow>, Problem> {
        let actors = items.iter().filter_map(|record| record.actor.name.as_deref());
        let names = author_names(app, viewer, actors.collect()).await?;
        let row = |record: AuditRecord| AuditRow {
            at: record.at,
            seq: record.seq,
            actor_kind: record.actor.kind,
            actor_name: record.actor.name.as_ref().and_then(|id| names.get(id).cloned()),
            actor: record.actor.name,
            operation: record.operation,
            object_kind: record.object.kind,
            object_id: record.object.id,
            result: record.result.name(),
            address: record.address,
            request_id: record.request_id,
            before: record.before,
            after: record.after,
            hash: record.hash.to_string(),
        };
        Ok(items.into_iter().map(row).collect())
    }

    fn time_of(item: &AuditRecord) -> Timestamp {
        item.at
    }

    fn api(&self, viewer: &Viewer, page: ShownPage<'_, AuditRecord>) -> Vec<ApiRequest> {
        let names = [
            ("kind", "objectKind"),
            ("object", "objectId"),
            ("actor", "actor"),
            ("operation", "operation"),
            ("result", "result"),
        ];
        let request = ApiRequest::new(&viewer.origin, "/api/v1/audit");
        let request = request.with("limit", page.n.min(100).to_string());
        let request =
            names.into_iter().fold(request, |request, (own, name)| match self.own.text(own) {
                "" => request,
                value => request.with(name, value.to_owned()),
            });
        vec![request]
    }

    fn narrowed(&self) -> Vec<(&'static str, Text, &'static str)> {
        let conditions = [
            ("Actor", "actor"),
            ("Id of object", "object"),
            ("Operation starts with", "operation"),
        ];
        let set = conditions.into_iter().filter(|(_, name)| !self.own.text(name).is_empty());
        set.map(|(label, name)| (label, Text::from(self.own.text(name)), name)).collect()
    }

    async fn complete(&self, _: &ListRequest<Self>, view: ListView) -> Result<ListView, Problem> {
        let word = |word: &'static str| (word.to_owned(), Text::from(word));
        let results = [AuditResult::Done, AuditResult::Denied].map(|result| word(result.name()));
        let selects = vec![
            SelectFilter::new(("kind", "Object"), KINDS.map(word), self.own.text("kind")),
            SelectFilter::new(("result", "Result"), results, self.own.text("result")),
        ];
        Ok(ListView { selects, ..view })
    }
}
