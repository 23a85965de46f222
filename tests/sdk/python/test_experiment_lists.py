"""`api.experiments` of the clients that have it."""

import datetime

from support import ClientTest, eventually

SINCE = datetime.datetime(2020, 1, 1, tzinfo=datetime.timezone.utc)


class ExperimentLists(ClientTest):
    def run_one(self, dataset, run_name):
        result = self.client.get_dataset(dataset.name).run_experiment(
            name="n", run_name=run_name, task=lambda *, item, **_: item.input, description="why", metadata={"m": "1"}
        )
        self.client.flush()
        return result

    def test_lists_and_items_go_page_by_page(self):
        dataset = self.client.create_dataset(name=self.name())
        for n in range(3):
            self.client.create_dataset_item(dataset_name=dataset.name, input=f"in {n}", metadata={"n": n})
        runs = [self.run_one(dataset, f"{self.name()} {n}").experiment_id for n in range(3)]
        listed = lambda **how: self.client.api.experiments.list(from_start_time=SINCE, dataset_id=dataset.id, **how)
        eventually(lambda: [e.item_count for e in listed().data] == [3, 3, 3])
        seen, cursor = [], None
        while True:
            page = listed(limit=2, fields="core,metadata,scores", cursor=cursor)
            seen += page.data
            cursor = page.meta.cursor
            if not cursor:
                break
        self.assertEqual(sorted(e.id for e in seen), sorted(runs))
        self.assertEqual({(e.description, e.metadata["m"], e.dataset_id) for e in seen}, {("why", "1", dataset.id)})
        fields = "core,dataset,io,metadata,itemMetadata,experimentMetadata,scores"
        items, cursor = [], None
        while True:
            page = self.client.api.experiments.list_items(
                from_start_time=SINCE, experiment_id=runs[0], fields=fields, limit=2, cursor=cursor
            )
            items += page.data
            cursor = page.meta.cursor
            if not cursor:
                break
        self.assertEqual(sorted(i.output for i in items), ["in 0", "in 1", "in 2"])
        self.assertEqual({i.experiment_dataset_id for i in items}, {dataset.id})
        self.assertEqual(sorted(i.experiment_item_metadata["n"] for i in items), [0, 1, 2])
        self.assertEqual({i.experiment_metadata["m"] for i in items}, {"1"})

    def test_the_same_run_name_goes_on_with_the_same_experiment(self):
        dataset = self.client.create_dataset(name=self.name())
        self.client.create_dataset_item(dataset_name=dataset.name, input="one")
        first = self.run_one(dataset, "again")
        second = self.run_one(dataset, "again")
        self.assertEqual(first.experiment_id, second.experiment_id)
        listed = lambda: self.client.api.experiments.list(from_start_time=SINCE, dataset_id=dataset.id).data
        eventually(lambda: [e.item_count for e in listed()] == [2])
