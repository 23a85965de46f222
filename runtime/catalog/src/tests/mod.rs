//! Guarantees of the catalog, on each database; this module has the shared fixtures.

mod access;
mod accounts;
mod audit;
mod organizations;
mod plugins;
mod rules;

use perpend_domain::evaluation::{
    Assignment, Evaluator, LatePolicy, Mapping, OnMissing, Pause, Rule, TargetKind, Timing,
    VersionPolicy,
};
use perpend_domain::filter::WrittenFilter;
use perpend_domain::ids::{
    AssignmentId, EvaluatorId, EvaluatorVersionId, OrganizationId, ProjectId, PublicKey, RuleId,
};
use perpend_domain::plugin::{Digest, EvaluatorInfo, Grants, ItemParts, PluginInfo};
use perpend_domain::time::Timestamp;
use serde_json::json;

use super::{
    Init, KeyOwner, KeyPatch, MAX_ACTIVE_RULES, NewApiKey, NewEvaluator, NewSecret, NewVersion,
    Rights, RulePatch, SecretHash, Successor,
};
use crate::Error;
use crate::testing::Store;
use crate::testing::on_each_database;

pub(super) fn project(name: &str) -> ProjectId {
    ProjectId::new(name).unwrap()
}

pub(super) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis(1_760_000_000_000 + 1_000 * seconds)
}

pub(super) fn init(n: u8, key: &str) -> Init {
    Init {
        organization_id: OrganizationId::new(&format!("org-{n}")).unwrap(),
        organization_name: "Acme".to_owned(),
        project_id: project(&format!("project-{n}")),
        project_name: "Support bot".to_owned(),
        key: key_of(n, key),
    }
}

pub(super) fn key_of(n: u8, public_key: &str) -> NewApiKey {
    NewApiKey {
        id: format!("key-{n}"),
        public_key: PublicKey::new(public_key).unwrap(),
        secret_hash: SecretHash::new("any secret: even ünïcode", [n; 16]),
        secret_hint: "any…code".to_owned(),
        rights: Rights::Full,
        note: None,
        expires_at: None,
    }
}

pub(super) fn info(name: &str, version: &str) -> PluginInfo {
    PluginInfo {
        name: name.to_owned(),
        version: version.to_owned(),
        description: "for tests".to_owned(),
        evaluators: vec![EvaluatorInfo {
            id: "exact-match".to_owned(),
            title: "Exact match".to_owned(),
            description: String::new(),
            config_schema: "{}".to_owned(),
            needs: ItemParts::default(),
            slots: Vec::new(),
            scores: Vec::new(),
            dynamic_scores: true,
            deterministic: true,
        }],
        capabilities: Grants::NONE,
        checks_config: false,
    }
}

pub(super) fn version(id: &str) -> NewVersion {
    NewVersion {
        slots: Vec::new(),
        id: EvaluatorVersionId::new(id).unwrap(),
        plugin: Digest::of(b"component"),
        plugin_name: "perpend/text".to_owned(),
        plugin_version: "0.1.0".to_owned(),
        plugin_evaluator: "exact-match".to_owned(),
        config: json!({"z": 1, "a": [true, null]}),
        mapping: vec![mapping("output")],
        grants: Grants { model: true, ..Grants::NONE },
        fingerprint: Digest::of(id.as_bytes()),
    }
}

pub(super) fn mapping(variable: &str) -> Mapping {
    Mapping {
        variable: variable.to_owned(),
        source: "output".to_owned(),
        json_path: Some("$.answer".to_owned()),
    }
}

pub(super) fn evaluator_id(id: &str) -> EvaluatorId {
    EvaluatorId::new(id).unwrap()
}

pub(super) async fn evaluator(
    store: &Store,
    project: &ProjectId,
    id: &str,
    now: Timestamp,
) -> Evaluator {
    let text = info("perpend/text", "0.1.0");
    let digest = store.catalog.put_plugin(None, &text, b"component", now).await;
    assert_eq!(digest.unwrap(), version(id).plugin);
    let new = NewEvaluator {
        id: evaluator_id(id),
        name: "exact".to_owned(),
        description: None,
        version: version(&format!("{id}-v1")),
    };
    store.catalog.create_evaluator(project, &new, now).await.unwrap()
}

pub(super) fn rule(id: &str, evaluators: &[&str], now: Timestamp) -> Rule {
    Rule {
        id: RuleId::new(id).unwrap(),
        name: format!("rule {id}"),
        target: TargetKind::Observation,
        enabled: !evaluators.is_empty(),
        paused: None,
        sampling: 0.25,
        sampling_independent: true,
        filter: WrittenFilter::parse(
            vec![json!({"type": "string", "column": "name", "operator": "=", "value": "a"})],
            TargetKind::Observation.filter_columns(),
        )
        .unwrap(),
        assignments: evaluators.iter().map(|e| assignment(e)).collect(),
        schedule: None,
        timing: Timing { settle_ms: Some(5), ..Timing::default() },
        on_missing: OnMissing::Skip,
        late: LatePolicy::Rescore,
        budget: Vec::new(),
        after: Vec::new(),
        audit: 0.0,
        created_at: now,
        updated_at: now,
    }
}

pub(super) fn assignment(evaluator: &str) -> Assignment {
    Assignment {
        id: AssignmentId::new(&format!("with {evaluator}")).unwrap(),
        evaluator_id: evaluator_id(evaluator),
        mapping: Some(vec![mapping("input")]),
        version: VersionPolicy::Latest,
        skipped_until: None,
    }
}

pub(super) fn pause(reason: &str) -> Pause {
    Pause { reason: reason.to_owned(), message: "it fails".to_owned(), at: at(50), until: None }
}
