//! A component in the real host, compiled in this process, once for all tests.

use std::sync::{Arc, LazyLock};

use perpend_domain::payload::Payload;
use perpend_domain::plugin::{
    CallResult, Digest, EvaluationCall, Failure, Grants, Item, Limits, PluginInfo, PluginScore,
    Purpose,
};
use perpend_sandbox::{DenyAllPort, Host, Plugin, Port, Settings};
use serde_json::Value;
use tokio::runtime::Runtime;

use crate::kept;

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().unwrap());

/// A loaded component.
pub struct Guest {
    host: Arc<Host>,
    plugin: Arc<Plugin>,
    port: Arc<dyn Port>,
    /// Limits of its calls.
    pub limits: Limits,
}

/// An item with nothing but an id.
#[must_use]
pub fn item(id: &str) -> Item {
    Item { id: id.to_owned(), ..Item::default() }
}

/// An item with this text as its output.
#[must_use]
pub fn output(text: &str) -> Item {
    Item { output: Some(Payload::Text(text.to_owned())), ..item("item") }
}

impl Guest {
    /// Registers and loads a component; its host calls are refused.
    ///
    /// # Panics
    /// When the component is refused, with every problem.
    #[must_use]
    #[track_caller]
    pub fn new(component: &[u8]) -> Self {
        let cache = kept::compiled();
        let settings = Settings { max_live: 32, ..Settings::default() };
        let host = Arc::new(Host::new(&settings, &cache).unwrap());
        let digest = Digest::of(component);
        let turn = kept::turn(&digest.to_string());
        let plugin = host.load(digest).unwrap_or_else(|_| {
            if let Err(problems) = perpend_sandbox::compile(component, &cache, Grants::ALL) {
                let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
                panic!("the component is refused:\n{}", problems.join("\n"));
            }
            host.load(digest).unwrap()
        });
        drop(turn);
        Self {
            host,
            plugin: Arc::new(plugin),
            port: Arc::new(DenyAllPort),
            limits: Limits::default(),
        }
    }

    /// The same loaded component, its host calls answered by `port`.
    #[must_use]
    pub fn through(&self, port: Arc<dyn Port>) -> Self {
        Self {
            host: Arc::clone(&self.host),
            plugin: Arc::clone(&self.plugin),
            port,
            limits: self.limits,
        }
    }

    /// Its description.
    #[must_use]
    pub fn info(&self) -> &PluginInfo {
        self.plugin.info()
    }

    /// One call in a fresh instance.
    #[must_use]
    pub fn result(&self, evaluator: &str, config: &Value, item: &Item) -> CallResult {
        self.result_for(Purpose::Evaluate, evaluator, config, item)
    }

    /// The result of its `config-check` for a configuration.
    #[must_use]
    pub fn check_config(&self, evaluator: &str, config: &Value) -> CallResult {
        self.result_for(Purpose::CheckConfig, evaluator, config, &item("none"))
    }

    fn result_for(
        &self,
        purpose: Purpose,
        evaluator: &str,
        config: &Value,
        item: &Item,
    ) -> CallResult {
        let call = EvaluationCall {
            plugin: Digest::of(b""),
            evaluator_id: evaluator.into(),
            config: config.to_string().into(),
            item: Arc::new(item.clone()),
            seed: 7,
            run_time_ms: 1_700_000_000_000,
            limits: self.limits,
            purpose,
            origin: None,
        };
        let port = Arc::clone(&self.port);
        RUNTIME.block_on(self.host.evaluate(&self.plugin, call, port))
    }

    /// The scores of one call.
    ///
    /// # Panics
    /// When there are none, with the reason and the log.
    #[must_use]
    #[track_caller]
    pub fn scores(&self, evaluator: &str, config: &Value, item: &Item) -> Vec<PluginScore> {
        let result = self.result(evaluator, config, item);
        match result.outcome {
            Ok(scores) => scores,
            Err(failure) => panic!("{evaluator}: {failure:?}, log {:?}", result.log),
        }
    }

    /// Why one call gave no scores.
    ///
    /// # Panics
    /// When it gave some.
    #[must_use]
    #[track_caller]
    pub fn failure(&self, evaluator: &str, config: &Value, item: &Item) -> Failure {
        match self.result(evaluator, config, item).outcome {
            Ok(scores) => panic!("{evaluator}: {scores:?}"),
            Err(failure) => failure,
        }
    }
}
