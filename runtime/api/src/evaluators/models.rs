//! Validation of the models of an evaluator.

use std::collections::HashMap;

use perpend_domain::evaluation::Fingerprint;
use perpend_domain::identity::fingerprint;
use perpend_domain::ids::ProjectId;
use perpend_domain::plugin::{Digest, EvaluatorInfo};
use perpend_domain::slots::{FingerprintSlot, ModelChoice, ModelLimits, Slot};
use perpend_http_kit::problem::{Code, Issue, Problem};
use serde_json::{Value, json};

use crate::state::App;

/// The slots of an evaluator, with the data for their resolution.
pub(super) struct Models {
    pub(super) slots: Vec<Slot>,
    default: Option<ModelChoice>,
    /// Protocols by provider.
    protocols: HashMap<String, String>,
}

impl Models {
    /// Validates the slots of an evaluator and adds absent required ones.
    ///
    /// # Errors
    /// For an unknown slot, a limit out of range, or a slot without a model.
    pub(super) async fn of(
        app: &App,
        project: &ProjectId,
        info: &EvaluatorInfo,
        mut slots: Vec<Slot>,
    ) -> Result<Self, Problem> {
        for (at, slot) in slots.iter().enumerate() {
            check_slot(info, at, slot)?;
            if slots[..at].iter().any(|other| other.name == slot.name) {
                let field = format!("slots[{at}].name");
                return Err(Problem::body(&field, "must be unique: another entry has this slot"));
            }
        }
        for declared in info.slots.iter().filter(|declared| declared.required) {
            if slots.iter().all(|slot| slot.name != declared.name) {
                slots.push(Slot {
                    name: declared.name.clone(),
                    model: None,
                    limits: ModelLimits::default(),
                });
            }
        }
        let mut models = Self { slots, default: None, protocols: HashMap::new() };
        if !models.slots.is_empty() {
            models.default = app.store.catalog.default_model(project).await?;
            models.protocols = app.store.catalog.protocols(project).await?;
        }
        models.check_resolved()?;
        Ok(models)
    }

    fn resolved<'m>(&'m self, slot: &'m Slot) -> Option<&'m ModelChoice> {
        slot.model.as_ref().or(self.default.as_ref())
    }

    /// Checks that each slot has a model and a connection.
    fn check_resolved(&self) -> Result<(), Problem> {
        for slot in &self.slots {
            let Some(choice) = self.resolved(slot) else {
                let message = "is required: the project has no default evaluation model; send \
                               modelConfig, or set it with PUT /api/v1/llm-connections/default-model";
                return Err(
                    Problem::new(Code::PreflightFailed, message).with("field", "modelConfig")
                );
            };
            if !self.protocols.contains_key(&choice.provider) {
                let message = format!(
                    "unknown LLM connection {:?}: create it with PUT /api/public/llm-connections",
                    choice.provider
                );
                let problem = Problem::new(Code::PreflightFailed, message);
                let problem = problem.with("provider", choice.provider.clone());
                return Err(problem.with("model", choice.model.clone()));
            }
        }
        Ok(())
    }

    /// The fingerprint of a version with these models.
    pub(super) fn fingerprint(
        &self,
        plugin: &Digest,
        evaluator: &str,
        config: &Value,
    ) -> Fingerprint {
        let slots = self.slots.iter().map(|slot| {
            let model = self.resolved(slot);
            let protocol = model.and_then(|choice| self.protocols.get(&choice.provider));
            FingerprintSlot {
                name: &slot.name,
                protocol: protocol.map(String::as_str),
                model,
                limits: slot.limits,
            }
        });
        fingerprint(plugin, evaluator, config, &slots.collect::<Vec<_>>())
    }
}

fn check_slot(info: &EvaluatorInfo, at: usize, slot: &Slot) -> Result<(), Problem> {
    let field = |member: &str| format!("slots[{at}].{member}");
    if info.slots.iter().all(|declared| declared.name != slot.name) {
        let names: Vec<&str> = info.slots.iter().map(|slot| slot.name.as_str()).collect();
        let message = format!("the evaluator {} has no slot {:?}", info.id, slot.name);
        let problem =
            Problem::issues(Code::Unprocessable, vec![Issue::new(&field("name"), message)]);
        return Err(problem.with("allowedValues", json!(names)));
    }
    if let Some(choice) = &slot.model {
        for (name, text) in [("provider", &choice.provider), ("model", &choice.model)] {
            if text.trim().is_empty() || 200 < text.chars().count() {
                let message = "must have 1 to 200 characters";
                return Err(Problem::body(&field(&format!("model.{name}")), message));
            }
        }
    }
    let limits = slot.limits;
    if !(1_000..=600_000).contains(&limits.timeout_ms) {
        let message = format!("must be from 1000 to 600000, got {}", limits.timeout_ms);
        return Err(Problem::body(&field("limits.timeoutMs"), message));
    }
    if 5 < limits.reasks {
        let message = format!("must be from 0 to 5, got {}", limits.reasks);
        return Err(Problem::body(&field("limits.reasks"), message));
    }
    for (name, limit) in
        [("maxInputTokens", limits.max_input_tokens), ("maxOutputTokens", limits.max_output_tokens)]
    {
        if limit == Some(0) {
            let field = field(&format!("limits.{name}"));
            return Err(Problem::body(&field, "must be at least 1, got 0"));
        }
    }
    if limits.max_usd.is_some_and(|usd| usd <= 0.0) {
        let message = "must be greater than 0";
        return Err(Problem::body(&field("limits.maxUsd"), message));
    }
    Ok(())
}
