//! Accounts, their sessions and links.

use perpend_domain::access::Role;
use perpend_domain::ids::UserId;

use super::*;
use crate::{
    ACCOUNT_EXISTS, AcceptingAccount, AccountSession, BrowserSession, LAST_OWNER, LinkPurpose,
    NewAccount, NewLink, SessionOrigin,
};

fn org() -> OrganizationId {
    OrganizationId::new("org-1").unwrap()
}

fn user(id: &str) -> UserId {
    UserId::new(id).unwrap()
}

fn account(id: &str) -> NewAccount {
    NewAccount {
        id: id.to_owned(),
        email: format!("{id}@example.com"),
        name: "Ada".to_owned(),
        password_hash: "hash".to_owned(),
    }
}

fn session(n: u8, account: &str, created_at: Timestamp) -> AccountSession {
    AccountSession {
        digest: [n; 32],
        id: format!("session-{n}"),
        account: account.to_owned(),
        created_at,
        seen_at: created_at,
        fresh_at: created_at,
        expires_at: created_at.plus_millis(14 * 24 * 3_600_000),
        address: "192.0.2.1".to_owned(),
        agent: "browser".to_owned(),
    }
}

fn invitation(n: u8, role: Role) -> NewLink {
    NewLink {
        digest: [n; 32],
        id: format!("link-{n}"),
        purpose: LinkPurpose::Invitation { organization: org(), role },
        email: "bob@example.com".to_owned(),
        created_by: "u1".to_owned(),
        expires_at: at(100),
    }
}

async fn is_open(store: &Store, n: u8, now: Timestamp) -> bool {
    let found = store.catalog.account_session(&[[n; 32]], now).await.unwrap();
    found.is_some_and(|(session, account)| session.digest == [n; 32] && account.id == "ada")
}

/// A store with the project `project-1` and its first account.
async fn start(store: &Store) {
    store.catalog.create_first_project(&init(1, "pk-1"), at(0)).await.unwrap();
    let (org, ada, member) = (org(), account("ada"), user("u1"));
    store.catalog.create_first_account(&org, &ada, (&member, at(1))).await.unwrap();
}

#[tokio::test]
async fn the_first_account_is_created_once_and_ends_the_sessions_of_key_pairs() {
    on_each_database(|store| async move {
        let catalog = &store.catalog;
        catalog.create_first_project(&init(1, "pk-1"), at(0)).await.unwrap();
        let by_key = BrowserSession {
            digest: [7; 32],
            project: project("project-1"),
            origin: SessionOrigin::KeyPair("pk-1".to_owned()),
            created_at: at(0),
            expires_at: at(1_000),
        };
        catalog.begin_browser_session(&by_key, &[]).await.unwrap();
        assert_eq!(catalog.browser_sessions(&[[7; 32]], at(1)).await.unwrap().len(), 1);
        assert!(!catalog.has_accounts().await.unwrap());
        let (ours, ids) = (org(), [user("u1"), user("u2")]);
        let new = [account("ada"), account("bob")];
        let (one, other) = tokio::join!(
            catalog.create_first_account(&ours, &new[0], (&ids[0], at(1))),
            catalog.create_first_account(&ours, &new[1], (&ids[1], at(1))),
        );
        assert!(one.is_ok() != other.is_ok(), "{one:?} {other:?}");
        let refused = one.err().or(other.err());
        assert!(matches!(refused, Some(Error::Conflict(ACCOUNT_EXISTS))), "{refused:?}");
        assert!(catalog.has_accounts().await.unwrap());
        assert!(catalog.browser_sessions(&[[7; 32]], at(1)).await.unwrap().is_empty());
        // Not even one that begins afterwards.
        catalog.begin_browser_session(&by_key, &[]).await.unwrap();
        assert!(catalog.browser_sessions(&[[7; 32]], at(1)).await.unwrap().is_empty());
        let owners = catalog.members(&ours).await.unwrap();
        assert_eq!((owners.len(), owners[0].made.role), (1, Role::Owner));
    })
    .await;
}

#[tokio::test]
async fn a_session_ends_when_it_is_idle_expired_ended_or_its_password_changes() {
    on_each_database(|store| async move {
        start(&store).await;
        let catalog = &store.catalog;
        let hours = |n: i64| at(10 + n * 3_600);
        for n in 1..=5 {
            catalog.begin_account_session(&session(n, "ada", hours(0)), &[]).await.unwrap();
        }
        assert!(
            is_open(&store, 1, hours(23)).await
                && !is_open(&store, 1, hours(24)).await
                && !is_open(&store, 9, hours(1)).await
        );
        catalog.note_session_use(&[1; 32], hours(20)).await.unwrap();
        assert!(is_open(&store, 1, hours(43)).await && !is_open(&store, 1, hours(14 * 24)).await);
        assert!(!catalog.end_account_session("bob", "session-2").await.unwrap());
        assert!(is_open(&store, 2, hours(1)).await);
        assert!(catalog.end_account_session("ada", "session-2").await.unwrap());
        assert!(!is_open(&store, 2, hours(1)).await);
        assert_eq!(catalog.end_other_account_sessions("ada", "session-3").await.unwrap(), 3);
        let left = catalog.account_sessions("ada", hours(1)).await.unwrap();
        assert_eq!(left.iter().map(|one| one.id.as_str()).collect::<Vec<_>>(), ["session-3"]);
        catalog.begin_account_session(&session(6, "ada", hours(1)), &[[3; 32]]).await.unwrap();
        assert!(!is_open(&store, 3, hours(1)).await && is_open(&store, 6, hours(1)).await);
        catalog.set_password("ada", "other hash", hours(1)).await.unwrap();
        assert!(!is_open(&store, 6, hours(1)).await);
        let stored = catalog.account_by_email("ada@example.com").await.unwrap().unwrap();
        assert_eq!(stored.password_hash.as_deref(), Some("other hash"));
        for n in 20..60 {
            let new_session = session(n, "ada", hours(1).plus_millis(n.into()));
            catalog.begin_account_session(&new_session, &[]).await.unwrap();
        }
        let newest = catalog.account_sessions("ada", hours(2)).await.unwrap();
        assert_eq!((newest.len(), newest[0].id.as_str()), (20, "session-59"));
    })
    .await;
}

#[tokio::test]
async fn an_invitation_is_used_once_and_gives_its_role_to_a_new_member_only() {
    on_each_database(|store| async move {
        start(&store).await;
        let (catalog, ours) = (&store.catalog, org());
        let first = invitation(1, Role::Admin);
        catalog.create_link(&first, at(2)).await.unwrap();
        let second = invitation(2, Role::Member);
        catalog.create_link(&second, at(2)).await.unwrap();
        assert!(catalog.account_link(&first.digest, at(3)).await.unwrap().is_none(), "replaced");
        assert!(catalog.account_link(&second.digest, at(100)).await.unwrap().is_none(), "expired");
        let found = catalog.account_link(&second.digest, at(3)).await.unwrap().unwrap();
        assert_eq!(found.made, second);
        let bob = AcceptingAccount::New(account("bob"));
        let ids = [user("u2"), user("u3")];
        let (one, other) = tokio::join!(
            catalog.accept_invitation(&second, &bob, (&ids[0], at(4))),
            catalog.accept_invitation(&second, &bob, (&ids[1], at(4))),
        );
        assert!(one.is_ok() != other.is_ok(), "{one:?} {other:?}");
        let places = catalog.memberships("bob").await.unwrap();
        assert_eq!((places.len(), places[0].role()), (1, Role::Member));
        // Another invitation does not change the role.
        let again = invitation(3, Role::Owner);
        catalog.create_link(&again, at(5)).await.unwrap();
        let existing = AcceptingAccount::Existing { id: "bob".to_owned(), name: "Bob".to_owned() };
        catalog.accept_invitation(&again, &existing, (&user("u4"), at(5))).await.unwrap();
        assert_eq!(catalog.memberships("bob").await.unwrap(), places);
        let id = &places[0].user;
        let own = (id, Role::None);
        catalog.set_project_member(&ours, &project("project-1"), own, at(6)).await.unwrap();
        assert_eq!(catalog.memberships("bob").await.unwrap()[0].role(), Role::None);
        // Links of a member and for a member end with the membership.
        let own = NewLink { email: "cy@example.com".to_owned(), ..invitation(4, Role::Viewer) };
        let own = NewLink { created_by: id.to_string(), ..own };
        catalog.create_link(&own, at(6)).await.unwrap();
        catalog.set_member(&ours, id, Role::Viewer, at(6)).await.unwrap();
        assert!(catalog.invitations(&ours, at(6)).await.unwrap().is_empty(), "a lower role");
        for link in [&own, &invitation(5, Role::Viewer)] {
            catalog.create_link(link, at(6)).await.unwrap();
        }
        catalog.remove_member(&ours, id, at(7)).await.unwrap();
        assert!(catalog.memberships("bob").await.unwrap().is_empty());
        assert!(catalog.invitations(&ours, at(7)).await.unwrap().is_empty());
    })
    .await;
}

#[tokio::test]
async fn a_reset_is_used_once_and_ends_the_sessions() {
    on_each_database(|store| async move {
        start(&store).await;
        let catalog = &store.catalog;
        catalog.begin_account_session(&session(1, "ada", at(2)), &[]).await.unwrap();
        let reset = |n: u8| NewLink {
            digest: [n; 32],
            id: format!("link-{n}"),
            purpose: LinkPurpose::Reset { account: "ada".to_owned() },
            email: "ada@example.com".to_owned(),
            created_by: "u1".to_owned(),
            expires_at: at(100),
        };
        catalog.create_link(&reset(1), at(2)).await.unwrap();
        catalog.use_reset(&reset(1), "new", at(3)).await.unwrap();
        assert!(matches!(catalog.use_reset(&reset(1), "newer", at(3)).await, Err(Error::NotFound)));
        assert!(catalog.account_session(&[[1; 32]], at(3)).await.unwrap().is_none());
        let stored = catalog.account("ada").await.unwrap().unwrap();
        assert_eq!(stored.password_hash.as_deref(), Some("new"));
        catalog.create_link(&reset(2), at(4)).await.unwrap();
        catalog.set_password("ada", "newest", at(5)).await.unwrap();
        assert!(catalog.account_link(&[2; 32], at(5)).await.unwrap().is_none());
    })
    .await;
}

#[tokio::test]
async fn the_last_owner_who_can_sign_in_stays_also_beside_an_owner_without_account() {
    on_each_database(|store| async move {
        start(&store).await;
        let (catalog, ours) = (&store.catalog, org());
        let provisioned = crate::NewUser {
            id: user("u2"),
            user_name: "scim@example.com".to_owned(),
            email: "scim@example.com".to_owned(),
            name: "Cy".to_owned(),
            role: Role::Owner,
            is_active: true,
        };
        catalog.create_user(&ours, &provisioned, at(2)).await.unwrap();
        let left = catalog.remove_member(&ours, &user("u1"), at(3)).await;
        assert!(matches!(left, Err(Error::Conflict(LAST_OWNER))), "{left:?}");
        catalog.remove_member(&ours, &user("u2"), at(3)).await.unwrap();
    })
    .await;
}
