//! Loads what a prompt includes, level by level.

use std::collections::HashMap;

use perpend_domain::ids::ProjectId;
use perpend_domain::prompt::compose::{ComposeError, ComposedPrompt, IncludedPrompt, compose};
use perpend_http_kit::problem::{Code, Problem};

use crate::state::App;

/// Prompts that one prompt may include in all, at every level.
const MAX_INCLUDED: usize = 500;

/// The prompt with everything it includes; none when it includes nothing.
///
/// # Errors
/// 400 when something included is missing, has messages, or goes in a circle or too deep.
pub(crate) async fn resolve(
    app: &App,
    project: &ProjectId,
    root: &IncludedPrompt,
) -> Result<Option<ComposedPrompt>, Problem> {
    let mut known = HashMap::new();
    loop {
        let missing = match compose(root, &known) {
            Ok(composed) => return Ok((!composed.included.is_empty()).then_some(composed)),
            Err(ComposeError::Needs(missing)) => missing,
            Err(error) => return Err(refused(error.to_string())),
        };
        if MAX_INCLUDED < known.len() + missing.len() {
            return Err(refused(format!("it includes more than {MAX_INCLUDED} other prompts")));
        }
        for reference in missing {
            let Some(part) = app.store.catalog.included_prompt(project, &reference).await? else {
                return Err(refused(format!("it includes {reference}, which does not exist")));
            };
            known.insert(reference, part);
        }
    }
}

fn refused(message: String) -> Problem {
    Problem::new(Code::InvalidRequest, format!("the prompt cannot be put together: {message}"))
}
