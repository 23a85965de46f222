//! `perpend reset-link`: a one-time link that sets the password of an account, with direct access to the database.

use std::process::ExitCode;

use anyhow::Context as _;
use perpend_catalog::{KeyOwner, LinkPurpose, NewLink};
use perpend_config::SettingArgs;
use perpend_domain::ids::IdSource as _;
use perpend_domain::time::Clock as _;
use perpend_http_kit::auth::{canonical_email, new_link_token};
use perpend_storage::Store;

use super::common::{load, print_line, recorded_change};
use super::{organization_key, serve};
use crate::{RandomIds, SystemClock};

/// Validity of the link.
const VALID_MS: i64 = 30 * 60 * 1_000;

pub(super) fn create(settings: &SettingArgs, email: &str) -> anyhow::Result<ExitCode> {
    let config = load(settings)?;
    serve::runtime()?.block_on(async {
        let store = organization_key::open(&config).await?;
        let token = create_in(&store, &canonical_email(email)).await;
        store.close().await;
        let origin = config.public_url.clone();
        let origin = origin.unwrap_or_else(|| format!("http://{}", config.listen));
        let token = token?;
        print_line("This link sets the password of the account. It works once, within 30 minutes.");
        print_line(&format!("  {}/reset/{token}", origin.trim_end_matches('/')));
        Ok(ExitCode::SUCCESS)
    })
}

async fn create_in(store: &Store, email: &str) -> anyhow::Result<String> {
    let account = store.catalog.account_by_email(email).await?;
    let account =
        account.with_context(|| format!("no account has the e-mail address {email:?}"))?;
    let (token, digest) = new_link_token(&RandomIds);
    let now = SystemClock.now();
    let account_id = account.id.clone();
    let link = NewLink {
        digest,
        id: RandomIds.uuid().to_string(),
        purpose: LinkPurpose::Reset { account: account.id },
        email: account.email,
        created_by: "perpend reset-link".to_owned(),
        expires_at: now.plus_millis(VALID_MS),
    };
    let memberships = store.catalog.memberships(&account_id).await?;
    let create = store.catalog.create_link(&link, now);
    match memberships.into_iter().next() {
        Some(first) => {
            let owner = KeyOwner::Organization(first.organization);
            recorded_change(store, &owner, "perpend reset-link", create).await?;
        }
        None => create.await?,
    }
    Ok(token)
}
