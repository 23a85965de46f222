//! Dashboards on each database.

use perpend_domain::ids::ProjectId;
use serde_json::json;

use super::*;
use crate::Error;
use crate::testing::{Store, on_each_database};
use perpend_domain::list::Paging;

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn widget(id: &str, millis: i64) -> Widget {
    Widget {
        id: id.to_owned(),
        name: "cost".to_owned(),
        description: String::new(),
        chart: json!({ "view": "observations", "n": 1.5 }),
        created_at: at(millis),
        updated_at: at(millis),
    }
}

fn dashboard(id: &str, millis: i64) -> Dashboard {
    Dashboard {
        id: id.to_owned(),
        name: "overview".to_owned(),
        description: "all of it".to_owned(),
        filters: vec![json!({ "column": "environment" })],
        placements: Vec::new(),
        created_at: at(millis),
        updated_at: at(millis),
    }
}

fn placed(id: &str, content: PlacedChart) -> NewPlacement {
    NewPlacement { id: id.to_owned(), content, x: 0, y: None, width: 6, height: 4 }
}

fn projects() -> (ProjectId, ProjectId) {
    (ProjectId::new("a").unwrap(), ProjectId::new("b").unwrap())
}

async fn add(store: &Store, project: &ProjectId, new: &NewPlacement) -> Result<Placement, Error> {
    store.catalog.add_placement(project, "d", new, 3, at(7)).await
}

#[tokio::test]
async fn widgets_are_listed_by_their_last_change_and_of_two_changes_one_is_refused() {
    on_each_database(|store| async move {
        let (ours, theirs) = projects();
        for (id, millis) in [("one", 1), ("two", 2)] {
            store.catalog.create_widget(&ours, &widget(id, millis)).await.unwrap();
        }
        let mut changed = widget("one", 1);
        changed.name = "tokens".to_owned();
        changed.updated_at = at(9);
        store.catalog.update_widget(&ours, &changed, at(1)).await.unwrap();
        let again = store.catalog.update_widget(&ours, &changed, at(1)).await;
        assert!(matches!(again, Err(Error::Conflict(_))), "{again:?}");
        let found = store.catalog.widgets(&ours, Paging::default()).await.unwrap();
        assert_eq!((found.items, found.n_total), (vec![changed, widget("two", 2)], 2));
        assert_eq!(store.catalog.widget(&theirs, "one").await.unwrap(), None);
        let foreign = store.catalog.delete_widget(&theirs, "one").await;
        assert!(matches!(foreign, Err(Error::NotFound)), "{foreign:?}");
        store.catalog.delete_widget(&ours, "one").await.unwrap();
        assert_eq!(store.catalog.widget(&ours, "one").await.unwrap(), None);
    })
    .await;
}

#[tokio::test]
async fn placements_are_stacked_and_a_placed_widget_cannot_be_deleted() {
    on_each_database(|store| async move {
        let (ours, theirs) = projects();
        store.catalog.create_widget(&ours, &widget("w", 1)).await.unwrap();
        store.catalog.create_widget(&theirs, &widget("theirs", 1)).await.unwrap();
        store.catalog.create_dashboard(&ours, &dashboard("d", 1)).await.unwrap();
        let shows = PlacedChart::Widget("w".to_owned());
        let first = add(&store, &ours, &placed("p1", shows.clone())).await.unwrap();
        assert_eq!(first.tile.y, 0);
        let second = placed("p2", PlacedChart::Preset("latency".to_owned()));
        assert_eq!(add(&store, &ours, &second).await.unwrap().tile.y, 4);
        for (new, conflicts) in [
            (placed("p1", shows.clone()), true),
            (placed("p3", PlacedChart::Widget("theirs".to_owned())), false),
            (placed("p3", PlacedChart::Widget("nothing".to_owned())), false),
        ] {
            match (add(&store, &ours, &new).await, conflicts) {
                (Err(Error::Conflict(_)), true) | (Err(Error::NotFound), false) => {}
                (other, _) => panic!("{other:?}"),
            }
        }
        let third = add(&store, &ours, &placed("p3", shows.clone())).await.unwrap();
        let full = add(&store, &ours, &placed("p4", shows)).await;
        assert!(matches!(full, Err(Error::Conflict(_))), "{full:?}");
        let kept = store.catalog.delete_widget(&ours, "w").await;
        assert!(matches!(kept, Err(Error::Conflict(_))), "{kept:?}");

        let tile = Tile { x: 6, ..third.tile };
        store.catalog.move_placement(&ours, "d", "p3", tile, at(8)).await.unwrap();
        store.catalog.delete_placement(&ours, "d", "p1", at(9)).await.unwrap();
        for foreign in [
            store.catalog.move_placement(&theirs, "d", "p3", tile, at(8)).await,
            store.catalog.delete_placement(&ours, "d", "p1", at(9)).await,
        ] {
            assert!(matches!(foreign, Err(Error::NotFound)), "{foreign:?}");
        }
        let found = store.catalog.dashboard(&ours, "d").await.unwrap().unwrap();
        let tiles: Vec<_> = found.placements.iter().map(|p| (p.id.as_str(), p.tile.x)).collect();
        assert_eq!(tiles, [("p2", 0), ("p3", 6)]);
        assert_eq!(found.updated_at, at(9));
        store.catalog.delete_dashboard(&ours, "d").await.unwrap();
        store.catalog.delete_widget(&ours, "w").await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_grid_is_replaced_whole_or_not_at_all() {
    on_each_database(|store| async move {
        let (ours, theirs) = projects();
        let tile = Tile { x: 0, y: 0, width: 6, height: 6 };
        let preset = |id: &str| Placement {
            id: id.to_owned(),
            content: PlacedChart::Preset("p".to_owned()),
            tile,
        };
        let mut made = dashboard("d", 1);
        made.placements = vec![preset("b"), preset("a")];
        store.catalog.create_dashboard(&ours, &made).await.unwrap();
        store.catalog.create_dashboard(&theirs, &dashboard("d", 1)).await.unwrap();
        assert_eq!(store.catalog.dashboard(&ours, "d").await.unwrap(), Some(made));
        let missing =
            Placement { content: PlacedChart::Widget("nothing".to_owned()), ..preset("c") };
        for placements in [vec![missing], vec![preset("c"), preset("c")]] {
            let patch =
                DashboardPatch { placements: Some(placements), ..DashboardPatch::default() };
            assert!(store.catalog.update_dashboard(&ours, "d", &patch, at(5)).await.is_err());
        }
        let patch = DashboardPatch {
            name: Some("renamed".to_owned()),
            placements: Some(vec![preset("c")]),
            ..DashboardPatch::default()
        };
        let found = store.catalog.update_dashboard(&ours, "d", &patch, at(6)).await.unwrap();
        assert_eq!(found.placements, [preset("c")]);
        assert_eq!((found.name.as_str(), found.updated_at), ("renamed", at(6)));
        assert_eq!(found.filters, dashboard("d", 1).filters);
        let list = store.catalog.dashboards(&theirs, Paging::default()).await.unwrap();
        assert_eq!((list.items, list.n_total), (vec![dashboard("d", 1)], 1));
    })
    .await;
}
