"""Dataset runs of the clients before version 5."""

from support import ClientTest, eventually, major


class DatasetRuns(ClientTest):
    def dataset(self):
        dataset = self.client.create_dataset(name=self.name("d 100%"))
        for n in range(2):
            self.client.create_dataset_item(dataset_name=dataset.name, input=f"in {n}")
        return self.client.get_dataset(dataset.name)

    def test_a_run_is_read_listed_and_deleted(self):
        dataset = self.dataset()
        name = "run 1/2 100%"
        result = dataset.run_experiment(name="n", run_name=name, task=lambda *, item, **_: item.input, description="why")
        self.client.flush()
        run = self.client.get_dataset_run(dataset_name=dataset.name, run_name=name)
        self.assertEqual((run.id, run.description), (result.dataset_run_id, "why"))
        traces = sorted(item.trace_id for item in run.dataset_run_items)
        self.assertEqual(traces, sorted(item.trace_id for item in result.item_results))
        runs = self.client.get_dataset_runs(dataset_name=dataset.name)
        self.assertEqual([(r.name, r.dataset_name) for r in runs.data], [(name, dataset.name)])
        links = self.client.api.dataset_run_items.list(dataset_id=dataset.id, run_name=name)
        self.assertEqual(links.meta.total_items, 2)
        self.client.delete_dataset_run(dataset_name=dataset.name, run_name=name)
        self.raises_status(404, lambda: self.client.get_dataset_run(dataset_name=dataset.name, run_name=name))

    def test_an_item_is_linked_by_hand(self):
        dataset = self.dataset()
        item = dataset.items[0]
        if major() == 3:
            with item.run(run_name="by hand", run_description="d") as span:
                span.update(output="out")
                trace_id = span.trace_id
        else:
            with self.client.start_as_current_observation(name="work") as span:
                trace_id = span.trace_id
            self.client.api.dataset_run_items.create(
                run_name="by hand", dataset_item_id=item.id, trace_id=trace_id, run_description="d"
            )
        self.client.flush()
        run = eventually(lambda: self.client.get_dataset_run(dataset_name=dataset.name, run_name="by hand"))
        self.assertEqual([i.trace_id for i in run.dataset_run_items], [trace_id])
        self.assertEqual(run.dataset_run_items[0].dataset_item_id, item.id)
