//! `perpend secrets`: replaces a lost key of stored secrets.

use std::process::ExitCode;

use perpend_config::SettingArgs;
use perpend_db::DatabaseUrl;

use super::common::{load, print_line};
use super::{organization_key, serve};
use crate::RandomIds;
use crate::lock::Lock;
use crate::secrets::{self, ResetEffect};

pub(super) fn reset(settings: &SettingArgs, is_confirmed: bool) -> anyhow::Result<ExitCode> {
    let config = load(settings)?;
    let database = config.database();
    serve::runtime()?.block_on(async {
        let _lock = match &database {
            DatabaseUrl::Sqlite(path) if path.exists() => Some(Lock::take(path)?),
            _ => None,
        };
        let store = organization_key::open(&config).await?;
        let done = match secrets::preview(&store, &config).await {
            Ok(ResetEffect::Lost(_)) if is_confirmed => {
                let source = secrets::reset(&store, &config, &RandomIds).await;
                source.map(|source| {
                    print_line(&format!(
                        "Stored secrets are now encrypted with the key in {source}."
                    ));
                    print_line("Enter the lost secrets again.");
                    ExitCode::SUCCESS
                })
            }
            Ok(ResetEffect::Lost(lost)) => {
                print_lost(&lost);
                Ok(ExitCode::FAILURE)
            }
            Ok(ResetEffect::KeyMatches) => {
                print_line("The key matches this database. Nothing to reset.");
                Ok(ExitCode::SUCCESS)
            }
            Err(error) => Err(error),
        };
        store.close().await;
        done
    })
}

fn print_lost(lost: &[String]) {
    match lost {
        [] => print_line("The database has another key, but no stored secrets, so none is lost."),
        lost => {
            print_line(
                "Without the previous key, these secrets cannot be decrypted and must be entered again:",
            );
            for name in lost {
                print_line(&format!("  {name}"));
            }
            print_line("If you have a backup of secrets.key, restore it instead.");
        }
    }
    print_line(
        "Nothing was changed. To replace the key, stop all servers on this database and add --confirm.",
    );
}
