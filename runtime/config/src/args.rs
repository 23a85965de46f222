//! The command line flags, derived from the table of settings.

use std::path::PathBuf;

use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};

use super::settings::SETTINGS;

/// `--config` and one flag per setting.
#[derive(Clone, Debug, Default)]
pub struct SettingArgs {
    /// The config file.
    pub file: Option<PathBuf>,
    /// Key and value of each flag that was given.
    pub given: Vec<(&'static str, String)>,
}

impl FromArgMatches for SettingArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut args = Self::default();
        args.update_from_arg_matches(matches)?;
        Ok(args)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.file = matches.get_one::<PathBuf>("config").cloned();
        self.given = SETTINGS
            .iter()
            .filter_map(|setting| {
                let value = matches.get_one::<String>(setting.key)?;
                Some((setting.key, value.clone()))
            })
            .collect();
        Ok(())
    }
}

impl Args for SettingArgs {
    fn augment_args(command: Command) -> Command {
        let file = Arg::new("config")
            .long("config")
            .value_name("FILE")
            .value_parser(clap::value_parser!(PathBuf))
            .help("TOML file with settings");
        SETTINGS.iter().fold(command.arg(file), |command, setting| {
            let default = match setting.default {
                "" => String::new(),
                default => format!(" [default: {default}]"),
            };
            let section = setting.key.split('.').next().unwrap_or_default();
            command.arg(
                Arg::new(setting.key)
                    .long(setting.flag())
                    .value_name("VALUE")
                    .help_heading(section)
                    .help(format!("{}{default}", setting.text.replace('`', ""))),
            )
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}
