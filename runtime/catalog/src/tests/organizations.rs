//! Objects of organizations: projects, keys, members, and the remains of deletions.

use perpend_domain::ids::UserId;

use super::*;
use crate::testing::Store;
use crate::{NewProject, NewUser, ProjectPatch};
use perpend_domain::access::Role;

fn org(id: &str) -> OrganizationId {
    OrganizationId::new(id).unwrap()
}

fn new_project(id: &str, name: &str) -> NewProject {
    NewProject {
        id: project(id),
        name: name.to_owned(),
        metadata: serde_json::Map::new(),
        retention_days: 0,
    }
}

fn person(id: &str, user_name: &str) -> NewUser {
    NewUser {
        id: UserId::new(id).unwrap(),
        user_name: user_name.to_owned(),
        email: "Mail@example.com".to_owned(),
        name: "Ada".to_owned(),
        role: Role::Member,
        is_active: true,
    }
}

/// A store with two organizations, `org-1` and `org-2`, with one project each.
async fn start(store: &Store) {
    for n in [1, 2] {
        let init =
            Init { organization_name: format!("Organization {n}"), ..init(n, &format!("pk-{n}")) };
        store.catalog.create_first_project(&init, at(0)).await.unwrap();
    }
}

fn conflict<T: std::fmt::Debug>(outcome: Result<T, Error>) {
    assert!(matches!(outcome, Err(Error::Conflict(_))), "{outcome:?}");
}

fn not_found<T: std::fmt::Debug>(outcome: Result<T, Error>) {
    assert!(matches!(outcome, Err(Error::NotFound)), "{outcome:?}");
}

#[tokio::test]
async fn projects_are_made_and_changed_within_their_organization() {
    on_each_database(|store| async move {
        start(&store).await;
        assert!(!store.catalog.has_one_project().await.unwrap());
        let (ours, theirs) = (org("org-1"), org("org-2"));
        let made = new_project("p", "Search");
        store.catalog.create_project(&ours, &made, at(1)).await.unwrap();
        conflict(store.catalog.create_project(&ours, &new_project("q", "Search"), at(1)).await);
        let same = new_project("theirs", "Search");
        store.catalog.create_project(&theirs, &same, at(1)).await.unwrap();
        not_found(store.catalog.create_project(&org("none"), &made, at(1)).await);
        let names = |list: Vec<crate::Project>| {
            let names = list.into_iter().map(|project| project.name);
            names.collect::<Vec<_>>()
        };
        let listed = store.catalog.organization_projects(&ours).await.unwrap();
        assert_eq!(names(listed), ["Support bot", "Search"]);
        let patch = ProjectPatch { retention_days: Some(30), ..ProjectPatch::default() };
        let changed = store.catalog.update_project(&ours, &made.id, &patch, at(2)).await;
        let changed = changed.unwrap();
        assert_eq!(
            (changed.name.as_str(), changed.retention_days, changed.updated_at),
            ("Search", 30, at(2))
        );
        let taken =
            ProjectPatch { name: Some("Support bot".to_owned()), ..ProjectPatch::default() };
        conflict(store.catalog.update_project(&ours, &made.id, &taken, at(3)).await);
        not_found(store.catalog.update_project(&theirs, &made.id, &patch, at(3)).await);
        not_found(store.catalog.delete_project(&theirs, &made.id, at(3)).await);
        let foreign = store.catalog.organization_project(&theirs, &made.id).await.unwrap();
        assert_eq!(foreign, None);
    })
    .await;
}

#[tokio::test]
async fn keys_of_organizations_and_projects_share_their_public_halves_and_nothing_else() {
    on_each_database(|store| async move {
        let catalog = &store.catalog;
        start(&store).await;
        let owner = KeyOwner::Organization(org("org-1"));
        let key = NewApiKey { expires_at: Some(at(9)), ..key_of(7, "pk-org") };
        catalog.create_key(&owner, &key, at(1)).await.unwrap();
        let stored = catalog.api_key(&key.public_key).await.unwrap().unwrap();
        assert_eq!((&stored.owner, &stored.made), (&owner, &key));
        catalog.record_key_use("key-7", &key.secret_hash, at(5)).await.unwrap();
        catalog.record_key_use("key-7", &key.secret_hash, at(4)).await.unwrap();
        let listed = catalog.organization_keys(&org("org-1")).await.unwrap();
        assert_eq!(listed.len(), 1);
        assert_eq!(listed[0].last_used_at, Some(at(5)));
        assert_eq!(catalog.organization_keys(&org("org-2")).await.unwrap(), []);
        assert_eq!(catalog.api_keys(&project("project-1")).await.unwrap().len(), 1);
        let again = key_of(8, "pk-org");
        conflict(catalog.create_api_key(&project("project-1"), &again, at(2)).await);
        conflict(catalog.create_first_project(&init(9, "pk-org"), at(2)).await);
        let unknown_owner = KeyOwner::Organization(org("none"));
        not_found(catalog.create_key(&unknown_owner, &key_of(8, "pk-8"), at(2)).await);

        let of_project = catalog.api_keys(&project("project-1")).await.unwrap();
        let of_project = &of_project[0].made.public_key;
        not_found(catalog.delete_organization_key(of_project).await);
        catalog.delete_organization_key(&key.public_key).await.unwrap();
        not_found(catalog.delete_organization_key(&key.public_key).await);
        assert_eq!(catalog.organization_keys(&org("org-1")).await.unwrap(), []);
        assert!(catalog.api_key(of_project).await.unwrap().is_some());
    })
    .await;
}

#[tokio::test]
async fn users_belong_to_one_organization_and_keep_their_id_when_they_return() {
    on_each_database(|store| async move {
        let catalog = &store.catalog;
        start(&store).await;
        let (ours, theirs, home) = (org("org-1"), org("org-2"), project("project-1"));
        let ada = person("u1", "ada@example.com");
        let made = catalog.create_user(&ours, &ada, at(1)).await.unwrap();
        assert_eq!(made.made, ada);
        conflict(catalog.create_user(&ours, &person("u2", "ada@example.com"), at(1)).await);
        let same = person("u3", "ada@example.com");
        catalog.create_user(&theirs, &same, at(1)).await.unwrap();
        assert_eq!(catalog.user(&theirs, &ada.id).await.unwrap(), None);
        let set = catalog.set_member(&theirs, &ada.id, Role::Owner, at(2));
        not_found(set.await);
        assert!(catalog.is_member(&home, "u1").await.unwrap());
        assert!(!catalog.is_member(&home, "u3").await.unwrap());
        assert!(!catalog.is_member(&project("none"), "u1").await.unwrap());

        let in_project = (&ada.id, Role::Viewer);
        let member = catalog.set_project_member(&ours, &home, in_project, at(2)).await;
        assert_eq!(member.unwrap().made.role, Role::Viewer);
        let of_project = catalog.project_members(&ours, &home).await.unwrap();
        assert_eq!(of_project[0].made.role, Role::Viewer);
        assert_eq!(catalog.members(&ours).await.unwrap()[0].made.role, Role::Member);
        let stranger = (&same.id, Role::Viewer);
        let set = catalog.set_project_member(&ours, &home, stranger, at(2));
        not_found(set.await);

        catalog.remove_member(&ours, &ada.id, at(3)).await.unwrap();
        not_found(catalog.remove_member(&ours, &ada.id, at(3)).await);
        let set = catalog.set_member(&ours, &ada.id, Role::Owner, at(3));
        not_found(set.await);
        assert!(!catalog.is_member(&home, "u1").await.unwrap());
        assert_eq!(catalog.user(&ours, &ada.id).await.unwrap(), None);
        assert_eq!(catalog.project_members(&ours, &home).await.unwrap(), []);
        let back = catalog.create_user(&ours, &person("u9", "ada@example.com"), at(4)).await;
        assert_eq!(back.unwrap().made.id, ada.id, "the same person");

        let asleep =
            NewUser { is_active: false, user_name: "ada@example.org".to_owned(), ..ada.clone() };
        let changed = catalog.update_user(&ours, &asleep, at(5)).await.unwrap();
        assert_eq!(changed.made, asleep);
        assert_eq!(catalog.members(&ours).await.unwrap(), []);
        assert!(!catalog.is_member(&home, "u1").await.unwrap());
        let set = catalog.set_project_member(&ours, &home, in_project, at(6));
        not_found(set.await);
        let page = catalog.users(&ours, 0, 10).await.unwrap();
        assert_eq!((page.items, page.n_total), (vec![changed], 1));
        let page = catalog.users(&ours, 1, 10).await.unwrap();
        assert_eq!((page.items.len(), page.n_total), (0, 1));
        let set = catalog.set_member(&ours, &ada.id, Role::Owner, at(7));
        conflict(set.await);
        let asleep = catalog.user(&ours, &ada.id).await.unwrap().unwrap();
        assert!(!asleep.made.is_active && asleep.made.role == Role::Member);
        let second = person("u5", "bob@example.com");
        catalog.create_user(&ours, &second, at(8)).await.unwrap();
        let taken = NewUser { user_name: "ada@example.org".to_owned(), ..second };
        conflict(catalog.update_user(&ours, &taken, at(9)).await);
        let found = catalog.user_by_name(&ours, "ada@example.org").await.unwrap();
        assert_eq!(found.unwrap().made.id, ada.id);
    })
    .await;
}

#[tokio::test]
async fn the_last_active_owner_stays_whichever_way_they_would_go() {
    on_each_database(|store| async move {
        let catalog = &store.catalog;
        start(&store).await;
        let ours = org("org-1");
        let owner = |id: &str, name: &str| NewUser { role: Role::Owner, ..person(id, name) };
        let (ada, bob) = (owner("u1", "ada@example.com"), owner("u2", "bob@example.com"));
        for user in [&ada, &bob, &person("u3", "cy@example.com")] {
            catalog.create_user(&ours, user, at(1)).await.unwrap();
        }
        let asleep = NewUser { is_active: false, ..bob.clone() };
        catalog.update_user(&ours, &asleep, at(2)).await.unwrap();
        for (role, is_active) in [(Role::Admin, true), (Role::Owner, false)] {
            let less = NewUser { role, is_active, ..ada.clone() };
            conflict(catalog.update_user(&ours, &less, at(3)).await);
        }
        conflict(catalog.set_member(&ours, &ada.id, Role::Viewer, at(3)).await);
        conflict(catalog.remove_member(&ours, &ada.id, at(3)).await);
        assert_eq!(catalog.user(&ours, &ada.id).await.unwrap().unwrap().made, ada);

        catalog.update_user(&ours, &bob, at(4)).await.unwrap();
        for round in 0..20 {
            // Each of the two leaves in a different way, concurrently.
            let (one, other) = tokio::join!(
                catalog.set_member(&ours, &ada.id, Role::Member, at(5 + round)),
                catalog.remove_member(&ours, &bob.id, at(5 + round)),
            );
            assert!(one.is_ok() != other.is_ok(), "{one:?} {other:?}");
            let members = catalog.members(&ours).await.unwrap();
            let owners = members.iter().filter(|user| user.made.role == Role::Owner);
            assert_eq!(owners.count(), 1);
            if other.is_ok() {
                catalog.create_user(&ours, &bob, at(5 + round)).await.unwrap();
            } else {
                let again = catalog.set_member(&ours, &ada.id, Role::Owner, at(5 + round));
                again.await.unwrap();
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_deleted_project_is_closed_at_once_and_then_emptied() {
    on_each_database(|store| async move {
        start(&store).await;
        let (ours, home) = (org("org-1"), project("project-1"));
        let own = info("acme/own", "1.0.0");
        let owner = Some(&home);
        let digest = store.catalog.put_plugin(owner, &own, b"their bytes", at(1)).await.unwrap();
        evaluator(&store, &home, "e1", at(1)).await;
        let rule = rule("r1", &["e1"], at(1));
        store.catalog.create_rule(&home, &rule, &rule.created_at).await.unwrap();
        let before = store.catalog.catalog_revision().await.unwrap();
        store.catalog.delete_project(&ours, &home, at(10)).await.unwrap();
        not_found(store.catalog.delete_project(&ours, &home, at(10)).await);
        assert_eq!(store.catalog.project(&home).await.unwrap(), None);
        assert_eq!(store.catalog.active_rules().await.unwrap().rules, []);
        assert_eq!(store.catalog.api_keys(&home).await.unwrap(), []);
        assert!(before < store.catalog.catalog_revision().await.unwrap());
        let key = key_of(9, "pk-9");
        not_found(store.catalog.create_api_key(&home, &key, at(11)).await);
        // The name is available again.
        let heir = new_project("heir", "Support bot");
        store.catalog.create_project(&ours, &heir, at(11)).await.unwrap();

        let deleted = store.catalog.deleted_projects().await.unwrap();
        let [found] = deleted.as_slice() else {
            panic!("{deleted:?}");
        };
        assert_eq!((&found.project, found.at), (&home, at(10)));
        assert!(0 < store.catalog.empty(&home).await.unwrap());
        assert!(store.catalog.component(&digest).await.unwrap().is_none());
        assert_eq!(store.catalog.empty(&home).await.unwrap(), 0);
        store.catalog.delete_project_row(&home).await.unwrap();
        assert_eq!(store.catalog.deleted_projects().await.unwrap(), []);
        assert!(store.catalog.project(&project("heir")).await.unwrap().is_some());
        assert!(store.catalog.project(&project("project-2")).await.unwrap().is_some());
    })
    .await;
}
