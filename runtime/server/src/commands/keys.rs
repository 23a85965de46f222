//! `perpend keys`: lists, creates, rotates and revokes key pairs, with direct access to the database.

use std::process::ExitCode;

use clap::Subcommand;
use perpend_catalog::{ApiKey, KeyOwner, MAX_OVERLAP_HOURS, Project, Rights};
use perpend_config::{Config, SettingArgs};
use perpend_domain::ids::PublicKey;
use perpend_domain::time::{Clock as _, Timestamp};
use perpend_http_kit::auth::{KEPT_MS, KeyPair};
use perpend_storage::Store;

use super::common::{load, print_line, printable, recorded_change};
use super::organization_key::{MAX_ORGANIZATIONS, open};
use super::serve;
use crate::{RandomIds, SystemClock};

const HOUR_MS: i64 = 3_600_000;
/// Ten years.
const MAX_DAYS: i64 = 3_650;

#[derive(Debug, Subcommand)]
pub(super) enum KeysCommand {
    /// List the key pairs of a project with scope, expiry and last use
    List {
        /// Name or id of the project; required only if there are several
        #[arg(long, value_name = "NAME")]
        project: Option<String>,
        #[command(flatten)]
        settings: SettingArgs,
    },
    /// Create a key pair of a project and print its secret
    Create {
        /// Name or id of the project; required only if there are several
        #[arg(long, value_name = "NAME")]
        project: Option<String>,
        /// full, read (changes nothing) or ingest (sends telemetry and scores)
        #[arg(long, value_name = "SCOPE", default_value = "full", value_parser = scope)]
        scope: Rights,
        /// Note shown in the list of keys
        #[arg(long, value_name = "TEXT")]
        note: Option<String>,
        /// Number of days after which the key pair expires
        #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(i64).range(1..=MAX_DAYS))]
        expires_in_days: Option<i64>,
        #[command(flatten)]
        settings: SettingArgs,
    },
    /// Create a new secret for a key pair and print it; the previous secret stays valid for some hours
    Rotate {
        /// Public key of the pair, of a project or an organization
        public_key: String,
        /// Hours for which the previous secret is still accepted; 0 ends it at once
        #[arg(long, value_name = "HOURS", value_parser = clap::value_parser!(u32).range(0..=i64::from(MAX_OVERLAP_HOURS)))]
        overlap_hours: u32,
        #[command(flatten)]
        settings: SettingArgs,
    },
    /// End the previous secret of a rotated key pair now
    EndPrevious {
        /// Public key of the pair
        public_key: String,
        #[command(flatten)]
        settings: SettingArgs,
    },
    /// Delete a key pair; its public key can never be used again
    Revoke {
        /// Public key of the pair
        public_key: String,
        #[command(flatten)]
        settings: SettingArgs,
    },
}

fn scope(text: &str) -> Result<Rights, String> {
    text.parse().map_err(|_: String| "expected full, read or ingest".to_owned())
}

impl KeysCommand {
    const fn settings(&self) -> &SettingArgs {
        match self {
            Self::List { settings, .. }
            | Self::Create { settings, .. }
            | Self::Rotate { settings, .. }
            | Self::EndPrevious { settings, .. }
            | Self::Revoke { settings, .. } => settings,
        }
    }
}

pub(super) fn keys(command: &KeysCommand) -> anyhow::Result<ExitCode> {
    let config = load(command.settings())?;
    serve::runtime()?.block_on(async {
        let store = open(&config).await?;
        let done = run(&store, &config, command).await;
        store.close().await;
        done?;
        Ok(ExitCode::SUCCESS)
    })
}

async fn run(store: &Store, config: &Config, command: &KeysCommand) -> anyhow::Result<()> {
    match command {
        KeysCommand::List { project, .. } => list(store, project.as_deref()).await,
        KeysCommand::Create { project, scope, note, expires_in_days, .. } => {
            let note = note.clone().unwrap_or_else(|| "created by perpend keys".to_owned());
            create(store, project.as_deref(), (*scope, note, *expires_in_days)).await
        }
        KeysCommand::Rotate { public_key, overlap_hours, .. } => {
            rotate(store, public_key, *overlap_hours).await?;
            print_if_configured(config, public_key, "set the new secret there");
            Ok(())
        }
        KeysCommand::EndPrevious { public_key, .. } => {
            let key = find(store, public_key).await?;
            let which = (&key.owner, key.made.id.as_str());
            let end = store.catalog.end_previous_secret(which, SystemClock.now());
            recorded_change(store, &key.owner, "perpend keys end-previous", end).await?;
            print_line(&format!("The previous secret of {public_key} was ended."));
            print_delay("rejects it");
            Ok(())
        }
        KeysCommand::Revoke { public_key, .. } => {
            revoke(store, public_key).await?;
            print_if_configured(config, public_key, "remove the pair there, or set a new one");
            Ok(())
        }
    }
}

/// The project with this name or id; without one, the only project.
async fn project(store: &Store, wanted: Option<&str>) -> anyhow::Result<Project> {
    let mut projects = Vec::new();
    for organization in store.catalog.organizations(MAX_ORGANIZATIONS).await? {
        projects.extend(store.catalog.organization_projects(&organization.id).await?);
    }
    let is_wanted = |project: &&Project| {
        wanted.is_none_or(|wanted| wanted == project.name || wanted == project.id.as_str())
    };
    let mut matching = projects.iter().filter(is_wanted);
    if let (Some(project), None) = (matching.next(), matching.next()) {
        return Ok(project.clone());
    }
    let shown = projects.iter().take(20);
    let names: Vec<String> =
        shown.map(|project| format!("{:?} ({})", project.name, project.id)).collect();
    anyhow::bail!("--project must be the name or id of one of: {}", names.join(", "));
}

async fn list(store: &Store, wanted: Option<&str>) -> anyhow::Result<()> {
    let project = project(store, wanted).await?;
    print_line(&format!("Key pairs of the project {:?} ({})", project.name, project.id));
    let now = SystemClock.now();
    for key in store.catalog.api_keys(&project.id).await? {
        let time = |at: Option<Timestamp>, none: &str| {
            at.map_or_else(|| none.to_owned(), |at| at.to_string())
        };
        let note = key.made.note.as_deref().unwrap_or_default();
        print_line(&format!("  {}  {}", key.made.public_key, printable(note).replace('\n', " ")));
        print_line(&format!("    scope      {}", key.made.rights.as_str()));
        let state = if key.is_valid(now) { "" } else { " (expired)" };
        print_line(&format!("    expires    {}{state}", time(key.made.expires_at, "never")));
        print_line(&format!("    last used  {}", time(key.last_used_at, "never")));
        if let Some(rotation) = &key.rotation {
            let verb = if rotation.previous_expires_at <= now { "ended at" } else { "until" };
            print_line(&format!(
                "    previous secret {verb} {}, last used {}",
                rotation.previous_expires_at,
                time(rotation.previous_last_used_at, "never")
            ));
        }
    }
    Ok(())
}

async fn create(
    store: &Store,
    wanted: Option<&str>,
    (scope, note, days): (Rights, String, Option<i64>),
) -> anyhow::Result<()> {
    let (project, now) = (project(store, wanted).await?, SystemClock.now());
    let expires_at = days.map(|days| now.plus_millis(days * 24 * HOUR_MS));
    let pair = KeyPair::random(&RandomIds);
    let mut key = pair.to_key(&RandomIds, Some(note), expires_at)?;
    key.rights = scope;
    let owner = KeyOwner::Project(project.id.clone());
    let create = store.catalog.create_key(&owner, &key, now);
    recorded_change(store, &owner, "perpend keys create", create).await?;
    print_line(&format!(
        "This key pair has the scope {} in the project {:?}. The secret is not shown again.",
        scope.as_str(),
        project.name
    ));
    print_line(&format!("  public key  {}", pair.public_key));
    print_line(&format!("  secret key  {}", pair.secret_key));
    Ok(())
}

async fn find(store: &Store, public_key: &str) -> anyhow::Result<ApiKey> {
    let found = match PublicKey::new(public_key) {
        Ok(id) => store.catalog.api_key(&id).await?,
        Err(_) => None,
    };
    found.ok_or_else(|| {
        anyhow::anyhow!(
            "no key pair has the public key {public_key:?}; `perpend keys list` lists them"
        )
    })
}

async fn rotate(store: &Store, public_key: &str, overlap_hours: u32) -> anyhow::Result<()> {
    let (key, now) = (find(store, public_key).await?, SystemClock.now());
    let pair = KeyPair::random(&RandomIds);
    let end = now.plus_millis(i64::from(overlap_hours) * HOUR_MS);
    let which = (&key.owner, key.made.id.as_str());
    let secret = pair.to_secret(&RandomIds);
    let rotate = store.catalog.rotate_key(which, &secret, end, now);
    recorded_change(store, &key.owner, "perpend keys rotate", rotate).await?;
    print_line("The key pair has a new secret, which is accepted from now on and not shown again.");
    print_line(&format!("  public key  {public_key}"));
    print_line(&format!("  secret key  {}", pair.secret_key));
    match overlap_hours {
        0 => print_delay("rejects the previous secret"),
        _ => print_line(&format!("The previous secret is accepted until {end}.")),
    }
    Ok(())
}

async fn revoke(store: &Store, public_key: &str) -> anyhow::Result<()> {
    let key = find(store, public_key).await?;
    let delete = async {
        match &key.owner {
            KeyOwner::Project(project) => store.catalog.delete_api_key(project, &key.made.id).await,
            KeyOwner::Organization(_) => {
                store.catalog.delete_organization_key(&key.made.public_key).await
            }
        }
    };
    recorded_change(store, &key.owner, "perpend keys revoke", delete).await?;
    print_line(&format!(
        "The key pair {public_key} was deleted. Its public key cannot be used again."
    ));
    print_delay("rejects it");
    Ok(())
}

/// The delay after which a running server has read a change.
fn print_delay(what: &str) {
    print_line(&format!("A running server {what} within {} seconds.", KEPT_MS / 1_000));
}

/// A hint if a changed pair is in the settings.
fn print_if_configured(config: &Config, public_key: &str, remedy: &str) {
    let init = &config.init;
    for (name, configured) in
        [("init.public_key", &init.public_key), ("init.org_public_key", &init.org_public_key)]
    {
        if configured.as_deref() == Some(public_key) {
            print_line(&format!("The pair is in the settings ({name}): {remedy}."));
        }
    }
}
