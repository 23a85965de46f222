//! Merges model parameters: those that the user set for the model, those of the request, then its `extra`. There are no
//! defaults.

use perpend_worker_protocol::host_call::CompletionRequest;
use serde_json::{Map, Value};

use crate::endpoint::{CallLimits, ModelSettings};
use crate::failure::{ErrorClass, Failure};

/// Members that would change the model, the credentials, the URL, the conversation, its tools or the form of the reply. One
/// list for all protocols, because no reserved name is harmless in another protocol. Google accepts two spellings of
/// each name.
const RESERVED: [&str; 31] = [
    "model",
    "messages",
    "input",
    "instructions",
    "contents",
    "content",
    "system",
    "systemInstruction",
    "system_instruction",
    "prompt",
    "previous_response_id",
    "conversation",
    "tools",
    "tool_choice",
    "toolConfig",
    "tool_config",
    "functions",
    "function_call",
    "mcp_servers",
    "stream",
    "stream_options",
    "background",
    "n",
    "candidateCount",
    "candidate_count",
    "best_of",
    "api_key",
    "apiKey",
    "base_url",
    "api_base",
    "deployment",
];
/// The only member whose members are also parameters; of Google.
const NESTED: &str = "generationConfig";

fn is_reserved(name: &str) -> bool {
    RESERVED.contains(&name)
}

/// Removes reserved names from a member of `extra`. `None` when the member itself is reserved.
fn allowed((name, mut value): (String, Value)) -> Option<(String, Value)> {
    if is_reserved(&name) {
        return None;
    }
    if name == NESTED
        && let Value::Object(members) = &mut value
    {
        members.retain(|name, _| !is_reserved(name));
    }
    Some((name, value))
}

/// Reduces the 64-bit seed of a plug-in to 31 bits, because some providers accept only signed 32-bit seeds. Consecutive seeds
/// remain different.
const fn accepted(seed: u64) -> u64 {
    seed & 0x7fff_ffff
}

/// Parameters in a form common to all protocols.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Params {
    pub(crate) temperature: Option<f64>,
    pub(crate) top_p: Option<f64>,
    pub(crate) max_tokens: Option<u32>,
    pub(crate) seed: Option<u64>,
    pub(crate) stop: Vec<String>,
    pub(crate) top_logprobs: Option<u8>,
    /// Sent unchanged.
    pub(crate) rest: Map<String, Value>,
    /// Whether the user set the seed. A seed of the request is omitted when the provider rejects it.
    pub(crate) is_seed_of_user: bool,
}

impl Params {
    /// The parameters by their common names, for records.
    pub(crate) fn to_map(&self) -> Map<String, Value> {
        let mut map = self.rest.clone();
        let known = [
            ("temperature", self.temperature.map(Value::from)),
            ("top_p", self.top_p.map(Value::from)),
            ("max_tokens", self.max_tokens.map(Value::from)),
            ("seed", self.seed.map(Value::from)),
            ("top_logprobs", self.top_logprobs.map(Value::from)),
        ];
        let set = known.into_iter().filter_map(|(name, value)| Some((name, value?)));
        map.extend(set.map(|(name, value)| (name.to_owned(), value)));
        if !self.stop.is_empty() {
            map.insert("stop".to_owned(), Value::from(self.stop.clone()));
        }
        map
    }

    pub(crate) fn new(
        choice: &ModelSettings,
        limits: &CallLimits,
        request: &CompletionRequest,
    ) -> Result<Self, Failure> {
        let mut params = Self::of_user(choice)?;
        params.temperature = request.temperature.map(exact).or(params.temperature);
        params.top_p = request.top_p.map(exact).or(params.top_p);
        params.max_tokens = request.max_output_tokens.or(params.max_tokens);
        params.max_tokens = match (params.max_tokens, limits.max_output_tokens) {
            (Some(requested), Some(limit)) => Some(requested.min(limit)),
            (requested, limit) => requested.or(limit),
        };
        if request.seed.is_some() {
            params.is_seed_of_user = false;
        }
        params.seed = request.seed.map(accepted).or(params.seed);
        if !request.stop.is_empty() {
            params.stop.clone_from(&request.stop);
        }
        params.top_logprobs = request.top_logprobs.filter(|n| 0 < *n);
        if let Some(extra) = &request.extra {
            let extra: Map<String, Value> = serde_json::from_str(extra).map_err(|_| {
                Failure::new(ErrorClass::InvalidInput, "`extra` must be a JSON object")
            })?;
            // The WIT contract drops reserved members of `extra`. Those of the user are errors.
            params.rest.extend(extra.into_iter().filter_map(allowed));
        }
        Ok(params)
    }

    /// The parameters of the user, for requests without parameters.
    pub(crate) fn of_user(choice: &ModelSettings) -> Result<Self, Failure> {
        let mut params = Self::default();
        for (name, value) in &choice.params {
            params.set(name, value)?;
        }
        Ok(params)
    }

    fn set(&mut self, name: &str, value: &Value) -> Result<(), Failure> {
        let invalid = |expected: &str| {
            let message = format!("the model parameter `{name}` must be {expected}");
            Failure::new(ErrorClass::ModelConfigInvalid, message)
        };
        if value.is_null() {
            return Ok(());
        }
        match name {
            "temperature" => {
                self.temperature = Some(value.as_f64().ok_or_else(|| invalid("a number"))?);
            }
            "top_p" => self.top_p = Some(value.as_f64().ok_or_else(|| invalid("a number"))?),
            "max_tokens" | "max_output_tokens" | "max_completion_tokens" => {
                let n = value.as_u64().and_then(|n| u32::try_from(n).ok());
                let n = n.filter(|n| 0 < *n);
                self.max_tokens = Some(n.ok_or_else(|| invalid("a positive integer"))?);
            }
            "seed" => {
                let seed = value.as_u64();
                self.seed = Some(seed.ok_or_else(|| invalid("a non-negative integer"))?);
                self.is_seed_of_user = true;
            }
            "stop" => {
                let one = value.as_str().map(|stop| vec![stop.to_owned()]);
                let many = || serde_json::from_value(value.clone()).ok();
                self.stop =
                    one.or_else(many).ok_or_else(|| invalid("a string or a list of strings"))?;
            }
            "providerOptions" => {
                let options = value.as_object().ok_or_else(|| invalid("an object"))?;
                for (name, value) in options {
                    self.pass(name, value)?;
                }
            }
            _ => self.pass(name, value)?,
        }
        Ok(())
    }

    fn pass(&mut self, name: &str, value: &Value) -> Result<(), Failure> {
        let nested = value.as_object().filter(|_| name == NESTED);
        let nested = nested.into_iter().flat_map(Map::keys).map(String::as_str);
        let mut names = std::iter::once(name).chain(nested);
        if let Some(name) = names.find(|name| is_reserved(name)) {
            let message = format!("the model parameter `{name}` cannot be set");
            return Err(Failure::new(ErrorClass::ModelConfigInvalid, message));
        }
        self.rest.insert(name.to_owned(), value.clone());
        Ok(())
    }
}

/// Converts 0.7 to 0.7 rather than 0.699999988079071.
fn exact(number: f32) -> f64 {
    number.to_string().parse().unwrap_or(f64::from(number))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn request() -> CompletionRequest {
        CompletionRequest::new(Vec::new())
    }

    fn choice(params: Value) -> ModelSettings {
        ModelSettings {
            model: "m".to_owned(),
            params: params.as_object().cloned().unwrap_or_default(),
        }
    }

    #[test]
    fn the_seed_of_a_plug_in_is_reduced_and_that_of_the_user_is_sent_unchanged() {
        let limits = CallLimits::default();
        let sent = |seed, params| {
            let request = CompletionRequest { seed, ..request() };
            Params::new(&choice(params), &limits, &request).unwrap().seed
        };
        let [one, next] =
            [u64::MAX, u64::MAX.wrapping_add(1)].map(|seed| sent(Some(seed), json!({})));
        assert_eq!((one, next), (Some(0x7fff_ffff), Some(0)));
        assert_eq!(sent(Some(5), json!({})), Some(5));
        let of_user = 1_u64 << 40;
        assert_eq!(sent(None, json!({ "seed": of_user })), Some(of_user));
    }

    #[test]
    fn there_are_no_default_parameters() {
        let limits = CallLimits::default();
        let params = Params::new(&choice(json!({})), &limits, &request()).unwrap();
        assert_eq!(params, Params::default());
    }

    #[test]
    fn parameters_of_the_request_override_those_of_the_model_and_limits_override_both() {
        let choice = choice(json!({
            "temperature": 1, "top_p": null, "max_tokens": 900, "stop": "x", "k": 1,
            "providerOptions": { "p": 2, "k": 3 },
        }));
        let request = CompletionRequest {
            temperature: Some(0.7),
            extra: Some(r#"{"p": 4, "model": "dearer", "api_key": "k"}"#.to_owned()),
            ..request()
        };
        let limits = CallLimits { max_output_tokens: Some(500), ..CallLimits::default() };
        let params = Params::new(&choice, &limits, &request).unwrap();
        assert_eq!(params.temperature, Some(0.7));
        assert_eq!(params.max_tokens, Some(500));
        assert_eq!(params.stop, ["x"]);
        assert_eq!(Value::from(params.rest), json!({ "k": 3, "p": 4 }));
    }

    #[test]
    fn the_error_for_an_invalid_parameter_of_the_user_names_it() {
        for (params, name) in [
            (json!({ "temperature": "warm" }), "temperature"),
            (json!({ "max_tokens": 0 }), "max_tokens"),
            (json!({ "messages": [] }), "messages"),
            (json!({ "providerOptions": { "stream": true } }), "stream"),
            (json!({ "generationConfig": { "topK": 3, "candidateCount": 9 } }), "candidateCount"),
        ] {
            let failure = Params::of_user(&choice(params)).unwrap_err();
            assert_eq!(failure.class, ErrorClass::ModelConfigInvalid);
            assert!(failure.message.contains(name), "{failure}");
        }
    }

    #[test]
    fn members_that_the_protocols_set_are_reserved() {
        for name in [
            // Chat completions, and Azure.
            "model",
            "messages",
            "tools",
            "tool_choice",
            "functions",
            "function_call",
            "stream",
            "n",
            // Responses.
            "input",
            "instructions",
            "previous_response_id",
            "conversation",
            // Anthropic.
            "system",
            "mcp_servers",
            // Google, with the content of an embedding.
            "contents",
            "content",
            "systemInstruction",
            "system_instruction",
            "toolConfig",
            "tool_config",
            "candidateCount",
            "candidate_count",
        ] {
            let failure = Params::of_user(&choice(json!({ (name): 1 }))).unwrap_err();
            assert_eq!(failure.class, ErrorClass::ModelConfigInvalid);
            assert_eq!(failure.message, format!("the model parameter `{name}` cannot be set"));
            let extra = json!({ (name): 1, "k": 2, "generationConfig": { (name): 3, "topK": 4 } });
            let request = CompletionRequest { extra: Some(extra.to_string()), ..request() };
            let none = choice(json!({}));
            let params = Params::new(&none, &CallLimits::default(), &request).unwrap();
            let expected = json!({ "k": 2, "generationConfig": { "topK": 4 } });
            assert_eq!(Value::from(params.rest), expected, "{name}");
        }
    }
}
