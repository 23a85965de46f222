"""`run_experiment` with evaluators, on data of the caller's own and on a dataset."""

from langfuse import Evaluation

from support import ClientTest, eventually, major, rest


def capital(*, item, **_):
    question = item["input"] if isinstance(item, dict) else item.input
    return {"France": "Paris", "Spain": "Lisbon"}[question]


def is_right(*, output, expected_output, **_):
    return Evaluation(name="is_right", value=output == expected_output, comment="compared", data_type="BOOLEAN")


def lengths(*, input, output, **_):
    return [Evaluation(name="length", value=len(output)), Evaluation(name="kind", value="city")]


def broken(**_):
    raise ValueError("this evaluator always fails")


def share_right(*, item_results, **_):
    found = [e.value for result in item_results for e in result.evaluations if e.name == "is_right"]
    return Evaluation(name="share_right", value=sum(found) / len(found), comment="of all")


class Experiments(ClientTest):
    def scores(self, query, n):
        self.client.flush()
        return eventually(lambda: (found := rest(f"/v3/scores?fields=details,subject&{query}")["data"]) and len(found) >= n and found)

    def check_result(self, result):
        outputs = sorted(item.output for item in result.item_results)
        self.assertEqual(outputs, ["Lisbon", "Paris"])
        self.assertEqual([e.value for e in result.run_evaluations], [0.5])
        shown = result.format(include_item_results=True)
        for part in ["is_right", "share_right", "0.5", "Paris"]:
            self.assertIn(part, shown)

    def check_item_scores(self, result):
        for item in result.item_results:
            by_name = {s["name"]: s for s in self.scores(f"traceId={item.trace_id}", 3)}
            self.assertEqual(by_name["is_right"]["value"], item.output == "Paris")
            self.assertEqual(by_name["is_right"]["comment"], "compared")
            self.assertEqual(by_name["length"]["value"], len(item.output))
            self.assertEqual(by_name["kind"]["value"], "city")

    def test_an_experiment_on_data_of_its_own(self):
        result = self.client.run_experiment(
            name=self.name(),
            description="capitals",
            data=[
                {"input": "France", "expected_output": "Paris"},
                {"input": "Spain", "expected_output": "Madrid", "metadata": {"hard": "yes"}},
            ],
            task=capital,
            evaluators=[is_right, lengths, broken],
            run_evaluators=[share_right],
            metadata={"model": "small"},
        )
        self.check_result(result)
        self.check_item_scores(result)

    def test_an_experiment_on_a_dataset_is_one_run(self):
        dataset = self.client.create_dataset(name=self.name())
        for question, answer in [("France", "Paris"), ("Spain", "Madrid")]:
            self.client.create_dataset_item(dataset_name=dataset.name, input=question, expected_output=answer)
        result = self.client.get_dataset(dataset.name).run_experiment(
            name="capitals",
            run_name=self.name("run"),
            description="which",
            task=capital,
            evaluators=[is_right, lengths],
            run_evaluators=[share_right],
            metadata={"model": "small"},
        )
        self.check_result(result)
        self.check_item_scores(result)
        run_id = result.experiment_id if major() >= 5 else result.dataset_run_id
        run_scores = self.scores(f"experimentId={run_id}", 1)
        self.assertEqual((run_scores[0]["name"], run_scores[0]["value"]), ("share_right", 0.5))
        listed = eventually(
            lambda: (found := rest(f"/experiments?fromStartTime=2020-01-01T00:00:00Z&id={run_id}&fields=core,metadata,scores"))["data"]
            and found["data"][0]["itemCount"] == 2
            and found["data"]
        )
        self.assertEqual(len(listed), 1)
        self.assertEqual((listed[0]["name"], listed[0]["datasetId"]), (self.name("run"), dataset.id))
        self.assertEqual(listed[0]["metadata"], {"model": "small"})
        self.assertEqual([score["name"] for score in listed[0]["scores"]], ["share_right"])
        items = rest(f"/experiment-items?fromStartTime=2020-01-01T00:00:00Z&experimentId={run_id}&fields=core,dataset,io,scores")
        self.assertEqual(sorted(item["output"] for item in items["data"]), ["Lisbon", "Paris"])
        self.assertEqual({item["environment"] for item in items["data"]}, {"sdk-experiment"})
        self.assertEqual({len(item["scores"]) for item in items["data"]}, {3})

    def test_a_task_that_fails_leaves_its_item_out(self):
        result = self.client.run_experiment(
            name=self.name(),
            data=[{"input": "France", "expected_output": "Paris"}, {"input": "Atlantis"}],
            task=capital,
            evaluators=[is_right],
        )
        self.assertEqual([item.output for item in result.item_results], ["Paris"])
