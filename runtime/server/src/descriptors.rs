//! The limit of open files and the share of it for client connections.
//!
//! Some descriptors are reserved, so that connections cannot prevent the server from opening its database.

use perpend_config::Config;

/// Standard streams, the reactor, signals, the listener, the lock, a log, a connection to be accepted, and a few temporary files
/// and outgoing connections.
const PER_PROCESS: usize = 24;
/// A SQLite connection opens the database, its WAL and the index of the WAL, and sometimes a temporary file.
const PER_DATABASE_CONNECTION: usize = 3;
/// Database connections other than readers: the writer, and one for cancelled queries.
const OTHER_DATABASE_CONNECTIONS: usize = 2;
/// A worker process has a socket and an error stream, and its replacement has the same.
const PER_WORKER: usize = 4;
/// A schema check process has three pipes, and one more while it starts.
const PER_CHECK: usize = 4;
/// Connections that are always allowed, even at the expense of the reserve.
const MIN_CONNECTIONS: usize = 8;
/// The lowest tested limit of descriptors.
const MIN_DESCRIPTORS: usize = 64;
/// Default limit of connections, because each one uses memory.
const DEFAULT_MAX_CONNECTIONS: usize = 8_192;

/// Raises the limit of descriptors.
///
/// # Errors
/// If the limit is too low to serve requests.
pub(crate) fn ensure(config: &Config) -> anyhow::Result<()> {
    let (limit, required) = (raise_limit(), required(config));
    anyhow::ensure!(
        required <= limit,
        "the limit of open files must be at least {required}, got {limit}; raise it (ulimit -n, LimitNOFILE), 1024 or more is \
         recommended"
    );
    Ok(())
}

/// The minimum number of descriptors. Schema checks are not included, because they can wait.
fn required(config: &Config) -> usize {
    let required = reserve(config) - perpend_worker_pool::MAX_CHECKS * PER_CHECK + MIN_CONNECTIONS;
    required.max(MIN_DESCRIPTORS)
}

/// The maximum number of open connections. Raises the limit of descriptors first.
pub(crate) fn max_connections(config: &Config) -> usize {
    let limit = raise_limit();
    let n_connections = share(config, limit);
    let is_minimum = config.max_connections == 0 && n_connections == MIN_CONNECTIONS;
    if is_minimum || n_connections < config.max_connections {
        tracing::warn!(
            max_connections = n_connections,
            descriptors = limit,
            "the limit of open files allows only a few connections; raise it (ulimit -n, LimitNOFILE)"
        );
    }
    n_connections
}

/// Descriptors that are not for client connections.
fn reserve(config: &Config) -> usize {
    let n_database = config.database_readers as usize + OTHER_DATABASE_CONNECTIONS;
    PER_PROCESS
        + n_database * PER_DATABASE_CONNECTION
        + config.evaluation.n_workers * PER_WORKER
        + perpend_worker_pool::MAX_CHECKS * PER_CHECK
}

/// The number of connections within `limit`.
fn share(config: &Config, limit: usize) -> usize {
    let most = match config.max_connections {
        0 => DEFAULT_MAX_CONNECTIONS,
        configured => configured,
    };
    let possible = limit.saturating_sub(reserve(config)).max(MIN_CONNECTIONS);
    possible.min(most)
}

/// Raises the soft limit of open files to the hard limit and returns it. The soft limit is low only for programs that use
/// `select`.
#[cfg(unix)]
fn raise_limit() -> usize {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        let error: &dyn std::error::Error = &error;
        tracing::debug!(error, "raising the limit of open files failed");
    }
    let current = getrlimit(Resource::Nofile).current;
    current.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX))
}

/// Other systems have no limit.
#[cfg(not(unix))]
const fn raise_limit() -> usize {
    usize::MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_a_reserve_and_have_a_minimum() {
        let mut config = Config::defaults().unwrap();
        config.evaluation.n_workers = 2;
        assert_eq!(share(&config, 1_024), 1_024 - 24 - 18 - 8 - 24);
        assert_eq!(share(&config, usize::MAX), DEFAULT_MAX_CONNECTIONS);
        assert_eq!(share(&config, 32), MIN_CONNECTIONS);
        config.max_connections = 20_000;
        assert_eq!(share(&config, usize::MAX), 20_000);
        assert_eq!(share(&config, 1_024), 950);
        config.max_connections = 1;
        assert_eq!(share(&config, 32), 1);
    }
}
