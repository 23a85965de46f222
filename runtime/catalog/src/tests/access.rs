//! Projects, keys and secrets.

use super::*;

#[test]
fn a_secret_hash_matches_its_secret_after_a_round_trip() {
    let hash = SecretHash::new("sk-lf-1", [7; 16]);
    let read: SecretHash = hash.to_string().parse().unwrap();
    assert_eq!(read, hash);
    assert!(read.matches("sk-lf-1"));
    assert!(!read.matches("sk-lf-2"));
    assert!(!read.matches(""));
    assert_ne!(hash, SecretHash::new("sk-lf-1", [8; 16]));
    for bad in ["", "sha256:00:00", "md5:00:00", &hash.to_string()[..90]] {
        assert!(bad.parse::<SecretHash>().is_err(), "{bad:?}");
    }
}

#[tokio::test]
async fn a_headless_start_makes_one_project_however_often_it_is_repeated() {
    on_each_database(|store| async move {
        assert_eq!(store.catalog.first_project().await.unwrap(), None);
        assert!(!store.catalog.has_one_project().await.unwrap());
        let made = store.catalog.create_first_project(&init(1, "old key!"), at(0)).await.unwrap();
        assert_eq!(made.id, project("project-1"));
        assert_eq!(made.organization.name, "Acme");
        // A restart generates other ids.
        let again = store.catalog.create_first_project(&init(2, "old key!"), at(9)).await.unwrap();
        assert_eq!(again, made);
        assert_eq!(store.catalog.first_project().await.unwrap(), Some(made.clone()));
        assert!(store.catalog.has_one_project().await.unwrap());
        let key =
            store.catalog.api_key(&PublicKey::new("old key!").unwrap()).await.unwrap().unwrap();
        assert_eq!(key.made, key_of(1, "old key!"));
        assert!(key.made.secret_hash.matches("any secret: even ünïcode"));
        // Another key with the same names gives access to the same project.
        let other = store.catalog.create_first_project(&init(3, "new key"), at(9)).await.unwrap();
        assert_eq!(other, made);
        assert_eq!(store.catalog.api_keys(&made.id).await.unwrap().len(), 2);
    })
    .await;
}

#[tokio::test]
async fn nodes_that_start_at_once_make_one_project() {
    on_each_database(|store| async move {
        let inits: Vec<Init> = (0..6).map(|n| init(n, "pk")).collect();
        let starts = inits.iter().map(|init| store.catalog.create_first_project(init, at(0)));
        let made: Vec<_> = futures_util::future::join_all(starts).await;
        let ids: Vec<_> = made.into_iter().map(|project| project.unwrap().id).collect();
        assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
        assert_eq!(store.catalog.api_keys(&ids[0]).await.unwrap().len(), 1);
    })
    .await;
}

#[tokio::test]
async fn keys_are_added_listed_and_taken_away_within_their_project() {
    on_each_database(|store| async move {
        let home = store.catalog.create_first_project(&init(1, "pk-1"), at(0)).await.unwrap().id;
        let key = NewApiKey { rights: Rights::Ingest, ..key_of(2, "pk-2") };
        store.catalog.create_api_key(&home, &key, at(1)).await.unwrap();
        let stored = store.catalog.api_key(&key.public_key).await.unwrap().unwrap();
        assert_eq!(
            (stored.made.rights, &stored.owner),
            (Rights::Ingest, &KeyOwner::Project(home.clone()))
        );
        let taken = NewApiKey { public_key: key.public_key.clone(), ..key_of(3, "x") };
        let refused = store.catalog.create_api_key(&home, &taken, at(2)).await;
        assert!(matches!(refused, Err(Error::Conflict(_))), "{refused:?}");
        let nowhere =
            store.catalog.create_api_key(&project("none"), &key_of(4, "pk-4"), at(2)).await;
        assert!(matches!(nowhere, Err(Error::NotFound)), "{nowhere:?}");
        let foreign = store.catalog.delete_api_key(&project("none"), "key-2").await;
        assert!(matches!(foreign, Err(Error::NotFound)), "{foreign:?}");
        store.catalog.delete_api_key(&home, "key-2").await.unwrap();
        assert_eq!(store.catalog.api_key(&key.public_key).await.unwrap(), None);
    })
    .await;
}

#[tokio::test]
async fn a_server_secret_is_made_once() {
    on_each_database(|store| async move {
        let first = store.catalog.secret("session", || vec![1; 32]).await.unwrap();
        let second = store.catalog.secret("session", || vec![2; 32]).await.unwrap();
        let other = store.catalog.secret("login", || vec![3; 32]).await.unwrap();
        assert_eq!((first, second, other), (vec![1; 32], vec![1; 32], vec![3; 32]));
    })
    .await;
}

/// Checks the error for a public key that must not be reused.
fn is_refused<T: std::fmt::Debug>(outcome: Result<T, Error>) {
    let Err(Error::Conflict(why)) = &outcome else {
        unreachable!("{outcome:?}");
    };
    assert!(why.contains("never given out again"), "{why}");
}

#[tokio::test]
async fn the_public_key_of_a_deleted_pair_is_never_reused() {
    on_each_database(|store| async move {
        let home = store.catalog.create_first_project(&init(1, "pk-1"), at(0)).await.unwrap();
        let (project, organization) = (home.id, home.organization.id);
        let of_organization = KeyOwner::Organization(organization.clone());
        store.catalog.create_key(&of_organization, &key_of(2, "pk-org"), at(1)).await.unwrap();
        let public_keys = ["pk-1", "pk-org"].map(|key| PublicKey::new(key).unwrap());
        for key in &public_keys {
            assert!(store.catalog.is_public_key_used(key).await.unwrap());
        }
        store.catalog.delete_api_key(&project, "key-1").await.unwrap();
        store.catalog.delete_organization_key(&public_keys[1]).await.unwrap();

        let other = Init { organization_name: "Other".to_owned(), ..init(3, "pk-3") };
        let other = store.catalog.create_first_project(&other, at(2)).await.unwrap();
        let owners = [
            KeyOwner::Project(project.clone()),
            of_organization,
            KeyOwner::Project(other.id),
            KeyOwner::Organization(other.organization.id),
        ];
        for key in &public_keys {
            for owner in &owners {
                let again = key_of(9, key.as_str());
                is_refused(store.catalog.create_key(owner, &again, at(3)).await);
            }
            let start = init(9, key.as_str());
            assert!(store.catalog.create_first_project(&start, at(3)).await.is_err());
            assert_eq!(store.catalog.api_key(key).await.unwrap(), None);
            assert!(store.catalog.is_public_key_used(key).await.unwrap());
        }
        // A refusal does not reserve the key.
        let unknown = KeyOwner::Project(super::project("none"));
        let fresh = key_of(8, "pk-fresh");
        assert!(store.catalog.create_key(&unknown, &fresh, at(4)).await.is_err());
        store.catalog.create_key(&owners[2], &fresh, at(4)).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn the_public_keys_of_a_deleted_project_are_never_reused() {
    on_each_database(|store| async move {
        let home = store.catalog.create_first_project(&init(1, "pk-1"), at(0)).await.unwrap();
        let organization = KeyOwner::Organization(home.organization.id.clone());
        let delete = store.catalog.delete_project(&home.organization.id, &home.id, at(1));
        delete.await.unwrap();
        let again = key_of(9, "pk-1");
        is_refused(store.catalog.create_key(&organization, &again, at(2)).await);
        // Also when no row of the project is left.
        store.catalog.empty(&home.id).await.unwrap();
        store.catalog.delete_project_row(&home.id).await.unwrap();
        is_refused(store.catalog.create_key(&organization, &again, at(401)).await);
        let again = init(9, "pk-1");
        assert!(store.catalog.create_first_project(&again, at(401)).await.is_err());
        assert_eq!(store.catalog.first_project().await.unwrap(), None);
    })
    .await;
}

#[tokio::test]
async fn of_several_that_want_one_public_key_while_it_is_deleted_none_gets_it() {
    on_each_database(|store| async move {
        let home = store.catalog.create_first_project(&init(1, "pk-1"), at(0)).await.unwrap();
        let organization = KeyOwner::Organization(home.organization.id.clone());
        for n in 2..12 {
            let (public_key, id) = (format!("pk-{n}"), format!("key-{n}"));
            let key = key_of(n, &public_key);
            store.catalog.create_api_key(&home.id, &key, at(1)).await.unwrap();
            let rival = NewApiKey { id: format!("rival-{n}"), ..key };
            let (deleted, made) = tokio::join!(
                store.catalog.delete_api_key(&home.id, &id),
                store.catalog.create_key(&organization, &rival, at(1)),
            );
            deleted.unwrap();
            is_refused(made);
            assert_eq!(store.catalog.api_key(&rival.public_key).await.unwrap(), None);
        }
    })
    .await;
}

fn new_secret(n: u8) -> NewSecret {
    NewSecret { hash: SecretHash::new("new secret", [n; 16]), hint: format!("…{n}") }
}

#[tokio::test]
async fn a_rotated_key_records_the_last_use_of_each_of_its_two_secrets() {
    on_each_database(|store| async move {
        let catalog = &store.catalog;
        let home = catalog.create_first_project(&init(1, "pk-1"), at(0)).await.unwrap();
        let (owner, old) = (KeyOwner::Project(home.id.clone()), key_of(1, "pk-1").secret_hash);
        let (which, new) = ((&owner, "key-1"), new_secret(2));
        catalog.record_key_use("key-1", &old, at(5)).await.unwrap();
        let rotated = catalog.rotate_key(which, &new, at(100), at(10)).await.unwrap();
        assert_eq!((&rotated.made.secret_hash, &rotated.made.secret_hint), (&new.hash, &new.hint));
        assert_eq!(
            (rotated.last_used_at, rotated.last_used_with_any_secret()),
            (None, Some(at(5)))
        );
        let rotation = rotated.rotation.as_ref().unwrap();
        assert_eq!((&rotation.previous_hash, rotation.previous_expires_at), (&old, at(100)));
        assert_eq!(
            (rotated.sessions_since(at(99)), rotated.sessions_since(at(100))),
            (None, Some(at(100)))
        );
        // A use before the rotation that is recorded after it belongs to the old secret.
        catalog.record_key_use("key-1", &old, at(9)).await.unwrap();
        catalog.record_key_use("key-1", &new.hash, at(11)).await.unwrap();
        catalog.record_key_use("key-1", &new_secret(9).hash, at(12)).await.unwrap();
        let public_key = PublicKey::new("pk-1").unwrap();
        let stored = catalog.api_key(&public_key).await.unwrap().unwrap();
        let previous = stored.rotation.as_ref().unwrap().previous_last_used_at;
        assert_eq!((stored.last_used_at, previous), (Some(at(11)), Some(at(9))));

        let early = catalog.rotate_key(which, &new_secret(3), at(200), at(99)).await;
        assert!(matches!(early, Err(Error::Conflict(_))), "{early:?}");
        let ended = catalog.end_previous_secret(which, at(50)).await.unwrap();
        assert_eq!(ended.sessions_since(at(50)), Some(at(50)));
        let again = catalog.end_previous_secret(which, at(51)).await;
        assert!(matches!(again, Err(Error::Conflict(_))), "{again:?}");
        let third = catalog.rotate_key(which, &new_secret(3), at(300), at(60)).await.unwrap();
        // While the second secret is accepted, sessions of the first stay ended.
        assert_eq!(third.sessions_since(at(299)), Some(at(50)));
        assert_eq!(third.rotation.unwrap().previous_hash, new.hash);
    })
    .await;
}

#[tokio::test]
async fn a_key_is_changed_by_its_owner_alone() {
    on_each_database(|store| async move {
        let catalog = &store.catalog;
        let home = catalog.create_first_project(&init(1, "pk-1"), at(0)).await.unwrap();
        let owner = KeyOwner::Project(home.id.clone());
        let organization = KeyOwner::Organization(home.organization.id.clone());
        let patch = KeyPatch {
            note: Some(Some("checkout".to_owned())),
            expires_at: Some(Some(at(9))),
            public_scores: None,
        };
        let changed = catalog.change_key((&owner, "key-1"), &patch).await.unwrap();
        assert_eq!(
            (changed.made.note.as_deref(), changed.made.expires_at),
            (Some("checkout"), Some(at(9)))
        );
        assert!(changed.is_valid(at(8)) && !changed.is_valid(at(9)));
        assert!(changed.accepts_public_half(at(8)));
        let patch =
            KeyPatch { expires_at: Some(None), public_scores: Some(false), ..KeyPatch::default() };
        let changed = catalog.change_key((&owner, "key-1"), &patch).await.unwrap();
        assert_eq!(
            (changed.made.note.as_deref(), changed.made.expires_at),
            (Some("checkout"), None)
        );
        assert!(!changed.accepts_public_half(at(8)));
        for stranger in [&organization, &KeyOwner::Project(project("none"))] {
            let which = (stranger, "key-1");
            let outcomes = [
                catalog.change_key(which, &patch).await,
                catalog.rotate_key(which, &new_secret(2), at(9), at(1)).await,
                catalog.end_previous_secret(which, at(1)).await,
            ];
            for outcome in outcomes {
                assert!(matches!(outcome, Err(Error::NotFound)), "{outcome:?}");
            }
        }
        // Keys of organizations are rotated too.
        catalog.create_key(&organization, &key_of(2, "pk-org"), at(1)).await.unwrap();
        let rotated =
            catalog.rotate_key((&organization, "key-2"), &new_secret(3), at(1), at(1)).await;
        assert_eq!(rotated.unwrap().made.secret_hash, new_secret(3).hash);
    })
    .await;
}
