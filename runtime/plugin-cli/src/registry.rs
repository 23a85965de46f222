//! `push`, `list`, `show` and `rollback`: the registry of a server.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::error::Error;
use crate::report::Report;
use crate::text::{self, Table};
use crate::workbench::Component;
use perpend_domain::plugin::CONTRACT_VERSION;

const PLUGINS: &str = "/api/v1/plugins";
const ROLLBACK: &str = "/api/v1/plugins/rollback";

/// The response of a server.
#[derive(Clone, Debug)]
pub struct RemoteResponse {
    /// HTTP status.
    pub status: u16,
    /// The body; `null` when it is not JSON.
    pub body: Value,
}

/// The connection to a server.
pub trait Remote {
    /// The address, for messages.
    fn address(&self) -> &str;

    /// Sends a request; `body` is its media type and its bytes.
    ///
    /// # Errors
    /// The reason why there is no response.
    fn send(
        &self,
        method: &str,
        path: &str,
        body: Option<(&str, Vec<u8>)>,
    ) -> Result<RemoteResponse, String>;
}

/// The plug-ins of a server.
pub struct Registry<'r> {
    remote: &'r dyn Remote,
}

impl std::fmt::Debug for Registry<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Registry").field("address", &self.remote.address()).finish_non_exhaustive()
    }
}

impl<'r> Registry<'r> {
    /// The registry of `remote`.
    #[must_use]
    pub fn of(remote: &'r dyn Remote) -> Self {
        Self { remote }
    }

    fn send(
        &self,
        method: &str,
        path: &str,
        body: Option<(&str, Vec<u8>)>,
    ) -> Result<RemoteResponse, Error> {
        self.remote.send(method, path, body).map_err(|why| {
            Error::Server(format!(
                "no response from {}: {why}. Check that the server is running and that --server (or \
                 PERPEND_SERVER) is its address",
                self.remote.address()
            ))
        })
    }

    /// The body of a successful response.
    fn expect(&self, answer: RemoteResponse) -> Result<Value, Error> {
        if (200..300).contains(&answer.status) {
            return Ok(answer.body);
        }
        Err(Error::Server(refusal(self.remote.address(), &answer)))
    }

    /// Registers a component, unless the same bytes are already registered.
    ///
    /// # Errors
    /// When the server refuses it. Registered plug-ins are not changed in that case.
    pub fn push(&self, component: &Component) -> Result<Report, Error> {
        let digest = component.digest;
        let existing = self.send("GET", &format!("{PLUGINS}/{digest}"), None)?;
        if existing.status == 200 {
            return Ok(push_report(self.remote.address(), &existing.body, false));
        }
        if existing.status != 404 {
            self.expect(existing)?;
        }
        self.check_version(component)?;
        let body = ("application/wasm", component.bytes.clone());
        let answer = self.send("POST", PLUGINS, Some(body))?;
        let is_new = answer.status == 201;
        let entry = self.expect(answer)?;
        Ok(push_report(self.remote.address(), &entry, is_new))
    }

    /// Checks that the name and version are not in use, before the server compiles the component.
    fn check_version(&self, component: &Component) -> Result<(), Error> {
        let info = &component.info;
        let path = format!("{PLUGINS}?name={}", info.name);
        let answer = self.send("GET", &path, None)?;
        let body = self.expect(answer)?;
        let is_taken = |plugin: &&Value| {
            string(plugin, "name") == info.name && string(plugin, "version") == info.version
        };
        let Some(taken) = members(&body, "data").find(is_taken) else {
            return Ok(());
        };
        Err(Error::Server(format!(
            "{} {} is already registered at {} with other bytes (sha256:{}), and a registered version never changes; \
             nothing was sent. Give the plug-in a new version, build it and push it again",
            text::inert(&info.name),
            text::inert(&info.version),
            self.remote.address(),
            short(string(taken, "digest")),
        )))
    }

    /// The registered plug-ins.
    ///
    /// # Errors
    /// When the server refuses the request or does not respond.
    pub fn list(&self) -> Result<Report, Error> {
        let answer = self.send("GET", PLUGINS, None)?;
        let body = self.expect(answer)?;
        let mut table = Table::new(&["name", "version", "digest", "size", "evaluators"]);
        for plugin in members(&body, "data") {
            let ids: Vec<&str> = members(plugin, "evaluators").map(|e| string(e, "id")).collect();
            let size = plugin["sizeBytes"].as_u64().unwrap_or_default();
            table.row([
                string(plugin, "name").to_owned(),
                string(plugin, "version").to_owned(),
                short(string(plugin, "digest")),
                text::size(size),
                ids.join(", "),
            ]);
        }
        Ok(Report { text: table.render(), json: body, is_ok: true })
    }

    /// One plug-in: `vendor/name`, `vendor/name@version` or a digest or its prefix.
    ///
    /// # Errors
    /// When the plug-in is unknown.
    pub fn show(&self, reference: &str) -> Result<Report, Error> {
        let plugin = self.find(reference)?;
        let path = format!("{PLUGINS}/{}", string(&plugin, "digest"));
        let answer = self.send("GET", &path, None)?;
        let plugin = self.expect(answer)?;
        Ok(Report { text: render(&plugin), json: plugin, is_ok: true })
    }

    fn find(&self, reference: &str) -> Result<Value, Error> {
        let hex = reference.strip_prefix("sha256:").unwrap_or(reference);
        let (name, version) = match reference.split_once('@') {
            Some((name, version)) => (name, Some(version)),
            None => (reference, None),
        };
        let answer = self.send("GET", PLUGINS, None)?;
        let body = self.expect(answer)?;
        let is_hex = hex.len() >= 6 && hex.bytes().all(|b| b.is_ascii_hexdigit());
        let all: Vec<&Value> = members(&body, "data").collect();
        let found = all.iter().rfind(|plugin| {
            let is_named = string(plugin, "name") == name
                && version.is_none_or(|version| string(plugin, "version") == version);
            is_named || (is_hex && string(plugin, "digest").starts_with(hex))
        });
        found.map(|plugin| (*plugin).clone()).ok_or_else(|| {
            let mut names: Vec<String> = all
                .iter()
                .map(|plugin| format!("{}@{}", string(plugin, "name"), string(plugin, "version")))
                .collect();
            names.dedup();
            Error::Server(format!(
                "unknown plug-in {reference:?} at {}; the plug-ins are {}",
                self.remote.address(),
                names.join(", ")
            ))
        })
    }

    /// Changes the evaluators of a plug-in to its previous version, or to the version `to`.
    ///
    /// # Errors
    /// When the server refuses. No evaluator is changed in that case.
    pub fn rollback(&self, name: &str, to: Option<&str>, dry_run: bool) -> Result<Report, Error> {
        let body = json!({ "name": name, "to": to, "dryRun": dry_run });
        let body = ("application/json", body.to_string().into_bytes());
        let answer = self.send("POST", ROLLBACK, Some(body))?;
        let body = self.expect(answer)?;
        let mut table = Table::new(&["evaluator", "before", "after"]);
        let mut n_changed = 0;
        for change in members(&body, "data") {
            let side = |side: &str| {
                let side = &change[side];
                let version = side["evaluatorVersion"].as_u64();
                let number = version.map_or("next version".to_owned(), |n| format!("version {n}"));
                format!("{} ({number})", string(side, "pluginVersion"))
            };
            n_changed += 1;
            table.row([string(change, "name").to_owned(), side("before"), side("after")]);
        }
        let text = match (n_changed, dry_run) {
            (0, _) => format!("nothing to change: no evaluator uses another version of {name}\n"),
            (n, true) => {
                format!("{}\n{} would change\n", table.render(), text::pluralized(n, "evaluator"))
            }
            (n, false) => {
                format!("{}\n{} changed\n", table.render(), text::pluralized(n, "evaluator"))
            }
        };
        Ok(Report { text, json: body, is_ok: true })
    }
}

fn members<'v>(value: &'v Value, name: &str) -> impl Iterator<Item = &'v Value> {
    value[name].as_array().into_iter().flatten()
}

fn string<'v>(value: &'v Value, name: &str) -> &'v str {
    value[name].as_str().unwrap_or_default()
}

fn short(digest: &str) -> String {
    digest.chars().take(12).collect()
}

fn push_report(address: &str, entry: &Value, is_new: bool) -> Report {
    let name = format!("{}@{}", string(entry, "name"), string(entry, "version"));
    let digest = string(entry, "digest");
    let text = if is_new {
        format!("{name} is registered at {address}\n  sha256:{digest}\n")
    } else {
        format!("{name} is already registered, nothing was sent\n  sha256:{digest}\n")
    };
    Report {
        text: text::lines(&text),
        json: json!({ "isNew": is_new, "plugin": entry }),
        is_ok: true,
    }
}

fn render(plugin: &Value) -> String {
    let mut out = String::new();
    let line = |out: &mut String, name: &str, value: &str| {
        let _ = writeln!(out, "{name:<14}{}", text::inert(value));
    };
    let name = format!("{} {}", string(plugin, "name"), string(plugin, "version"));
    line(&mut out, "plug-in", &name);
    line(&mut out, "digest", &format!("sha256:{}", string(plugin, "digest")));
    line(&mut out, "description", string(plugin, "description"));
    line(&mut out, "registered", string(plugin, "createdAt"));
    let size = plugin["sizeBytes"].as_u64().unwrap_or_default();
    line(&mut out, "size", &text::size(size));
    let joined = |name: &str, of: &dyn Fn(&Value) -> String| {
        let parts: Vec<String> = members(plugin, name).map(of).collect();
        if parts.is_empty() { "none".to_owned() } else { parts.join(", ") }
    };
    let plain = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    line(&mut out, "capabilities", &joined("capabilities", &plain));
    let version = |value: &Value| {
        format!("{} ({})", string(value, "version"), short(string(value, "digest")))
    };
    line(&mut out, "versions", &joined("versions", &version));
    let user = |value: &Value| format!("{:?}", string(value, "name"));
    line(&mut out, "used by", &joined("users", &user));
    for evaluator in members(plugin, "evaluators") {
        let title = text::inert(string(evaluator, "title"));
        let _ = writeln!(out, "\n{}  {title}", string(evaluator, "id"));
        let needs: Vec<String> = members(evaluator, "needs").map(plain).collect();
        line(&mut out, "  needs", &needs.join(", "));
        let scores: Vec<&str> =
            members(evaluator, "scores").map(|score| string(score, "name")).collect();
        line(&mut out, "  scores", &scores.join(", "));
        let schema = format!("{:#}", evaluator["configSchema"]);
        for text in schema.lines() {
            let _ = writeln!(out, "    {}", text::inert(text));
        }
    }
    out
}

/// The error message of a refusal, with the details of the server and a remedy.
fn refusal(address: &str, answer: &RemoteResponse) -> String {
    let body = &answer.body;
    let message = [string(body, "detail"), string(body, "message"), string(body, "title")];
    let message = message.into_iter().find(|text| !text.is_empty());
    let mut out = match (answer.status, message) {
        (401, _) => {
            return format!(
                "{address} does not accept the key pair: set --public-key and --secret-key, or \
                 PERPEND_PUBLIC_KEY and PERPEND_SECRET_KEY"
            );
        }
        (_, Some(message)) => text::inert(message),
        (status, None) => {
            format!("{address} responded with status {status}; check that it is a Perpend server")
        }
    };
    let details = if body["details"].is_object() { &body["details"] } else { body };
    let offered = members(details, "contracts").filter_map(Value::as_str);
    let offered: Vec<&str> = offered.collect();
    if !offered.is_empty() && !offered.contains(&CONTRACT_VERSION) {
        let _ = write!(
            out,
            "\n  the server offers contract {}, this perpend builds for {CONTRACT_VERSION}: use the version of perpend \
             that the server has, or update the server",
            offered.join(", ")
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use perpend_domain::plugin::{Digest, Grants, PluginInfo};

    use super::*;

    /// Returns the responses in order, and records the requests.
    struct ScriptedRemote {
        responses: RefCell<Vec<RemoteResponse>>,
        requests: RefCell<Vec<String>>,
    }

    impl ScriptedRemote {
        fn new(answers: &[(u16, Value)]) -> Self {
            let answers = answers
                .iter()
                .rev()
                .map(|(status, body)| RemoteResponse { status: *status, body: body.clone() });
            Self { responses: RefCell::new(answers.collect()), requests: RefCell::default() }
        }
    }

    impl Remote for ScriptedRemote {
        fn address(&self) -> &str {
            "http://server"
        }

        fn send(
            &self,
            method: &str,
            path: &str,
            body: Option<(&str, Vec<u8>)>,
        ) -> Result<RemoteResponse, String> {
            let n_bytes = body.map_or(0, |(_, bytes)| bytes.len());
            self.requests.borrow_mut().push(format!("{method} {path} {n_bytes}"));
            self.responses.borrow_mut().pop().ok_or_else(|| "refused".to_owned())
        }
    }

    fn component() -> Component {
        Component {
            file: "plugin.wasm".to_owned(),
            bytes: b"bytes".to_vec(),
            digest: Digest::of(b"bytes"),
            info: PluginInfo {
                name: "acme/tone".to_owned(),
                version: "1.0.0".to_owned(),
                description: String::new(),
                evaluators: Vec::new(),
                capabilities: Grants::NONE,
                checks_config: false,
            },
        }
    }

    #[test]
    fn registered_bytes_are_not_sent_again() {
        let entry = json!({ "name": "acme/tone", "version": "1.0.0", "digest": "ab" });
        let remote = ScriptedRemote::new(&[(200, entry)]);
        let report = Registry::of(&remote).push(&component()).unwrap();
        assert!(report.text.contains("nothing was sent"), "{}", report.text);
        assert_eq!(remote.requests.borrow().len(), 1, "{:?}", remote.requests);
    }

    #[test]
    fn a_version_with_other_bytes_is_refused_before_the_component_is_sent() {
        let plugin = |version: &str| json!({ "name": "acme/tone", "version": version, "digest": "0123456789abcdef" });
        let missing = (404, json!({}));
        let taken = json!({ "data": [plugin("0.9.0"), plugin("1.0.0")] });
        let remote = ScriptedRemote::new(&[missing.clone(), (200, taken)]);
        let error = Registry::of(&remote).push(&component()).unwrap_err();
        for part in ["acme/tone 1.0.0", "http://server", "0123456789ab", "new version"] {
            assert!(error.to_string().contains(part), "{part}: {error}");
        }
        let requests = remote.requests.borrow();
        assert!(requests.iter().all(|each| each.starts_with("GET")), "{requests:?}");
        let free = json!({ "data": [plugin("0.9.0")] });
        let entry = plugin("1.0.0");
        let remote = ScriptedRemote::new(&[missing, (200, free), (201, entry)]);
        assert!(Registry::of(&remote).push(&component()).unwrap().is_ok);
    }

    #[test]
    fn a_refusal_has_the_message_of_the_server_and_a_wrong_key_names_the_settings() {
        let missing = (404, json!({ "detail": "no such plug-in" }));
        let refused = json!({ "detail": "acme/tone@1.0.0 stands for another component" });
        let none = json!({ "data": [] });
        let remote = ScriptedRemote::new(&[missing, (200, none), (409, refused)]);
        let error = Registry::of(&remote).push(&component()).unwrap_err();
        assert!(error.to_string().contains("another component"), "{error}");
        assert!(remote.requests.borrow()[2].ends_with("5"), "{:?}", remote.requests);
        let remote = ScriptedRemote::new(&[(401, json!({}))]);
        let error = Registry::of(&remote).list().unwrap_err().to_string();
        assert!(error.contains("PERPEND_SECRET_KEY"), "{error}");
        let remote = ScriptedRemote::new(&[]);
        let error = Registry::of(&remote).list().unwrap_err().to_string();
        assert!(error.contains("no response") && error.contains("--server"), "{error}");
    }

    #[test]
    fn a_plug_in_is_found_by_name_version_and_digest_prefix() {
        let data = json!({ "data": [
            { "name": "acme/tone", "version": "1.0.0", "digest": "abcdef0123" },
            { "name": "acme/tone", "version": "1.1.0", "digest": "ffffff0123" },
        ] });
        for (reference, version) in
            [("acme/tone", "1.1.0"), ("acme/tone@1.0.0", "1.0.0"), ("sha256:abcdef", "1.0.0")]
        {
            let remote = ScriptedRemote::new(&[(200, data.clone())]);
            let found = Registry::of(&remote).find(reference).unwrap();
            assert_eq!(found["version"], version, "{reference}");
        }
        let remote = ScriptedRemote::new(&[(200, data)]);
        let error = Registry::of(&remote).find("acme/none").unwrap_err().to_string();
        assert!(error.contains("acme/tone@1.1.0"), "{error}");
    }
}
