//! File descriptors: how many the process may have, and how many of them are for connections.
//!
//! A server that spends all of them on connections can open no file of its database. So a part is kept.

use perpend_config::Config;

/// Standard streams, the reactor, signals, the listener, the lock, a log, a connection that waits to be accepted,
/// and a few files and connections to other servers at a time.
const FOR_THE_PROCESS: usize = 24;
/// A connection of SQLite has the database, its log and the index of that open, and a temporary file at times.
const FOR_A_DATABASE_CONNECTION: usize = 3;
/// The database connections besides those that read: writing, and those of queries that are cut off.
const OTHER_DATABASE_CONNECTIONS: usize = 2;
/// A worker process has a socket and its error stream, and another one while it is replaced.
const FOR_A_WORKER: usize = 4;
/// A process that checks against a schema has three pipes, and another one while it is started.
const FOR_A_CHECK: usize = 4;
/// A server with fewer connections serves nobody: from here on the reserve gives way.
const MIN_CONNECTIONS: usize = 8;
/// The lowest limit of descriptors that was tried.
const LEAST: usize = 64;
/// Unless more are configured. An open connection costs memory, too.
const MAX_BY_DEFAULT: usize = 8_192;

/// Raises the limit of descriptors, and refuses one with which the server would start and answer nobody.
///
/// # Errors
/// When the limit is too low.
pub(crate) fn ensure(config: &Config) -> anyhow::Result<()> {
    let (limit, least) = (raised_limit(), least(config));
    anyhow::ensure!(
        least <= limit,
        "the process may open {limit} files, and this server needs at least {least}: raise the limit (ulimit -n, \
         LimitNOFILE), 1024 or more is recommended"
    );
    Ok(())
}

/// With fewer descriptors nothing can be served. Checks are left out: they wait for one another.
fn least(config: &Config) -> usize {
    let least = reserve(config) - perpend_worker_pool::MAX_CHECKS * FOR_A_CHECK + MIN_CONNECTIONS;
    least.max(LEAST)
}

/// Connections that may be open at a time. Raises the limit of descriptors first.
pub(crate) fn max_connections(config: &Config) -> usize {
    let limit = raised_limit();
    let n_connections = share(config, limit);
    let is_least = config.max_connections == 0 && n_connections == MIN_CONNECTIONS;
    if is_least || n_connections < config.max_connections {
        tracing::warn!(
            max_connections = n_connections,
            descriptors = limit,
            "the limit of open files leaves room for few connections: raise it (ulimit -n, LimitNOFILE)"
        );
    }
    n_connections
}

/// Descriptors for everything but connections of clients.
fn reserve(config: &Config) -> usize {
    let n_database = config.database_readers as usize + OTHER_DATABASE_CONNECTIONS;
    FOR_THE_PROCESS
        + n_database * FOR_A_DATABASE_CONNECTION
        + config.evaluation.n_workers * FOR_A_WORKER
        + perpend_worker_pool::MAX_CHECKS * FOR_A_CHECK
}

/// What of `limit` is for connections.
fn share(config: &Config, limit: usize) -> usize {
    let most = match config.max_connections {
        0 => MAX_BY_DEFAULT,
        configured => configured,
    };
    let possible = limit.saturating_sub(reserve(config)).max(MIN_CONNECTIONS);
    possible.min(most)
}

/// The limit of open files, after the soft one was raised to the hard one: the soft one is low for the sake of old
/// programs that use `select`.
#[cfg(unix)]
fn raised_limit() -> usize {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        let error: &dyn std::error::Error = &error;
        tracing::debug!(error, "the limit of open files stays as it is");
    }
    let current = getrlimit(Resource::Nofile).current;
    current.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX))
}

/// There is none.
#[cfg(not(unix))]
const fn raised_limit() -> usize {
    usize::MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_a_reserve_and_are_never_too_few_to_serve_anybody() {
        let mut config = Config::defaults().unwrap();
        config.evaluation.n_workers = 2;
        assert_eq!(share(&config, 1_024), 1_024 - 24 - 18 - 8 - 24);
        assert_eq!(share(&config, usize::MAX), MAX_BY_DEFAULT);
        assert_eq!(share(&config, 32), MIN_CONNECTIONS);
        config.max_connections = 20_000;
        assert_eq!(share(&config, usize::MAX), 20_000);
        assert_eq!(share(&config, 1_024), 950);
        config.max_connections = 1;
        assert_eq!(share(&config, 32), 1);
    }
}
