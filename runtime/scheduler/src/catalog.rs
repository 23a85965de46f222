//! Cache of rules and evaluators in the form in which the engine applies them, valid until the catalog
//! changes.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use perpend_db::Error;
use perpend_domain::chain::{ChainRule, RuleChains};
use perpend_domain::evaluation::{
    Assignment, Evaluator, Lane, Mapping, Pause, Rule, ScoreNaming, TargetKind,
};
use perpend_domain::filter::{Filter, SCORE_COLUMNS, WrittenFilter};
use perpend_domain::identity::fingerprint;
use perpend_domain::ids::{AssignmentId, EvaluatorId, ProjectId, RuleId};
use perpend_domain::mapping::{self, MappingPlan};
use perpend_domain::observation::Observation;
use perpend_domain::plugin::{EvaluatorContext, ItemParts};
use perpend_domain::slots::FingerprintSlot;
use perpend_domain::time::Timestamp;
use perpend_storage::Store;
use tokio::sync::Mutex;

/// Columns of an observation whose values come from its trace.
const OF_TRACE: [&str; 4] = ["traceName", "userId", "sessionId", "tags"];

/// Columns of an observation whose values come from its span or from the link of a run.
pub(crate) const OF_EXPERIMENT: [&str; 3] =
    ["experimentId", "datasetId", "isExperimentItemRootSpan"];

/// A rule with compiled mappings.
#[derive(Debug)]
pub struct PreparedRule {
    pub(crate) rule: Rule,
    pub(crate) assignments: Vec<PreparedAssignment>,
    /// Whether the filter reads metadata, which is stored in the content.
    pub(crate) reads_content: bool,
    /// Whether the filter of an observation rule reads the trace.
    pub(crate) reads_trace: bool,
    /// Whether it is an observation rule that reads the experiment attributes, which a link sets too.
    pub(crate) reads_experiment: bool,
}

impl PreparedRule {
    /// A rule that refuses every target without evaluating its filter.
    fn disabled(rule: Rule) -> Self {
        Self {
            rule: Rule {
                enabled: false,
                filter: WrittenFilter::default(),
                assignments: Vec::new(),
                after: Vec::new(),
                ..rule
            },
            assignments: Vec::new(),
            reads_content: false,
            reads_trace: false,
            reads_experiment: false,
        }
    }

    /// The filter of its targets.
    pub(crate) const fn filter(&self) -> &Filter {
        self.rule.filter.filter()
    }

    /// Whether its filter reads scores.
    pub(crate) fn reads_scores(&self) -> bool {
        self.filter().reads(&SCORE_COLUMNS)
    }

    /// Whether the filter of an observation rule reads more than the observation.
    pub(crate) fn reads_more_than_observation(&self) -> bool {
        self.reads_trace || self.reads_scores()
    }

    /// Whether the rule uses this evaluator, or this shadow version of it.
    pub(crate) fn uses(&self, evaluator: &EvaluatorId, shadow: Option<u32>) -> bool {
        let mut assignments = self.rule.assignments.iter();
        assignments.any(|each| {
            each.evaluator_id == *evaluator && (shadow.is_none() || each.version.shadow() == shadow)
        })
    }

    /// The assignment of this evaluator: with the live version, or with this shadow version.
    pub(crate) fn assignment(
        &self,
        evaluator: &EvaluatorId,
        shadow: Option<u32>,
    ) -> Option<&PreparedAssignment> {
        let mut assignments = self.assignments.iter();
        assignments.find(|each| each.evaluator.id() == evaluator && each.shadow == shadow)
    }

    /// Whether the filter reads values that only the trace of this observation has.
    pub(crate) fn waits_for_trace(&self, own: &Observation) -> bool {
        let filter = self.filter();
        self.reads_trace
            && (filter.reads(&["traceName", "tags"])
                || (own.user_id.is_none() && filter.reads(&["userId"]))
                || (own.session_id.is_none() && filter.reads(&["sessionId"])))
    }
}

/// The pause that keeps an evaluator of a rule from running.
pub(crate) fn pause_of<'r>(rule: &'r PreparedRule, evaluator: &EvaluatorId) -> Option<&'r Pause> {
    let used = rule.assignment(evaluator, None);
    let of_evaluator = used.and_then(|each| each.evaluator.evaluator.paused.as_ref());
    rule.rule.paused.as_ref().or(of_evaluator)
}

/// One version of an evaluator in a rule.
#[derive(Debug)]
pub(crate) struct PreparedAssignment {
    pub(crate) id: AssignmentId,
    pub(crate) evaluator: Arc<PreparedEvaluator>,
    /// The number of the version, if it is a shadow version.
    pub(crate) shadow: Option<u32>,
    /// A mapping is checked when it is saved. The error text is for users.
    pub(crate) plan: Result<MappingPlan, String>,
    /// Earlier targets are skipped because a budget is exhausted.
    pub(crate) skipped_until: Option<Timestamp>,
}

#[derive(Debug)]
pub(crate) struct PreparedEvaluator {
    pub(crate) evaluator: Evaluator,
    pub(crate) plugin_evaluator: Arc<str>,
    pub(crate) config: Arc<str>,
    pub(crate) needs: ItemParts,
    pub(crate) naming: ScoreNaming,
    /// The principal of its calls.
    pub(crate) context: Arc<EvaluatorContext>,
}

impl PreparedEvaluator {
    pub(crate) const fn id(&self) -> &EvaluatorId {
        &self.evaluator.id
    }

    /// The lane of its calls: evaluators that may call a model have their own.
    pub(crate) fn lane(&self) -> Lane {
        match self.context.grants.model {
            true => Lane::Model,
            false => Lane::Code,
        }
    }

    /// Whether it is paused in the mode that refuses targets.
    pub(crate) fn refuses(&self, now: Timestamp) -> bool {
        let paused = self.evaluator.paused.as_ref();
        paused.is_some_and(|pause| pause.refuses(now))
    }
}

/// All enabled rules, and the part of disabled rules that is needed to count refusals.
#[derive(Debug, Default)]
pub(crate) struct Catalog {
    revision: i64,
    is_consistent: bool,
    /// In dependency order: a rule comes after the rules it waits for.
    rules: HashMap<ProjectId, Vec<Arc<PreparedRule>>>,
    awaited: HashSet<RuleId>,
}

impl Catalog {
    /// Rules that other rules wait for.
    pub(crate) const fn awaited(&self) -> &HashSet<RuleId> {
        &self.awaited
    }

    /// The revision of the stored catalog.
    pub(crate) const fn revision(&self) -> i64 {
        self.revision
    }

    /// Whether all parts were read at the same revision.
    pub(crate) const fn is_consistent(&self) -> bool {
        self.is_consistent
    }

    /// The enabled rules of all projects.
    pub(crate) fn enabled(&self) -> impl Iterator<Item = (&ProjectId, &Arc<PreparedRule>)> {
        let rules = self.rules.iter();
        let rules =
            rules.flat_map(|(project, rules)| rules.iter().map(move |rule| (project, rule)));
        rules.filter(|(_, rule)| rule.rule.enabled)
    }

    /// Evaluators by rule, without paused rules and evaluators.
    pub(crate) fn running(&self) -> BTreeSet<(&ProjectId, &RuleId, &EvaluatorId)> {
        let rules = self.enabled();
        let running = rules.flat_map(|(project, rule)| {
            let assignments = rule.assignments.iter();
            let evaluators = assignments.map(|each| each.evaluator.id());
            let evaluators = evaluators.filter(|evaluator| pause_of(rule, evaluator).is_none());
            evaluators.map(move |evaluator| (project, &rule.rule.id, evaluator))
        });
        running.collect()
    }

    /// Whether a rule with an open circuit breaker has a due probe.
    pub(crate) fn has_probes(&self, now: Timestamp) -> bool {
        let mut rules = self.rules.values().flatten();
        rules.any(|rule| {
            let paused = rule.rule.paused.as_ref();
            paused.is_some_and(|pause| pause.is_probing(now))
        })
    }

    /// When the first pause or the first skip for a budget ends.
    pub(crate) fn next_end(&self) -> Option<Timestamp> {
        let rules = self.rules.values().flatten();
        let ends = rules.flat_map(|rule| {
            let of_assignments = rule.assignments.iter().flat_map(|each| {
                let paused = each.evaluator.evaluator.paused.as_ref();
                [paused.and_then(|pause| pause.until), each.skipped_until]
            });
            let own = rule.rule.paused.as_ref();
            let own = own.filter(|pause| !pause.is_breaker());
            let own = own.and_then(|pause| pause.until);
            of_assignments.chain([own]).flatten()
        });
        ends.min()
    }

    /// Rules of a project whose targets are single observations, including disabled ones.
    pub(crate) fn observation_rules(&self, project: &ProjectId) -> Vec<&Arc<PreparedRule>> {
        let rules = self.rules.get(project).into_iter().flatten();
        let is_wanted = |rule: &&Arc<PreparedRule>| rule.rule.target.is_of_observations();
        rules.filter(is_wanted).collect()
    }

    /// Rules of a project whose targets are whole traces or whole sessions, including disabled ones.
    pub(crate) fn rules_of(
        &self,
        project: &ProjectId,
        kind: TargetKind,
    ) -> Vec<&Arc<PreparedRule>> {
        let rules = self.rules.get(project).into_iter().flatten();
        let is_wanted = |rule: &&Arc<PreparedRule>| rule.rule.target == kind;
        rules.filter(is_wanted).collect()
    }

    /// All rules of a project, including disabled ones.
    pub(crate) fn all_rules(&self, project: &ProjectId) -> Vec<&Arc<PreparedRule>> {
        self.rules.get(project).into_iter().flatten().collect()
    }

    /// Whether a project has rules of runs.
    pub(crate) fn has_run_rules(&self, project: &ProjectId) -> bool {
        let mut rules = self.rules.get(project).into_iter().flatten();
        rules.any(|rule| rule.rule.target == TargetKind::Run)
    }

    /// Whether a project has rules whose targets consist of several observations.
    pub(crate) fn has_whole_rules(&self, project: &ProjectId) -> bool {
        let mut rules = self.rules.get(project).into_iter().flatten();
        rules.any(|rule| !rule.rule.target.is_of_observations())
    }

    /// Enabled rules of a project whose targets are parts of targets of this kind.
    pub(crate) fn rules_of_parts(
        &self,
        project: &ProjectId,
        kind: TargetKind,
    ) -> Vec<&Arc<PreparedRule>> {
        let rules = self.rules.get(project).into_iter().flatten();
        let is_wanted =
            |rule: &&Arc<PreparedRule>| rule.rule.enabled && rule.rule.target.size() < kind.size();
        rules.filter(is_wanted).collect()
    }

    /// An enabled rule.
    pub(crate) fn rule(&self, project: &ProjectId, id: &RuleId) -> Option<&Arc<PreparedRule>> {
        let mut rules = self.rules.get(project)?.iter();
        rules.find(|rule| rule.rule.enabled && rule.rule.id == *id)
    }
}

/// The catalog of the last check of its revision.
#[derive(Debug, Default)]
pub(crate) struct CatalogCache(Mutex<Option<Arc<Catalog>>>);

impl CatalogCache {
    /// The current catalog.
    pub(crate) async fn current(&self, store: &Store) -> Result<Arc<Catalog>, Error> {
        let mut cached = self.0.lock().await;
        let revision = store.catalog.catalog_revision().await?;
        if let Some(catalog) = &*cached
            && catalog.revision == revision
        {
            return Ok(Arc::clone(catalog));
        }
        let catalog = Arc::new(load(store).await?);
        *cached = Some(Arc::clone(&catalog));
        Ok(catalog)
    }
}

async fn load(store: &Store) -> Result<Catalog, Error> {
    let active = store.catalog.active_rules().await?;
    let mut evaluators = HashMap::new();
    let mut newest = HashMap::new();
    for (project, evaluator) in &active.evaluators {
        newest.insert((project.clone(), evaluator.id.clone()), evaluator.version.number);
    }
    for (project, evaluator) in active.evaluators.into_iter().chain(active.older) {
        let key = (project.clone(), evaluator.id.clone(), evaluator.version.number);
        if let Entry::Vacant(place) = evaluators.entry(key) {
            let prepared = prepare_evaluator(store, &project, evaluator).await?;
            place.insert(Arc::new(prepared));
        }
    }
    let mut rules: HashMap<ProjectId, Vec<Arc<PreparedRule>>> = HashMap::new();
    for active in active.rules {
        let project = &active.project;
        let used = |assignment: &Assignment| {
            let id = &assignment.evaluator_id;
            let newest = newest.get(&(project.clone(), id.clone()))?;
            let find = |number| {
                let found = evaluators.get(&(project.clone(), id.clone(), number));
                found.map(Arc::clone)
            };
            Some(AssignedVersions {
                live: find(assignment.version.live(*newest))?,
                shadow: assignment.version.shadow().and_then(find),
            })
        };
        let rule = prepare_rule(active.rule, used);
        rules.entry(active.project).or_default().push(Arc::new(rule));
    }
    for disabled in active.disabled {
        let rule = Arc::new(PreparedRule::disabled(disabled.rule));
        rules.entry(disabled.project).or_default().push(rule);
    }
    let mut awaited = HashSet::new();
    for rules in rules.values_mut() {
        let links: Vec<ChainRule> = rules.iter().map(|rule| ChainRule::from(&rule.rule)).collect();
        let rows = RuleChains::of(&links);
        let depths = links.iter().map(|link| (&link.id, rows.depth(link)));
        let depths: HashMap<&RuleId, usize> = depths.collect();
        rules.sort_by_key(|rule| depths.get(&rule.rule.id).copied());
        let named: HashSet<&RuleId> = links.iter().flat_map(|link| &link.after).collect();
        let enabled = rules.iter().filter(|rule| rule.rule.enabled);
        let enabled = enabled.map(|rule| &rule.rule.id);
        awaited.extend(enabled.filter(|id| named.contains(id)).cloned());
    }
    Ok(Catalog { revision: active.revision, is_consistent: active.is_consistent, rules, awaited })
}

pub(crate) async fn prepare_evaluator(
    store: &Store,
    project: &ProjectId,
    mut evaluator: Evaluator,
) -> Result<PreparedEvaluator, Error> {
    resolve_models(store, project, &mut evaluator).await?;
    let version = &evaluator.version;
    let plugin = store.catalog.plugin(project, &version.plugin).await?;
    let info = plugin.and_then(|plugin| {
        let mut evaluators = plugin.info.evaluators.into_iter();
        evaluators.find(|info| info.id == version.plugin_evaluator)
    });
    // Without a description the call fails in the host, which reports the reason.
    let mut needs = info.as_ref().map(|info| info.needs).unwrap_or_default();
    // An evaluator that reads the trace only with some configurations has the grant only if this
    // configuration does.
    needs.trace |= version.grants.trace_reader;
    Ok(PreparedEvaluator {
        plugin_evaluator: Arc::from(version.plugin_evaluator.as_str()),
        config: Arc::from(version.config.to_string()),
        needs,
        naming: ScoreNaming::of(version, info.as_ref()),
        context: Arc::new(EvaluatorContext {
            project: project.clone(),
            evaluator: evaluator.id.clone(),
            version: version.id.clone(),
            grants: version.grants,
            slots: version.slots.clone(),
        }),
        evaluator,
    })
}

/// Fills slots without a model with the default model of the project. The model affects the scores and is
/// therefore part of their fingerprint.
async fn resolve_models(
    store: &Store,
    project: &ProjectId,
    evaluator: &mut Evaluator,
) -> Result<(), Error> {
    let version = &mut evaluator.version;
    if version.slots.iter().all(|slot| slot.model.is_some()) {
        return Ok(());
    }
    let Some(default) = store.catalog.default_model(project).await? else {
        return Ok(());
    };
    for slot in &mut version.slots {
        slot.model.get_or_insert_with(|| default.clone());
    }
    let protocols = store.catalog.protocols(project).await?;
    let slots: Vec<_> = version
        .slots
        .iter()
        .map(|slot| {
            let provider = slot.model.as_ref().map(|choice| choice.provider.as_str());
            FingerprintSlot {
                name: &slot.name,
                protocol: provider.and_then(|provider| protocols.get(provider)).map(String::as_str),
                model: slot.model.as_ref(),
                limits: slot.limits,
            }
        })
        .collect();
    version.fingerprint =
        fingerprint(&version.plugin, &version.plugin_evaluator, &version.config, &slots);
    Ok(())
}

/// Evaluator versions of an assignment.
#[derive(Clone, Debug)]
struct AssignedVersions {
    /// The live version.
    live: Arc<PreparedEvaluator>,
    /// The shadow version.
    shadow: Option<Arc<PreparedEvaluator>>,
}

impl AssignedVersions {
    /// The evaluator as the rule would use it now; `None` if the evaluator or the version is deleted.
    async fn load(
        store: &Store,
        project: &ProjectId,
        assignment: &Assignment,
    ) -> Result<Option<Self>, Error> {
        let catalog = &store.catalog;
        let Some(newest) = catalog.evaluator(project, &assignment.evaluator_id).await? else {
            return Ok(None);
        };
        let used = catalog.used_versions(project, newest, assignment.version);
        let Some(used) = used.await? else {
            return Ok(None);
        };
        Ok(Some(Self {
            live: Arc::new(prepare_evaluator(store, project, used.live).await?),
            shadow: match used.shadow {
                Some(shadow) => Some(Arc::new(prepare_evaluator(store, project, shadow).await?)),
                None => None,
            },
        }))
    }
}

/// The stored rule, enabled or not, with the current versions of its evaluators.
pub(crate) async fn prepare_alone(
    store: &Store,
    project: &ProjectId,
    rule: Rule,
) -> Result<PreparedRule, Error> {
    let mut all = HashMap::new();
    for assignment in &rule.assignments {
        if let Some(used) = AssignedVersions::load(store, project, assignment).await? {
            all.insert(assignment.id.clone(), used);
        }
    }
    Ok(prepare_rule(rule, |assignment| all.get(&assignment.id).cloned()))
}

/// A rule whose evaluators all are this version, saved or not.
pub(crate) fn prepare_with(rule: Rule, evaluator: &Arc<PreparedEvaluator>) -> PreparedRule {
    prepare_rule(rule, |_| Some(AssignedVersions { live: Arc::clone(evaluator), shadow: None }))
}

fn prepare_rule(
    rule: Rule,
    used: impl Fn(&Assignment) -> Option<AssignedVersions>,
) -> PreparedRule {
    let checked = Filter::parse(rule.filter.sent(), rule.target.filter_columns());
    for error in checked.err().into_iter().flatten() {
        tracing::warn!(rule.id = %rule.id, %error, "stored filter is invalid");
    }
    let prepare = |assignment: &Assignment, evaluator: Arc<PreparedEvaluator>, shadow| {
        let default = &evaluator.evaluator.version.mapping;
        let entries = assignment.mapping.as_ref().unwrap_or(default);
        PreparedAssignment {
            id: assignment.id.clone(),
            plan: plan_of(entries, rule.target),
            evaluator,
            shadow,
            skipped_until: assignment.skipped_until,
        }
    };
    let mut assignments = Vec::new();
    for assignment in &rule.assignments {
        let Some(used) = used(assignment) else {
            continue;
        };
        assignments.push(prepare(assignment, used.live, None));
        let shadow = used.shadow;
        assignments.extend(shadow.map(|it| prepare(assignment, it, assignment.version.shadow())));
    }
    let filter = rule.filter.filter();
    PreparedRule {
        reads_content: filter.reads(&["metadata"]),
        reads_trace: rule.target.is_of_observations() && filter.reads(&OF_TRACE),
        reads_experiment: rule.target == TargetKind::Experiment
            || (rule.target.is_of_observations() && filter.reads(&OF_EXPERIMENT)),
        assignments,
        rule,
    }
}

/// A compiled mapping. The error text is for users.
pub(crate) fn plan_of(entries: &[Mapping], target: TargetKind) -> Result<MappingPlan, String> {
    if entries.is_empty() {
        return Ok(MappingPlan::identity());
    }
    mapping::compile(entries, target).map_err(|errors| {
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        errors.join("; ")
    })
}
