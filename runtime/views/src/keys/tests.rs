//! Renders the pages of keys with hostile text.

use perpend_domain::time::Timestamp;

use crate::samples_tests::*;
use crate::*;

fn line(state: KeyState, is_overlapping: bool) -> KeyLine {
    let at = Timestamp::from_millis(0);
    KeyLine {
        name: text(HOSTILE),
        href: "/p/settings/keys/k".to_owned(),
        public_key: text(HOSTILE),
        secret_ends: text(HOSTILE),
        scope: text(HOSTILE),
        created_at: at,
        expires_at: (state != KeyState::Valid).then_some(at),
        last_used_at: is_overlapping.then_some(at),
        state,
        rotation: Some(KeyRotationView {
            rotated_at: at,
            new_last_used_at: is_overlapping.then_some(at),
            previous_ends: text(HOSTILE),
            previous_expires_at: at,
            previous_last_used_at: is_overlapping.then_some(at),
            is_overlapping,
        }),
    }
}

#[test]
fn the_pages_of_keys_are_inert_and_only_the_new_secret_page_has_a_secret() {
    let new = KeyLine { rotation: None, ..line(KeyState::Valid, false) };
    let keys = vec![line(KeyState::ExpiresSoon, true), line(KeyState::Expired, false), new.clone()];
    let list = KeysPage { shell: shell(), keys, may_write: true };
    assert!(checked(&list).contains("settings/keys/new"));
    let read_only = KeysPage { may_write: false, ..list.clone() };
    assert!(!checked(&read_only).contains("settings/keys/new"));
    checked(&KeysPage { keys: Vec::new(), ..list });

    let problems = ["name", "expires", "overlap"].map(|field| (field, text(HOSTILE)));
    let rejected_form = RejectedForm { values: vec![("name", typed())], problems: problems.into() };
    let page = KeyPage {
        shell: shell(),
        key: line(KeyState::Valid, true),
        name_field: typed(),
        expires_field: typed(),
        public_scores_field: Some(true),
        rejected_form: rejected_form.clone(),
        may_write: true,
    };
    let html = checked(&page);
    assert!(html.contains("/end-previous-secret") && !html.contains("name=\"overlap\""));
    let html = checked(&KeyPage { key: new, public_scores_field: None, ..page.clone() });
    assert!(html.contains("name=\"overlap\"") && !html.contains("name=\"public_scores\""));
    assert!(!checked(&KeyPage { may_write: false, ..page }).contains("name=\"expires\""));

    checked(&NewKeyPage { shell: shell(), rejected_form });
    for previous_expires_at in [None, Some(Timestamp::from_millis(0))] {
        let page = KeySecretPage {
            shell: shell(),
            href: "/p/settings/keys/k".to_owned(),
            public_key: text(HOSTILE),
            secret_key: text("sk-new-secret"),
            previous_expires_at,
        };
        assert!(
            checked(&page).contains("sk-new-secret") && !format!("{page:?}").contains("sk-new")
        );
    }
    checked(&RevokeKeyPage { shell: shell(), key: line(KeyState::Valid, false) });
}
