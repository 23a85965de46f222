//! A wall, and what the platform gave of it.

use perpend_worker_protocol::Wall;

/// What a process is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It runs evaluations.
    Worker,
    /// It compiles a component and asks it what it is.
    Compiler,
    /// It holds values against schemas.
    Checker,
}

/// A wall that is there.
pub(super) struct Given {
    /// How far it goes.
    pub(super) how: String,
    /// What of it the platform has not.
    pub(super) lacks: Option<String>,
}

impl From<String> for Given {
    fn from(how: String) -> Self {
        Self { how, lacks: None }
    }
}

pub(super) fn wall(name: &str, given: Result<impl Into<Given>, String>) -> Wall {
    let (given, lacks) = match given.map(Into::into) {
        Ok(Given { how, lacks }) => (Ok(how), lacks),
        Err(why) => (Err(why), None),
    };
    Wall { name: name.to_owned(), given, lacks }
}
