//! Stored replies for equal requests of a project (evaluation.md 3.7): their key, when they are read, and how they are
//! written.
//!
//! The key covers everything that determines a reply: the request, and the connection with its protocol and address. The
//! id of the connection is included because gateways select models by API key. API keys and header values are not
//! included: the stored replies of a connection are deleted when its headers change.

use perpend_domain::identity::canonical;
use perpend_domain::plugin::{CallOrigin, Digest, ReplyPolicy};
use perpend_domain::time::Timestamp;
use perpend_executions::StoredReply;
use perpend_llm::{Endpoint, ProviderAnswer, StructureMethod};
use perpend_worker_protocol::host_call::{CacheMode, CompletionRequest};
use serde_json::{Value, json};

use super::target::{ConnectedModels, llm_settings, slot_of};

/// Larger answers are not stored.
const MAX_BODY: usize = 1 << 20;
const LEVEL: i32 = 3;

/// The part of the cache key that does not depend on the connection.
pub(super) struct ReuseRequest {
    identity: Value,
    repeat: u32,
    reads: bool,
}

/// The cache key of a request to a connection, and whether a stored reply may be read.
pub(super) struct ReplyCacheKey {
    pub(super) key: Digest,
    pub(super) reads: bool,
}

/// Counts the repetitions of the request in the evaluation. `None` when a reply is neither read nor stored.
pub(super) fn reuse_request(
    origin: &CallOrigin,
    request: &CompletionRequest,
) -> Option<ReuseRequest> {
    let slot = slot_of(origin, request.slot.as_deref())?;
    let (choice, limits) = llm_settings(slot, slot.model.as_ref()?);
    let identity = perpend_llm::cache_key(&choice, &limits, request).ok()?;
    let provider = &slot.model.as_ref()?.provider;
    let counted = canonical(&json!([provider, identity]));
    // Counted in every mode, so that the number of later repetitions does not depend on the mode.
    let repeat = origin.notes.count_repeat(*Digest::of(counted.as_bytes()).as_bytes());
    let reads = match (request.cache, origin.reuse.replies) {
        (CacheMode::Bypass, _) | (_, ReplyPolicy::Isolated) => return None,
        (CacheMode::Refresh, _) | (_, ReplyPolicy::Refresh) => false,
        (CacheMode::Standard, ReplyPolicy::Any) => true,
        (CacheMode::Standard, ReplyPolicy::Deterministic) => identity["temperature"] == 0.0,
    };
    Some(ReuseRequest { identity, repeat, reads })
}

impl ReuseRequest {
    pub(super) fn of(self, origin: &CallOrigin, endpoint: &Endpoint) -> ReplyCacheKey {
        let mut header_names: Vec<&str> =
            endpoint.headers.iter().map(|(name, _)| name.as_str()).collect();
        header_names.sort_unstable();
        let connection = json!({
            "protocol": endpoint.protocol.name(),
            "responses": endpoint.use_responses_api,
            "connection": endpoint.connection_id,
            "base_url": endpoint.base_url,
            "api_version": endpoint.api_version,
            "config": endpoint.config,
            "header_names": header_names,
            "repeat": self.repeat,
            "run": origin.reuse.run,
        });
        let mut identity = self.identity;
        if let (Value::Object(identity), Value::Object(connection)) = (&mut identity, connection) {
            identity.extend(connection);
        }
        ReplyCacheKey { key: Digest::of(canonical(&identity).as_bytes()), reads: self.reads }
    }
}

impl ConnectedModels {
    /// The stored reply to an equal request. A failing database only causes a call of the provider.
    pub(super) async fn stored_reply(
        &self,
        origin: &CallOrigin,
        key: &Digest,
    ) -> Option<ProviderAnswer> {
        let since = self.stored_since()?;
        let ledger = &self.store.ledger;
        let found = ledger.stored_reply(&origin.context.project, key, since).await;
        let found = found
            .inspect_err(|error| {
                let error: &dyn std::error::Error = error;
                tracing::warn!(error, "cannot read a stored reply");
            })
            .ok()??;
        let body = zstd::bulk::decompress(&found.body, MAX_BODY).ok()?;
        Some(ProviderAnswer {
            method: StructureMethod::from_name(&found.method)?,
            body: String::from_utf8(body).ok()?,
            is_from_cache: true,
        })
    }

    /// Stores a usable reply. A failure is only logged, because the call already has the reply.
    pub(super) async fn store_reply(
        &self,
        origin: &CallOrigin,
        (key, connection): (&Digest, &str),
        answer: &ProviderAnswer,
    ) {
        if self.stored_since().is_none() || MAX_BODY < answer.body.len() {
            return;
        }
        let Ok(body) = zstd::bulk::compress(answer.body.as_bytes(), LEVEL) else {
            return;
        };
        let reply = StoredReply { method: answer.method.name().to_owned(), body };
        let (ledger, now) = (&self.store.ledger, self.clock.now());
        let stored = ledger.store_reply(&origin.context.project, (key, connection), &reply, now);
        if let Err(error) = stored.await {
            let error: &dyn std::error::Error = &error;
            tracing::warn!(error, "cannot store a reply");
        }
    }

    /// Replies stored before this time are not read. `None` when storing is disabled.
    fn stored_since(&self) -> Option<Timestamp> {
        let lifetime = self.reply_lifetime_ms;
        (0 < lifetime).then(|| self.clock.now().plus_millis(-lifetime))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use perpend_domain::ids::{EvaluatorId, EvaluatorVersionId, ProjectId};
    use perpend_domain::plugin::{EvaluatorContext, Grants, ReplyReuse};
    use perpend_domain::slots::{ModelChoice, Slot};
    use perpend_llm::{Protocol, Secret};
    use perpend_worker_protocol::host_call::{Message, Role};

    use super::*;

    fn slot(name: &str) -> Slot {
        let model = ModelChoice {
            provider: "main".to_owned(),
            model: "m".to_owned(),
            params: serde_json::Map::new(),
        };
        Slot { name: name.to_owned(), model: Some(model), limits: Default::default() }
    }

    fn origin(replies: ReplyPolicy, run: u32) -> CallOrigin {
        let context = Arc::new(EvaluatorContext {
            project: ProjectId::new("p").unwrap(),
            evaluator: EvaluatorId::new("e").unwrap(),
            version: EvaluatorVersionId::new("v").unwrap(),
            grants: Grants::ALL,
            slots: vec![slot("judge"), slot("judge-2")],
        });
        CallOrigin::new(&context, None).reusing(ReplyReuse { replies, run })
    }

    fn request(cache: CacheMode, temperature: Option<f32>) -> CompletionRequest {
        CompletionRequest {
            temperature,
            cache,
            ..CompletionRequest::new(vec![Message::text(Role::User, "q")])
        }
    }

    fn endpoint() -> Endpoint {
        Endpoint {
            connection_id: "c".to_owned(),
            saved_at: 0,
            provider: "main".to_owned(),
            protocol: Protocol::OpenAi,
            base_url: None,
            key: Secret::new("sk"),
            headers: Vec::new(),
            use_responses_api: false,
            api_version: None,
            max_in_flight: 8,
            config: None,
        }
    }

    #[test]
    fn the_run_sets_the_reply_policy_and_the_guest_can_only_restrict_it() {
        use CacheMode::{Bypass, Refresh, Standard};
        use ReplyPolicy::{Any, Deterministic, Isolated};
        // Whether the reply is read; `None` when it is not stored either.
        for (replies, cache, temperature, reads) in [
            (Deterministic, Standard, Some(0.0), Some(true)),
            (Deterministic, Standard, Some(0.1), Some(false)),
            (Deterministic, Standard, None, Some(false)),
            (Any, Standard, None, Some(true)),
            (Any, Standard, Some(1.0), Some(true)),
            (ReplyPolicy::Refresh, Standard, Some(0.0), Some(false)),
            (Isolated, Standard, Some(0.0), None),
            (Isolated, Refresh, Some(0.0), None),
            (Any, Refresh, Some(0.0), Some(false)),
            (Any, Bypass, Some(0.0), None),
            (ReplyPolicy::Refresh, Bypass, None, None),
        ] {
            let found = reuse_request(&origin(replies, 0), &request(cache, temperature));
            let found = found.map(|reuse_request| reuse_request.reads);
            assert_eq!(found, reads, "{replies:?} {cache:?} {temperature:?}");
        }
    }

    #[test]
    fn equal_requests_of_an_evaluation_have_different_keys_in_every_slot_and_mode() {
        let keys = |run| {
            let origin = origin(ReplyPolicy::Any, run);
            let key = |slot: Option<&str>, cache| {
                let mut request = request(cache, None);
                request.slot = slot.map(str::to_owned);
                let reuse_request = reuse_request(&origin, &request)?;
                Some(reuse_request.of(&origin, &endpoint()).key)
            };
            [
                key(None, CacheMode::Standard),
                key(Some("judge-2"), CacheMode::Bypass),
                key(Some("judge-2"), CacheMode::Refresh),
                key(Some("judge"), CacheMode::Standard),
            ]
        };
        let first = keys(0);
        assert_eq!(first[1], None);
        assert!(first[0] != first[2] && first[2] != first[3] && first[0] != first[3]);
        assert_eq!(keys(0), first, "each evaluation starts counting at zero");
        for (one, other) in first.iter().zip(keys(1)) {
            assert!(one.is_none() || *one != other, "different runs share no key");
        }
    }

    #[test]
    fn the_connection_is_part_of_the_key_and_secrets_are_not() {
        let key = |endpoint: &Endpoint| {
            let origin = origin(ReplyPolicy::Any, 0);
            let reuse_request =
                reuse_request(&origin, &request(CacheMode::Standard, None)).unwrap();
            reuse_request.of(&origin, endpoint).key
        };
        let plain = key(&endpoint());
        let changes: [fn(&mut Endpoint); 6] = [
            |it| it.connection_id.push('2'),
            |it| it.protocol = Protocol::Anthropic,
            |it| it.base_url = Some("https://gateway.example".to_owned()),
            |it| it.use_responses_api = true,
            |it| it.config = Some(json!({ "region": "x" })),
            |it| it.headers = vec![("x-route".to_owned(), Secret::new("a"))],
        ];
        for (n, change) in changes.into_iter().enumerate() {
            let mut other = endpoint();
            change(&mut other);
            assert_ne!(key(&other), plain, "change {n}");
        }
        let with = |key: &str, value: &str| Endpoint {
            key: Secret::new(key),
            headers: vec![("x-route".to_owned(), Secret::new(value))],
            ..endpoint()
        };
        assert_eq!(key(&with("sk-1", "a")), key(&with("sk-2", "b")));
    }
}
