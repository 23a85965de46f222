"""Datasets and items as the Python clients use them."""

import datetime

from support import ClientTest


class Datasets(ClientTest):
    def dataset(self, **how):
        return self.client.create_dataset(name=self.name("folder/capitals 100%"), **how)

    def test_a_dataset_is_made_and_changed_by_its_name(self):
        made = self.dataset(description="Which?", metadata={"a": [1, None]})
        self.assertEqual((made.description, made.metadata), ("Which?", {"a": [1, None]}))
        changed = self.dataset(metadata={"b": 2})
        self.assertEqual((changed.id, changed.description, changed.metadata), (made.id, "Which?", {"b": 2}))
        found = self.client.get_dataset(made.name)
        self.assertEqual((found.id, found.items), (made.id, []))
        self.assertIn(made.id, [dataset.id for dataset in self.client.api.datasets.list().data])
        self.raises_status(404, lambda: self.client.get_dataset(self.name("none")))

    def test_items_come_back_as_they_were_sent(self):
        dataset = self.dataset()
        inputs = [{"q": "grüße \U0001f600", "n": [1, 2.5, None, True]}, "plain text", 7, ["a"]]
        for n, value in enumerate(inputs):
            made = self.client.create_dataset_item(
                dataset_name=dataset.name,
                id=f"{self.id()}-{n}",
                input=value,
                expected_output={"a": n},
                metadata={"n": n},
                source_trace_id="trace",
            )
            self.assertEqual((made.input, made.dataset_name), (value, dataset.name))
        items = self.client.get_dataset(dataset.name, fetch_items_page_size=3).items
        self.assertEqual([item.input for item in reversed(items)], inputs)
        self.assertEqual([item.expected_output["a"] for item in reversed(items)], [0, 1, 2, 3])
        one = self.client.api.dataset_items.get(items[0].id)
        self.assertEqual((one.metadata, one.source_trace_id, one.status.value), ({"n": 3}, "trace", "ACTIVE"))

    def test_a_later_write_changes_what_it_names(self):
        dataset = self.dataset()
        made = self.client.create_dataset_item(dataset_name=dataset.name, input={"q": 1}, metadata={"m": 1})
        again = self.client.create_dataset_item(dataset_name=dataset.name, id=made.id, expected_output="a")
        self.assertEqual((again.id, again.input, again.expected_output, again.metadata), (made.id, {"q": 1}, "a", {"m": 1}))
        from langfuse.api import DatasetStatus

        self.client.create_dataset_item(dataset_name=dataset.name, id=made.id, status=DatasetStatus.ARCHIVED)
        self.assertEqual(self.client.get_dataset(dataset.name).items, [])

    def test_a_dataset_reads_as_it_was(self):
        dataset = self.dataset()
        moment = lambda: datetime.datetime.now(datetime.timezone.utc)
        item = self.client.create_dataset_item(dataset_name=dataset.name, input="first")
        after_first = moment()
        self.client.create_dataset_item(dataset_name=dataset.name, id=item.id, input="changed")
        self.client.create_dataset_item(dataset_name=dataset.name, input="second")
        after_second = moment()
        self.client.api.dataset_items.delete(item.id)
        inputs = lambda **how: sorted(i.input for i in self.client.get_dataset(dataset.name, **how).items)
        self.assertEqual(inputs(version=after_first), ["first"])
        self.assertEqual(inputs(version=after_second), ["changed", "second"])
        self.assertEqual(inputs(), ["second"])
        self.raises_status(404, lambda: self.client.api.dataset_items.get(item.id))

    def test_schemas_are_kept_to(self):
        schema = {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}
        dataset = self.dataset(input_schema=schema, expected_output_schema={"enum": ["a", "b"]})
        self.assertEqual((dataset.input_schema, dataset.expected_output_schema), (schema, {"enum": ["a", "b"]}))
        create = lambda **item: self.client.create_dataset_item(dataset_name=dataset.name, **item)
        create(input={"q": "x"}, expected_output="a")
        refused = self.raises_status(400, lambda: create(input={"q": 1}, expected_output="c"))
        fields = sorted(violation["field"] for violation in refused.body["details"]["violations"])
        self.assertEqual(fields, ["expectedOutput", "input"])
        refused = self.raises_status(400, lambda: self.dataset(input_schema={"required": ["none"]}))
        self.assertEqual(refused.body["details"]["itemsAtFault"], 1)
        self.raises_status(400, lambda: self.dataset(input_schema={"type": "nonsense"}))
