//! Evaluators, rules, and their view in the engine.

use super::*;

#[tokio::test]
async fn an_evaluator_reads_back_as_made_and_counts_its_versions() {
    on_each_database(|store| async move {
        let home = project("home");
        let made = evaluator(&store, &home, "e1", at(1)).await;
        assert_eq!(made.version.number, 1);
        assert_eq!(made.version.config.to_string(), r#"{"z":1,"a":[true,null]}"#);
        assert_eq!(made.version.mapping, [mapping("output")]);
        assert_eq!(made.version.fingerprint, Digest::of(b"e1-v1"));
        let id = evaluator_id("e1");
        let new = version("e1-v2");
        let second = store.catalog.add_evaluator_version(&home, &id, &new, at(2)).await.unwrap();
        assert_eq!((second.version.number, second.updated_at), (2, at(2)));
        assert_eq!(second.version.id.as_str(), "e1-v2");
        let all = store.catalog.evaluator_versions(&home, &id, None, 50).await.unwrap();
        let numbers: Vec<_> = all.iter().map(|v| v.number).collect();
        assert_eq!(numbers, [2, 1]);
        let rest = store.catalog.evaluator_versions(&home, &id, Some(2), 50).await.unwrap();
        assert_eq!(rest, std::slice::from_ref(&made.version));
        let (owner, first) =
            store.catalog.evaluator_version(&home, &made.version.id).await.unwrap().unwrap();
        assert_eq!((owner, first), (id.clone(), made.version));
        let renamed = store
            .catalog
            .rename_evaluator(&home, &id, Some("new"), Some(Some("text")), at(3))
            .await
            .unwrap();
        assert_eq!((renamed.name.as_str(), renamed.description.as_deref()), ("new", Some("text")));
        assert_eq!(renamed.version, second.version);
        let cleared =
            store.catalog.rename_evaluator(&home, &id, None, Some(None), at(4)).await.unwrap();
        assert_eq!((cleared.name.as_str(), cleared.description), ("new", None));
    })
    .await;
}

#[tokio::test]
async fn the_rules_of_evaluators_and_the_fingerprints_of_their_newest_versions_are_of_the_project()
{
    on_each_database(|store| async move {
        let (home, other) = (project("home"), project("other"));
        for id in ["e1", "e2"] {
            evaluator(&store, &home, id, at(1)).await;
        }
        let id = evaluator_id("e1");
        for number in [2, 3] {
            let new = version(&format!("e1-v{number}"));
            store.catalog.add_evaluator_version(&home, &id, &new, at(2)).await.unwrap();
        }
        store.catalog.create_rule(&home, &rule("b", &["e1", "e2"], at(3)), &at(3)).await.unwrap();
        let off = Rule { enabled: false, ..rule("a", &["e1"], at(3)) };
        store.catalog.create_rule(&home, &off, &at(3)).await.unwrap();
        let rules = store.catalog.evaluator_rules(&home).await.unwrap();
        let rules: Vec<_> = rules
            .iter()
            .map(|each| (each.name.as_str(), each.evaluator.as_str(), each.is_enabled))
            .collect();
        assert_eq!(
            rules,
            [("rule a", "e1", false), ("rule b", "e1", true), ("rule b", "e2", true)]
        );
        let newest = store.catalog.version_fingerprints(&home, 2).await.unwrap();
        let versions: Vec<&str> = newest.iter().map(|each| each.version.as_str()).collect();
        assert_eq!(versions, ["e1-v3", "e1-v2", "e2-v1"]);
        assert_eq!(newest[0].fingerprint, Digest::of(b"e1-v3"));
        assert!(store.catalog.evaluator_rules(&other).await.unwrap().is_empty());
        assert!(store.catalog.version_fingerprints(&other, 2).await.unwrap().is_empty());
    })
    .await;
}

#[tokio::test]
async fn versions_saved_at_once_get_different_numbers() {
    on_each_database(|store| async move {
        let home = project("home");
        evaluator(&store, &home, "e1", at(0)).await;
        let id = evaluator_id("e1");
        let new: Vec<_> = (2..8).map(|n| version(&format!("v{n}"))).collect();
        let saves = new.iter().map(|v| store.catalog.add_evaluator_version(&home, &id, v, at(1)));
        for saved in futures_util::future::join_all(saves).await {
            saved.unwrap();
        }
        let all = store.catalog.evaluator_versions(&home, &id, None, 50).await.unwrap();
        let numbers: Vec<_> = all.iter().map(|v| v.number).collect();
        assert_eq!(numbers, [7, 6, 5, 4, 3, 2, 1]);
    })
    .await;
}

#[tokio::test]
async fn of_many_that_pause_an_evaluator_one_wins() {
    on_each_database(|store| async move {
        let home = project("home");
        evaluator(&store, &home, "e1", at(0)).await;
        let id = evaluator_id("e1");
        let pauses: Vec<_> = (0..8).map(|n| pause(&format!("REASON_{n}"))).collect();
        let tries = pauses.iter().map(|p| store.catalog.pause_evaluator(&home, &id, p, None));
        let won: Vec<bool> = futures_util::future::join_all(tries)
            .await
            .into_iter()
            .map(|paused| paused.unwrap().is_new())
            .collect();
        assert_eq!(won.iter().filter(|won| **won).count(), 1);
        let winner = won.iter().position(|won| *won).unwrap();
        let paused = store.catalog.evaluator(&home, &id).await.unwrap().unwrap().paused;
        assert_eq!(paused.as_ref(), Some(&pauses[winner]));
        assert!(store.catalog.unpause_evaluator(&home, &id, at(60)).await.unwrap());
        assert!(!store.catalog.unpause_evaluator(&home, &id, at(61)).await.unwrap());
        assert_eq!(store.catalog.evaluator(&home, &id).await.unwrap().unwrap().paused, None);
    })
    .await;
}

#[tokio::test]
async fn deleting_an_evaluator_drops_versions_and_assignments_and_disables_empty_rules() {
    on_each_database(|store| async move {
        let home = project("home");
        let first = evaluator(&store, &home, "e1", at(0)).await;
        evaluator(&store, &home, "e2", at(0)).await;
        store
            .catalog
            .create_rule(&home, &rule("both", &["e1", "e2"], at(1)), &at(1))
            .await
            .unwrap();
        store.catalog.create_rule(&home, &rule("one", &["e1"], at(1)), &at(1)).await.unwrap();
        assert_eq!(store.catalog.evaluator_uses(&home, &first.id).await.unwrap().len(), 2);
        store.catalog.delete_evaluator(&home, &first.id, at(2)).await.unwrap();
        assert_eq!(store.catalog.evaluator(&home, &first.id).await.unwrap(), None);
        assert_eq!(store.catalog.evaluator_version(&home, &first.version.id).await.unwrap(), None);
        let both = store.catalog.rule(&home, &RuleId::new("both").unwrap()).await.unwrap().unwrap();
        assert_eq!((both.enabled, both.assignments), (true, vec![assignment("e2")]));
        let one = store.catalog.rule(&home, &RuleId::new("one").unwrap()).await.unwrap().unwrap();
        assert_eq!((one.enabled, one.assignments), (false, vec![]));
    })
    .await;
}

#[tokio::test]
async fn lists_run_newest_first_and_a_cursor_loses_nothing_among_equal_times() {
    on_each_database(|store| async move {
        let home = project("home");
        for n in 0..7 {
            let id = format!("e{n}");
            evaluator(&store, &home, &id, at(n / 3)).await;
            store
                .catalog
                .create_rule(&home, &rule(&id, &[&id, "e0"], at(n / 3)), &at(n / 3))
                .await
                .unwrap();
        }
        let expected = ["e6", "e5", "e4", "e3", "e2", "e1", "e0"];
        let (mut evaluators, mut rules) = (Vec::new(), Vec::new());
        let (mut after, mut after_rule) = (None, None);
        for _ in 0..4 {
            let page = store.catalog.evaluators(&home, after.as_ref(), 2).await.unwrap();
            evaluators.extend(page.items.into_iter().map(|e| e.id.to_string()));
            after = page.next;
            let page = store.catalog.rules(&home, after_rule.as_ref(), 2).await.unwrap();
            assert!(page.items.iter().all(|rule| rule.assignments.len() == 2));
            rules.extend(page.items.into_iter().map(|rule| rule.id.to_string()));
            after_rule = page.next;
        }
        assert_eq!((after, after_rule), (None, None));
        assert_eq!(evaluators, expected);
        assert_eq!(rules, expected);
    })
    .await;
}

#[tokio::test]
async fn a_rule_reads_back_as_made_and_a_patch_changes_only_its_fields() {
    on_each_database(|store| async move {
        let home = project("home");
        evaluator(&store, &home, "e1", at(0)).await;
        evaluator(&store, &home, "e2", at(0)).await;
        let made = rule("r", &["e2", "e1"], at(1));
        store.catalog.create_rule(&home, &made, &made.created_at).await.unwrap();
        assert_eq!(store.catalog.rule(&home, &made.id).await.unwrap(), Some(made.clone()));
        let twice = store.catalog.create_rule(&home, &made, &made.created_at).await;
        assert!(matches!(twice, Err(Error::Conflict(_))), "{twice:?}");

        let patch = RulePatch {
            sampling: Some(1.0),
            filter: Some(WrittenFilter::default()),
            ..RulePatch::default()
        };
        let patched = store.catalog.patch_rule(&home, &made.id, &patch, &at(2)).await.unwrap();
        let expected = Rule {
            sampling: 1.0,
            filter: WrittenFilter::default(),
            updated_at: at(2),
            ..made.clone()
        };
        assert_eq!(patched, expected);

        let patch = RulePatch { assignments: Some(vec![]), ..RulePatch::default() };
        let patched = store.catalog.patch_rule(&home, &made.id, &patch, &at(3)).await.unwrap();
        assert_eq!((patched.enabled, patched.assignments.len()), (false, 0));
        let patch = RulePatch { enabled: Some(true), ..RulePatch::default() };
        let refused = store.catalog.patch_rule(&home, &made.id, &patch, &at(4)).await;
        assert!(matches!(refused, Err(Error::Conflict(_))), "{refused:?}");

        store.catalog.delete_rule(&home, &made.id).await.unwrap();
        assert_eq!(store.catalog.rule(&home, &made.id).await.unwrap(), None);
    })
    .await;
}

#[tokio::test]
async fn a_refused_patch_leaves_the_rule_as_it_was() {
    on_each_database(|store| async move {
        let home = project("home");
        evaluator(&store, &home, "e1", at(0)).await;
        let made = rule("r", &["e1"], at(1));
        store.catalog.create_rule(&home, &made, &made.created_at).await.unwrap();
        let patch = RulePatch {
            name: Some("other".to_owned()),
            assignments: Some(vec![assignment("e1"), assignment("unknown")]),
            ..RulePatch::default()
        };
        let refused = store.catalog.patch_rule(&home, &made.id, &patch, &at(2)).await;
        assert!(matches!(refused, Err(Error::NotFound)), "{refused:?}");
        assert_eq!(store.catalog.rule(&home, &made.id).await.unwrap(), Some(made));
    })
    .await;
}

#[tokio::test]
async fn a_project_has_at_most_500_active_rules() {
    on_each_database(|store| async move {
        let home = project("home");
        evaluator(&store, &home, "e1", at(0)).await;
        for n in 0..MAX_ACTIVE_RULES {
            store
                .catalog
                .create_rule(&home, &rule(&format!("r{n}"), &["e1"], at(1)), &at(1))
                .await
                .unwrap();
        }
        let surplus =
            store.catalog.create_rule(&home, &rule("surplus", &["e1"], at(1)), &at(1)).await;
        assert!(matches!(surplus, Err(Error::Conflict(_))), "{surplus:?}");
        let idle = Rule { enabled: false, ..rule("idle", &["e1"], at(1)) };
        store.catalog.create_rule(&home, &idle, &idle.created_at).await.unwrap();
        let patch = RulePatch { enabled: Some(true), ..RulePatch::default() };
        let refused = store.catalog.patch_rule(&home, &idle.id, &patch, &at(2)).await;
        assert!(matches!(refused, Err(Error::Conflict(_))), "{refused:?}");
        // An active rule can still be changed, and another project has its own count.
        let patch = RulePatch { sampling: Some(0.5), ..RulePatch::default() };
        store.catalog.patch_rule(&home, &RuleId::new("r0").unwrap(), &patch, &at(2)).await.unwrap();
        evaluator(&store, &project("other"), "e1", at(0)).await;
        store
            .catalog
            .create_rule(&project("other"), &rule("r0", &["e1"], at(1)), &at(1))
            .await
            .unwrap();
    })
    .await;
}

#[tokio::test]
async fn the_engine_reads_enabled_rules_of_all_projects_with_their_current_versions() {
    on_each_database(|store| async move {
        let (home, other) = (project("home"), project("other"));
        evaluator(&store, &home, "e1", at(0)).await;
        evaluator(&store, &home, "unused", at(0)).await;
        evaluator(&store, &other, "e1", at(0)).await;
        let (mine, theirs) = (rule("r", &["e1"], at(1)), rule("r", &["e1"], at(2)));
        store.catalog.create_rule(&home, &mine, &mine.created_at).await.unwrap();
        store.catalog.create_rule(&other, &theirs, &theirs.created_at).await.unwrap();
        let off = Rule { enabled: false, ..rule("off", &["unused"], at(1)) };
        store.catalog.create_rule(&home, &off, &off.created_at).await.unwrap();
        store.catalog.pause_rule(&other, &theirs.id, &pause("BUDGET_REACHED"), None).await.unwrap();
        let id = evaluator_id("e1");
        store.catalog.add_evaluator_version(&home, &id, &version("second"), at(3)).await.unwrap();

        let active = store.catalog.active_rules().await.unwrap();
        assert_eq!(active.revision, store.catalog.catalog_revision().await.unwrap());
        let rules: Vec<_> = active.rules.iter().map(|r| (&r.project, &r.rule)).collect();
        assert_eq!(rules[0], (&home, &mine));
        assert_eq!((rules[1].0, &rules[1].1.paused), (&other, &Some(pause("BUDGET_REACHED"))));
        assert_eq!(rules.len(), 2);
        let mut versions: Vec<_> = active
            .evaluators
            .iter()
            .map(|(project, evaluator)| (project.as_str(), evaluator.version.id.as_str()))
            .collect();
        versions.sort_unstable();
        assert_eq!(versions, [("home", "second"), ("other", "e1-v1")]);
    })
    .await;
}

#[tokio::test]
async fn every_change_of_rules_and_evaluators_raises_the_revision() {
    on_each_database(|store| async move {
        let home = project("home");
        let mut last = store.catalog.catalog_revision().await.unwrap();
        let mut raised = async |what: &str| {
            let revision = store.catalog.catalog_revision().await.unwrap();
            assert!(last < revision, "{what}");
            last = revision;
        };
        let made = evaluator(&store, &home, "e1", at(0)).await;
        raised("create evaluator").await;
        store.catalog.add_evaluator_version(&home, &made.id, &version("v2"), at(1)).await.unwrap();
        raised("new version").await;
        store.catalog.rename_evaluator(&home, &made.id, Some("n"), None, at(1)).await.unwrap();
        raised("rename").await;
        store.catalog.pause_evaluator(&home, &made.id, &pause("X"), None).await.unwrap();
        raised("pause evaluator").await;
        store.catalog.unpause_evaluator(&home, &made.id, at(1)).await.unwrap();
        raised("unpause evaluator").await;
        let rule = rule("r", &["e1"], at(1));
        let catalog = &store.catalog;
        catalog.create_rule(&home, &rule, &at(1)).await.unwrap();
        raised("create rule").await;
        store.catalog.patch_rule(&home, &rule.id, &RulePatch::default(), &at(2)).await.unwrap();
        raised("patch rule").await;
        store.catalog.pause_rule(&home, &rule.id, &pause("X"), None).await.unwrap();
        raised("pause rule").await;
        let enabled = RulePatch { enabled: Some(true), ..RulePatch::default() };
        let going_on = store.catalog.patch_rule(&home, &rule.id, &enabled, &at(3)).await;
        assert_eq!(going_on.unwrap().paused, None);
        raised("unpause rule").await;
        assert_eq!(store.catalog.rule(&home, &rule.id).await.unwrap().unwrap().paused, None);
        store.catalog.delete_rule(&home, &rule.id).await.unwrap();
        raised("delete rule").await;
        store.catalog.delete_evaluator(&home, &made.id, at(3)).await.unwrap();
        raised("delete evaluator").await;
    })
    .await;
}

#[tokio::test]
async fn a_paused_rule_is_counted_until_it_is_switched_off() {
    on_each_database(|store| async move {
        let (home, catalog) = (project("home"), &store.catalog);
        evaluator(&store, &home, "e1", at(0)).await;
        for id in ["a", "b"] {
            let rule = rule(id, &["e1"], at(1));
            catalog.create_rule(&home, &rule, &rule.created_at).await.unwrap();
        }
        let n = async || catalog.n_paused_rules(&home).await.unwrap();
        assert_eq!(n().await, 0);
        let id = rule("a", &["e1"], at(1)).id;
        let why = pause("X");
        let paused = catalog.pause_rule(&home, &id, &why, None);
        paused.await.unwrap();
        assert_eq!(n().await, 1);
        assert_eq!(catalog.n_paused_rules(&project("other")).await.unwrap(), 0);
        let off = RulePatch { enabled: Some(false), ..RulePatch::default() };
        catalog.patch_rule(&home, &id, &off, &at(2)).await.unwrap();
        assert_eq!(n().await, 0);
    })
    .await;
}

#[tokio::test]
async fn objects_of_another_project_are_not_found() {
    on_each_database(|store| async move {
        let catalog = &store.catalog;
        let (home, foreign) = (project("home"), project("foreign"));
        let made = evaluator(&store, &home, "e1", at(0)).await;
        let rule = rule("r", &["e1"], at(1));
        catalog.create_rule(&home, &rule, &rule.created_at).await.unwrap();

        assert_eq!(catalog.evaluator(&foreign, &made.id).await.unwrap(), None);
        assert_eq!(catalog.evaluator_version(&foreign, &made.version.id).await.unwrap(), None);
        assert_eq!(catalog.rule(&foreign, &rule.id).await.unwrap(), None);
        let evaluators = catalog.evaluators(&foreign, None, 50).await.unwrap();
        assert!(evaluators.items.is_empty());
        let rules = catalog.rules(&foreign, None, 50).await.unwrap();
        assert!(rules.items.is_empty());
        assert!(catalog.evaluator_uses(&foreign, &made.id).await.unwrap().is_empty());
        assert!(
            !catalog.pause_evaluator(&foreign, &made.id, &pause("X"), None).await.unwrap().is_new()
        );
        assert!(!catalog.pause_rule(&foreign, &rule.id, &pause("X"), None).await.unwrap().is_new());
        let refusals = [
            catalog.evaluator_versions(&foreign, &made.id, None, 9).await.err(),
            catalog.add_evaluator_version(&foreign, &made.id, &version("x"), at(2)).await.err(),
            catalog.rename_evaluator(&foreign, &made.id, Some("x"), None, at(2)).await.err(),
            catalog.delete_evaluator(&foreign, &made.id, at(2)).await.err(),
            catalog.patch_rule(&foreign, &rule.id, &RulePatch::default(), &at(2)).await.err(),
            catalog.delete_rule(&foreign, &rule.id).await.err(),
            // An evaluator of another project cannot be used.
            catalog.create_rule(&foreign, &rule, &rule.created_at).await.err(),
        ];
        for (n, refusal) in refusals.iter().enumerate() {
            assert!(matches!(refusal, Some(Error::NotFound)), "{n}: {refusal:?}");
        }
        assert_eq!(catalog.evaluator(&home, &made.id).await.unwrap(), Some(made));
        assert_eq!(catalog.rule(&home, &rule.id).await.unwrap(), Some(rule));
    })
    .await;
}

/// The same rule under another id, with one change.
fn duplicate(rule: &Rule, id: &str, change: impl FnOnce(&mut Rule)) -> Rule {
    let mut duplicate = rule.clone();
    duplicate.id = RuleId::new(id).unwrap();
    change(&mut duplicate);
    duplicate
}

#[tokio::test]
async fn a_rule_cannot_become_equal_to_another_one() {
    on_each_database(|store| async move {
        let home = project("home");
        evaluator(&store, &home, "e1", at(0)).await;
        let first = rule("first", &["e1"], at(1));
        store.catalog.create_rule(&home, &first, &first.created_at).await.unwrap();
        let equal = duplicate(&first, "equal", |_| {});
        let refused = store.catalog.create_rule(&home, &equal, &equal.created_at).await;
        assert!(matches!(refused, Err(Error::NameTaken(_))), "{refused:?}");
        let named = duplicate(&first, "name", |rule| rule.name = "another".to_owned());
        store.catalog.create_rule(&home, &named, &named.created_at).await.unwrap();
        let patch = RulePatch { name: Some(first.name.clone()), ..RulePatch::default() };
        let refused = store.catalog.patch_rule(&home, &named.id, &patch, &at(2)).await;
        assert!(matches!(refused, Err(Error::NameTaken(_))), "{refused:?}");
        let kept = store.catalog.rule(&home, &named.id).await.unwrap().unwrap();
        assert_eq!(kept.name, "another");
        // Setting the same name is no change.
        store.catalog.patch_rule(&home, &first.id, &patch, &at(3)).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn of_equal_rules_that_are_made_at_once_one_is() {
    on_each_database(|store| async move {
        let home = project("home");
        evaluator(&store, &home, "e1", at(0)).await;
        let first = rule("r", &["e1"], at(1));
        let twins: Vec<Rule> =
            (0..8).map(|n| duplicate(&first, &format!("r{n}"), |_| {})).collect();
        let made = twins
            .iter()
            .map(|duplicate| store.catalog.create_rule(&home, duplicate, &duplicate.created_at));
        let made = futures_util::future::join_all(made).await;
        let n_made = made.iter().filter(|made| made.is_ok()).count();
        assert_eq!(n_made, 1, "{made:?}");
        let refused = |made: &&Result<Rule, Error>| matches!(made, Err(Error::NameTaken(_)));
        assert_eq!(made.iter().filter(refused).count(), 7, "{made:?}");
    })
    .await;
}

#[tokio::test]
async fn equal_rules_from_before_they_were_refused_can_be_switched_off() {
    on_each_database(|store| async move {
        let home = project("home");
        evaluator(&store, &home, "e1", at(0)).await;
        let first = rule("first", &["e1"], at(1));
        store.catalog.create_rule(&home, &first, &first.created_at).await.unwrap();
        let second = duplicate(&first, "second", |rule| rule.name = "unlike".to_owned());
        store.catalog.create_rule(&home, &second, &second.created_at).await.unwrap();
        let name = first.name.as_str();
        store.pool.change("UPDATE rules SET name = $1", &[name.into()]).await.unwrap();
        let patch = RulePatch { enabled: Some(false), ..RulePatch::default() };
        let off = store.catalog.patch_rule(&home, &second.id, &patch, &at(2)).await.unwrap();
        assert_eq!((off.name, off.enabled), (first.name, false));
    })
    .await;
}

#[tokio::test]
async fn changes_of_a_rule_are_recorded_and_a_change_of_an_older_revision_is_refused() {
    on_each_database(|store| async move {
        let home = project("home");
        evaluator(&store, &home, "e1", at(0)).await;
        let made = rule("r", &["e1"], at(1));
        let made = store.catalog.create_rule(&home, &made, &at(1)).await.unwrap();
        let patch = |sampling: f64| RulePatch {
            sampling: Some(sampling),
            revision: Some(made.revision()),
            ..RulePatch::default()
        };
        let changed = store.catalog.patch_rule(&home, &made.id, &patch(0.125), &at(2)).await;
        let changed = changed.unwrap();
        let refused = store.catalog.patch_rule(&home, &made.id, &patch(0.5), &at(3)).await;
        assert!(matches!(refused, Err(Error::Conflict(_))), "{refused:?}");
        assert_eq!(store.catalog.rule(&home, &made.id).await.unwrap(), Some(changed.clone()));
        // A patch without effect is no change.
        let same = RulePatch { sampling: Some(0.125), ..RulePatch::default() };
        store.catalog.patch_rule(&home, &made.id, &same, &at(4)).await.unwrap();
        let changes = store.catalog.rule_changes(&home, &made.id, 10).await.unwrap();
        let changes: Vec<_> = changes.into_iter().map(|each| (each.at, each.definition)).collect();
        assert_eq!(changes, [(at(2), changed.definition()), (at(1), made.definition())]);
        let other = project("other");
        assert!(store.catalog.rule_changes(&other, &made.id, 10).await.unwrap().is_empty());
        store.catalog.delete_rule(&home, &made.id).await.unwrap();
        assert!(store.catalog.rule_changes(&home, &made.id, 10).await.unwrap().is_empty());
    })
    .await;
}
