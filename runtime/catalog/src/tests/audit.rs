//! The audit trail: records, their chain, and its verification.

use std::sync::Arc;

use futures_util::future::join_all;
use perpend_db::{in_transaction, query};
use perpend_domain::list::ListPosition;

use super::*;
use crate::audit::{
    AuditActor, AuditCheckpoint, AuditClient, AuditFault, AuditObject, AuditOrigin, AuditQuery,
    AuditRecord, AuditResult,
};
use crate::{BrowserSession, SessionOrigin};

/// A store with the organization `org-1` and its project `project-1`.
async fn start(store: &Store) -> ProjectId {
    store.catalog.create_first_project(&init(1, "pk-1"), at(0)).await.unwrap();
    project("project-1")
}

fn origin(home: &ProjectId, operation: &str) -> AuditOrigin {
    AuditOrigin {
        owner: KeyOwner::Project(home.clone()),
        project: None,
        actor: AuditActor { kind: "key".to_owned(), name: Some("pk-1".to_owned()) },
        address: Some("192.0.2.7".to_owned()),
        request_id: Some("r1".to_owned()),
        operation: operation.to_owned(),
        object: AuditObject { kind: "evaluation-rule".to_owned(), id: None },
    }
}

#[tokio::test]
async fn a_sign_in_is_recorded_with_the_actor_that_it_identifies() {
    on_each_database(|store| async move {
        let home = start(&store).await;
        let client = AuditClient {
            address: Some("192.0.2.7".to_owned()),
            request_id: Some("r1".to_owned()),
            operation: "POST /login".to_owned(),
        };
        let session = BrowserSession {
            digest: [1; 32],
            project: home.clone(),
            origin: SessionOrigin::KeyPair("pk-1".to_owned()),
            created_at: at(1),
            expires_at: at(9),
        };
        let clock = || Arc::new(at(5));
        let session_start = store.catalog.begin_browser_session(&session, &[]);
        store.catalog.audited_anonymous(client.clone(), clock(), session_start).await.unwrap();
        // The end of a session identifies no actor.
        let digests = [session.digest];
        let ended = store.catalog.end_browser_sessions(&digests);
        store.catalog.audited_anonymous(client, clock(), ended).await.unwrap();
        let all = records(&store, &home, &AuditQuery::default()).await;
        assert_eq!(all.len(), 1);
        assert_eq!(
            (all[0].actor.kind.as_str(), all[0].object.kind.as_str()),
            ("session", "session")
        );
        assert_eq!(all[0].actor.name.as_deref(), Some("pk-1"));
        assert_eq!(all[0].address.as_deref(), Some("192.0.2.7"));
    })
    .await;
}

/// Runs a future as an operation.
async fn audited<F: Future>(store: &Store, home: &ProjectId, operation: F) -> F::Output {
    store.catalog.audited(origin(home, "test"), Arc::new(at(5)), operation).await
}

async fn records(store: &Store, home: &ProjectId, filter: &AuditQuery) -> Vec<AuditRecord> {
    let owner = KeyOwner::Project(home.clone());
    let newest = ListPosition::default();
    let page = store.catalog.audit_records(&owner, filter, &newest, 50).await;
    page.unwrap().items
}

#[tokio::test]
async fn an_operation_leaves_one_record_with_the_changed_members() {
    on_each_database(|store| async move {
        let home = start(&store).await;
        evaluator(&store, &home, "e1", at(1)).await;
        let made = rule("a", &["e1"], at(3));
        audited(&store, &home, store.catalog.create_rule(&home, &made, &at(3))).await.unwrap();
        let off = RulePatch { enabled: Some(false), ..RulePatch::default() };
        audited(&store, &home, async {
            store.catalog.patch_rule(&home, &made.id, &off, &at(4)).await.unwrap();
            // A further transaction of the same operation.
            store.catalog.rename_evaluator(&home, &evaluator_id("e1"), Some("n"), None, at(4)).await
        })
        .await
        .unwrap();
        // Outside of an operation: the engine.
        store
            .catalog
            .rename_evaluator(&home, &evaluator_id("e1"), Some("m"), None, at(4))
            .await
            .unwrap();
        let all = records(&store, &home, &AuditQuery::default()).await;
        assert_eq!(all.iter().map(|one| one.seq).collect::<Vec<_>>(), [2, 1]);
        let (patched, created) = (&all[0], &all[1]);
        assert_eq!(patched.before, Some(json!({ "enabled": true })));
        assert_eq!(patched.after, Some(json!({ "enabled": false })));
        assert_eq!(patched.object.id.as_deref(), Some(made.id.as_str()));
        assert_eq!((created.before.as_ref(), created.at), (None, at(5)));
        assert_eq!(created.after.as_ref().unwrap()["name"], made.name.as_str());
        assert_eq!(created.address.as_deref(), Some("192.0.2.7"));
        assert_eq!(created.actor.name.as_deref(), Some("pk-1"));
    })
    .await;
}

#[tokio::test]
async fn a_change_that_is_rolled_back_or_changes_nothing_leaves_no_record() {
    on_each_database(|store| async move {
        let home = start(&store).await;
        let missing = RuleId::new("missing").unwrap();
        let deleted = audited(&store, &home, store.catalog.delete_rule(&home, &missing)).await;
        assert!(matches!(deleted, Err(Error::NotFound)));
        let key = audited(&store, &home, store.catalog.delete_api_key(&home, "missing")).await;
        assert!(matches!(key, Err(Error::NotFound)));
        audited(&store, &home, store.catalog.rule(&home, &missing)).await.unwrap();
        assert!(records(&store, &home, &AuditQuery::default()).await.is_empty());
    })
    .await;
}

#[tokio::test]
async fn a_change_whose_record_cannot_be_written_is_rolled_back() {
    on_each_database(|store| async move {
        let home = start(&store).await;
        let nowhere = project("nowhere");
        let renamed = "UPDATE projects SET name = $1 WHERE id = $2";
        let args = ["new".into(), home.as_str().into()];
        let outcome = audited(&store, &nowhere, store.pool.change(renamed, &args)).await;
        assert!(matches!(outcome, Err(Error::NotFound)), "{outcome:?}");
        assert_eq!(store.catalog.project(&home).await.unwrap().unwrap().name, "Support bot");
    })
    .await;
}

#[tokio::test]
async fn a_denied_operation_of_a_page_leaves_one_record_with_the_client_of_the_page() {
    on_each_database(|store| async move {
        let home = start(&store).await;
        let refused = AuditOrigin { address: None, ..origin(&home, "putProjectMember") };
        let refusal = store.catalog.record(&refused, AuditResult::Denied, at(5));
        audited(&store, &home, refusal).await.unwrap();
        let all = records(&store, &home, &AuditQuery::default()).await;
        assert_eq!(all.len(), 1);
        assert_eq!(
            (all[0].operation.as_str(), all[0].result),
            ("putProjectMember", AuditResult::Denied)
        );
        assert_eq!(all[0].address.as_deref(), Some("192.0.2.7"));
    })
    .await;
}

#[tokio::test]
async fn records_are_found_by_actor_operation_object_result_and_time() {
    on_each_database(|store| async move {
        let home = start(&store).await;
        for (n, operation) in [(1, "createRule"), (2, "deleteRule")] {
            let origin = origin(&home, operation);
            store.catalog.record(&origin, AuditResult::Done, at(n)).await.unwrap();
        }
        let denied = origin(&home, "deleteRule");
        store.catalog.record(&denied, AuditResult::Denied, at(3)).await.unwrap();
        let found = |filter: AuditQuery| {
            let (store, home) = (&store, &home);
            async move {
                let found = records(store, home, &filter).await;
                found.into_iter().map(|one| one.seq).collect::<Vec<_>>()
            }
        };
        let text = |text: &str| Some(text.to_owned());
        let all = AuditQuery::default;
        assert_eq!(found(AuditQuery { operation: text("delete"), ..all() }).await, [3, 2]);
        assert_eq!(
            found(AuditQuery { operation: text("deleted"), ..all() }).await,
            Vec::<i64>::new()
        );
        assert_eq!(found(AuditQuery { result: Some(AuditResult::Denied), ..all() }).await, [3]);
        assert_eq!(found(AuditQuery { from: Some(at(2)), to: Some(at(3)), ..all() }).await, [2]);
        assert_eq!(found(AuditQuery { actor: text("pk-2"), ..all() }).await, Vec::<i64>::new());
        assert_eq!(
            found(AuditQuery { object_kind: text("evaluation-rule"), ..all() }).await,
            [3, 2, 1]
        );
        let owner = KeyOwner::Project(home.clone());
        let (whole, newest) = (all(), ListPosition::default());
        let first = store.catalog.audit_records(&owner, &whole, &newest, 2).await.unwrap();
        let next = ListPosition::after(first.older.unwrap());
        let rest = store.catalog.audit_records(&owner, &whole, &next, 2).await.unwrap();
        assert_eq!((rest.items.len(), rest.items[0].seq, rest.older), (1, 1, None));
    })
    .await;
}

async fn faults(store: &Store, checkpoints: &[AuditCheckpoint]) -> Vec<Option<AuditFault>> {
    let reports = store.catalog.verify_audit(checkpoints).await.unwrap();
    reports.into_iter().map(|report| report.fault).collect()
}

#[tokio::test]
async fn a_changed_missing_added_or_swapped_record_is_named_and_a_checkpoint_shows_a_cut_tail() {
    /// A statement on the records, and the fault that it causes.
    const CASES: [(&[&str], AuditFault); 6] = [
        (&["UPDATE audit_records SET actor = 'pk-2' WHERE seq = 2"], AuditFault::Changed(2)),
        (&["UPDATE audit_records SET state_after = '{}' WHERE seq = 3"], AuditFault::Changed(3)),
        (&["DELETE FROM audit_records WHERE seq = 1"], AuditFault::Missing(1)),
        (&["DELETE FROM audit_records WHERE seq = 4"], AuditFault::Missing(4)),
        (
            &[
                "UPDATE audit_records SET seq = 9 WHERE seq = 2",
                "UPDATE audit_records SET seq = 2 WHERE seq = 3",
                "UPDATE audit_records SET seq = 3 WHERE seq = 9",
            ],
            AuditFault::Changed(2),
        ),
        (&["UPDATE audit_records SET seq = 5 WHERE seq = 4"], AuditFault::Added(5)),
    ];
    on_each_database(|store| async move {
        let home = start(&store).await;
        for n in 1..=4 {
            let origin = origin(&home, "createRule");
            store.catalog.record(&origin, AuditResult::Done, at(n)).await.unwrap();
        }
        let whole = store.catalog.verify_audit(&[]).await.unwrap().remove(0);
        assert_eq!((whole.n_records, whole.first, whole.fault), (4, 1, None));
        let head = [whole.head.unwrap()];
        for (statements, fault) in CASES {
            run(&store, statements).await.unwrap();
            assert_eq!(faults(&store, &[]).await, [Some(fault)], "{statements:?}");
            restore(&store, &home).await;
        }
        // A writer of the database can cut the records together with the head of the chain.
        let cut = [
            "DELETE FROM audit_records WHERE seq = 4",
            "UPDATE audit_chains SET seq = 3, hash = (SELECT hash FROM audit_records WHERE seq = 3)",
        ];
        run(&store, &cut).await.unwrap();
        assert_eq!(faults(&store, &[]).await, [None]);
        assert_eq!(faults(&store, &head).await, [Some(AuditFault::Missing(4))]);
        run(&store, &EMPTY).await.unwrap();
        assert_eq!(faults(&store, &head).await, [Some(AuditFault::Missing(4))]);
    })
    .await;
}

const EMPTY: [&str; 2] = ["DELETE FROM audit_records", "DELETE FROM audit_chains"];

async fn run(store: &Store, statements: &[&'static str]) -> Result<(), Error> {
    in_transaction!(&store.pool, |tx| {
        for sql in statements {
            query(*sql).execute(&mut tx).await?;
        }
    });
    Ok(())
}

/// Replaces all records by four new ones.
async fn restore(store: &Store, home: &ProjectId) {
    run(store, &EMPTY).await.unwrap();
    for n in 1..=4 {
        let origin = origin(home, "createRule");
        store.catalog.record(&origin, AuditResult::Done, at(n)).await.unwrap();
    }
}

#[tokio::test]
async fn the_chain_is_unbroken_after_old_records_are_deleted() {
    on_each_database(|store| async move {
        let home = start(&store).await;
        restore(&store, &home).await;
        let checkpoint = store.catalog.verify_audit(&[]).await.unwrap().remove(0).head.unwrap();
        assert_eq!(store.catalog.expire_audit(at(1)).await.unwrap(), 0);
        assert_eq!(store.catalog.expire_audit(at(3)).await.unwrap(), 2);
        let report =
            store.catalog.verify_audit(std::slice::from_ref(&checkpoint)).await.unwrap().remove(0);
        assert_eq!((report.first, report.n_records, report.fault), (3, 2, None));
        assert_eq!(store.catalog.expire_audit(at(9)).await.unwrap(), 2);
        store.catalog.record(&origin(&home, "createRule"), AuditResult::Done, at(9)).await.unwrap();
        let report = store.catalog.verify_audit(&[checkpoint]).await.unwrap().remove(0);
        assert_eq!((report.first, report.n_records, report.fault), (5, 1, None));
        let backdated = ["UPDATE audit_records SET seq = 1 WHERE seq = 5"];
        run(&store, &backdated).await.unwrap();
        assert_eq!(faults(&store, &[]).await, [Some(AuditFault::Added(1))]);
    })
    .await;
}

#[tokio::test]
async fn writers_at_the_same_time_keep_one_order() {
    on_each_database(|store| async move {
        let home = start(&store).await;
        let origin = origin(&home, "createRule");
        let one = |n| store.catalog.record(&origin, AuditResult::Done, at(n));
        for each in join_all((0..8).map(one)).await {
            each.unwrap();
        }
        let report = store.catalog.verify_audit(&[]).await.unwrap().remove(0);
        assert_eq!((report.n_records, report.fault), (8, None));
    })
    .await;
}

#[tokio::test]
async fn an_organization_sees_its_projects_and_a_project_only_itself() {
    on_each_database(|store| async move {
        let home = start(&store).await;
        let organization = OrganizationId::new("org-1").unwrap();
        let of_organization = AuditOrigin {
            owner: KeyOwner::Organization(organization.clone()),
            project: Some(home.clone()),
            ..origin(&home, "createProjectKey")
        };
        let elsewhere =
            AuditOrigin { project: Some(project("elsewhere")), ..of_organization.clone() };
        for origin in [&of_organization, &elsewhere, &origin(&home, "createRule")] {
            store.catalog.record(origin, AuditResult::Done, at(1)).await.unwrap();
        }
        let of_project = records(&store, &home, &AuditQuery::default()).await;
        assert_eq!(of_project.iter().map(|one| one.seq).collect::<Vec<_>>(), [3, 1]);
        let owner = KeyOwner::Organization(organization);
        let position = ListPosition::default();
        let all = store.catalog.audit_records(&owner, &AuditQuery::default(), &position, 50).await;
        assert_eq!(all.unwrap().items.len(), 3);
        assert!(records(&store, &project("elsewhere"), &AuditQuery::default()).await.is_empty());
    })
    .await;
}
