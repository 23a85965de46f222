//! Loads the prompts that a prompt includes, level by level.

use std::collections::HashMap;

use perpend_domain::ids::ProjectId;
use perpend_domain::prompt::compose::{ComposeError, ComposedPrompt, IncludedPrompt, compose};
use perpend_http_kit::problem::{Code, Problem};

use crate::state::App;

/// Most prompts that a prompt includes, over all levels.
const MAX_INCLUDED: usize = 500;

/// The prompt with its included prompts inserted; `None` when it includes none.
///
/// # Errors
/// 400 for an included prompt that does not exist or is a chat prompt, for a cycle, and for too many levels.
pub(crate) async fn resolve(
    app: &App,
    project: &ProjectId,
    root: &IncludedPrompt,
) -> Result<Option<ComposedPrompt>, Problem> {
    let mut loaded = HashMap::new();
    loop {
        let missing = match compose(root, &loaded) {
            Ok(composed) => return Ok((!composed.included.is_empty()).then_some(composed)),
            Err(ComposeError::Needs(missing)) => missing,
            Err(error) => return Err(refused(error.to_string())),
        };
        if MAX_INCLUDED < loaded.len() + missing.len() {
            return Err(refused(format!("it must include at most {MAX_INCLUDED} other prompts")));
        }
        for reference in missing {
            let Some(part) = app.store.catalog.included_prompt(project, &reference).await? else {
                return Err(refused(format!("it includes {reference}, which does not exist")));
            };
            loaded.insert(reference, part);
        }
    }
}

fn refused(message: String) -> Problem {
    Problem::new(Code::InvalidRequest, format!("the prompt cannot be resolved: {message}"))
}
