//! The mistakes that are tried with each step before it is carried out.

use serde_json::{Value, json};

use super::script::{Caller, Request, Step};

/// Each with its name. They come before the step itself, and what one of them makes stays.
pub(crate) fn of(step: &Step, request: &Request) -> Vec<(String, Request)> {
    let mut all = Vec::new();
    let mut add = |name: &str, change: &dyn Fn(&mut Request)| {
        let mut wrong = request.clone();
        change(&mut wrong);
        all.push((name.to_owned(), wrong));
    };
    let callers: &[(&str, Caller)] = match step.caller {
        Caller::Project => &[
            ("nobody", Caller::Anyone),
            ("a public key", Caller::PublicKey),
            ("an organization", Caller::Organization),
            ("another project", Caller::Other),
        ],
        Caller::Organization => &[
            ("nobody", Caller::Anyone),
            ("a project", Caller::Project),
            ("another project", Caller::Other),
        ],
        Caller::PublicKey => &[("nobody", Caller::Anyone)],
        Caller::Other | Caller::Anyone => &[],
    };
    let callers = callers.iter().filter(|(_, caller)| !(step.makes && *caller == Caller::Other));
    for (name, caller) in callers {
        add(name, &|wrong| wrong.caller = *caller);
    }
    // A kept value is an id: the request with another id finds nothing.
    if let Some((before, rest)) = step.call.split_once("${") {
        let before = before.split_once(' ').map_or(before, |(_, path)| path);
        if let Some((_, after)) = rest.split_once('}')
            && !before.contains("${")
            && !after.contains("${")
        {
            let path = format!("{before}nothing-here{after}");
            add("an unknown id", &|wrong| wrong.path.clone_from(&path));
        }
    }
    if let Some((path, query)) = request.path.split_once('?') {
        let parameters: Vec<&str> = query.split('&').collect();
        for at in 0..parameters.len() {
            let mut wrong_query = parameters.clone();
            let name = parameters[at].split('=').next().unwrap_or_default();
            let given = format!("{name}=");
            // Of one that is given more than once the first is enough.
            if parameters[..at].iter().any(|other| other.starts_with(&given)) {
                continue;
            }
            let wrong_parameter = format!("{given}~");
            wrong_query[at] = &wrong_parameter;
            let path = format!("{path}?{}", wrong_query.join("&"));
            let name = format!("{name} is nonsense");
            add(&name, &|wrong| wrong.path.clone_from(&path));
        }
    }
    if request.media_type.as_deref() == Some("application/json") {
        add("no body", &|wrong| wrong.body = Vec::new());
        add("broken JSON", &|wrong| {
            wrong.body.truncate(wrong.body.len().saturating_sub(1));
        });
        add("a number", &|wrong| wrong.body = b"7".to_vec());
        // An empty object makes less than the body would.
        add("a text of another type", &|wrong| {
            wrong.media_type = Some("text/plain".to_owned());
            wrong.body = b"{}".to_vec();
        });
        if let Ok(Value::Object(members)) = serde_json::from_slice(&request.body) {
            add("an empty object", &|wrong| wrong.body = b"{}".to_vec());
            for (name, value) in &members {
                let mut members = members.clone();
                members.insert(name.clone(), of_another_type(value));
                let body = Value::Object(members).to_string().into_bytes();
                let name = format!("{name} of another type");
                add(&name, &|wrong| wrong.body.clone_from(&body));
            }
        }
    }
    all
}

fn of_another_type(value: &Value) -> Value {
    match value {
        Value::String(_) | Value::Object(_) | Value::Array(_) => json!(7),
        _ => json!({ "no": ["such"] }),
    }
}
