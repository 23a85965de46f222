//! `perpend secrets`: what to do when the key of stored secrets is lost.

use std::process::ExitCode;

use perpend_config::SettingArgs;
use perpend_db::DatabaseUrl;

use super::kit::{load, say};
use super::{organization_key, serve};
use crate::RandomIds;
use crate::lock::Lock;
use crate::secrets::{self, Reset};

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
            Ok(Reset::Lost(_)) if is_confirmed => {
                let place = secrets::reset(&store, &config, &RandomIds).await;
                place.map(|place| {
                    say(&format!(
                        "From now on stored secrets are encrypted with the key in {place}."
                    ));
                    say("Enter the lost ones again; everything else is as it was.");
                    ExitCode::SUCCESS
                })
            }
            Ok(Reset::Lost(lost)) => {
                warn_of(&lost);
                Ok(ExitCode::FAILURE)
            }
            Ok(Reset::Fits) => {
                say("The key fits this database: there is nothing to reset.");
                Ok(ExitCode::SUCCESS)
            }
            Err(error) => Err(error),
        };
        store.close().await;
        done
    })
}

fn warn_of(lost: &[String]) {
    match lost {
        [] => say(
            "The database was set up with another key, but no stored secret needs it: none is lost.",
        ),
        lost => {
            say(
                "Without the former key these secrets cannot be read any more and have to be entered again:",
            );
            for name in lost {
                say(&format!("  {name}"));
            }
            say("If there is a backup of secrets.key, restore it instead.");
        }
    }
    say(
        "Nothing was changed. To go on without the former key, stop every server on this database and add --confirm.",
    );
}
