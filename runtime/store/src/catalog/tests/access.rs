//! Projects, keys and secrets.

use super::*;

#[test]
fn a_secret_hash_knows_its_secret_and_survives_text() {
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
        assert_eq!(store.first_project().await.unwrap(), None);
        let made = store
            .create_first_project(&init(1, "old key!"), at(0))
            .await
            .unwrap();
        assert_eq!(made.id, project("project-1"));
        assert_eq!(made.organization.name, "Acme");
        // A restart draws other ids.
        let again = store
            .create_first_project(&init(2, "old key!"), at(9))
            .await
            .unwrap();
        assert_eq!(again, made);
        assert_eq!(store.first_project().await.unwrap(), Some(made.clone()));
        let key = store
            .api_key(&PublicKey::new("old key!").unwrap())
            .await
            .unwrap()
            .unwrap();
        assert_eq!(key.made, key_of(1, "old key!"));
        assert!(key.made.secret_hash.matches("any secret: even ünïcode"));
        // Another key for the same names opens the same project.
        let other = store
            .create_first_project(&init(3, "new key"), at(9))
            .await
            .unwrap();
        assert_eq!(other, made);
        assert_eq!(store.api_keys(&made.id).await.unwrap().len(), 2);
    })
    .await;
}

#[tokio::test]
async fn nodes_that_start_at_once_make_one_project() {
    on_each_database(|store| async move {
        let inits: Vec<Init> = (0..6).map(|n| init(n, "pk")).collect();
        let starts = inits
            .iter()
            .map(|init| store.create_first_project(init, at(0)));
        let made: Vec<_> = futures_util::future::join_all(starts).await;
        let ids: Vec<_> = made
            .into_iter()
            .map(|project| project.unwrap().id)
            .collect();
        assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
        assert_eq!(store.api_keys(&ids[0]).await.unwrap().len(), 1);
    })
    .await;
}

#[tokio::test]
async fn keys_are_added_listed_and_taken_away_within_their_project() {
    on_each_database(|store| async move {
        let home = store
            .create_first_project(&init(1, "pk-1"), at(0))
            .await
            .unwrap()
            .id;
        let key = NewApiKey {
            rights: Rights::Ingest,
            ..key_of(2, "pk-2")
        };
        store.create_api_key(&home, &key, at(1)).await.unwrap();
        let stored = store.api_key(&key.public_key).await.unwrap().unwrap();
        assert_eq!(
            (stored.made.rights, &stored.owner),
            (Rights::Ingest, &KeyOwner::Project(home.clone()))
        );
        let taken = NewApiKey {
            public_key: key.public_key.clone(),
            ..key_of(3, "x")
        };
        let refused = store.create_api_key(&home, &taken, at(2)).await;
        assert!(matches!(refused, Err(Error::Conflict(_))), "{refused:?}");
        let nowhere = store
            .create_api_key(&project("none"), &key_of(4, "pk-4"), at(2))
            .await;
        assert!(matches!(nowhere, Err(Error::NotFound)), "{nowhere:?}");
        let foreign = store.delete_api_key(&project("none"), "key-2").await;
        assert!(matches!(foreign, Err(Error::NotFound)), "{foreign:?}");
        store.delete_api_key(&home, "key-2").await.unwrap();
        assert_eq!(store.api_key(&key.public_key).await.unwrap(), None);
    })
    .await;
}

#[tokio::test]
async fn a_server_secret_is_made_once() {
    on_each_database(|store| async move {
        let first = store.secret("session", || vec![1; 32]).await.unwrap();
        let second = store.secret("session", || vec![2; 32]).await.unwrap();
        let other = store.secret("login", || vec![3; 32]).await.unwrap();
        assert_eq!(
            (first, second, other),
            (vec![1; 32], vec![1; 32], vec![3; 32])
        );
    })
    .await;
}
