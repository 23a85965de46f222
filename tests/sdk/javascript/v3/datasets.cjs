// Datasets and runs as npm's `langfuse` 3 makes them.

"use strict";

const assert = require("node:assert/strict");
const { test } = require("node:test");
const { unique } = require("../support.cjs");
const { client } = require("./support.cjs");

/** A dataset with two items. */
async function capitals() {
  const name = unique("capitals");
  const made = await client.createDataset({ name, description: "Which?", metadata: { a: [1, null] } });
  assert.equal(made.name, name);
  await client.createDatasetItem({ datasetName: name, input: { q: "France" }, expectedOutput: "Paris" });
  await client.createDatasetItem({ datasetName: name, input: { q: "Spain" }, expectedOutput: "Madrid" });
  return name;
}

test("a dataset is made and read page by page, an item changed and archived", async () => {
  const name = await capitals();
  const dataset = await client.getDataset(name, { fetchItemsPageSize: 1 });
  assert.deepEqual([dataset.description, dataset.metadata], ["Which?", { a: [1, null] }]);
  assert.deepEqual(dataset.items.map((item) => item.input.q).toSorted(), ["France", "Spain"]);
  const [{ id }] = dataset.items;
  await client.createDatasetItem({ datasetName: name, id, input: "new", status: "ARCHIVED" });
  const item = await client.getDatasetItem(id);
  assert.deepEqual([item.input, item.status], ["new", "ARCHIVED"]);
  await assert.rejects(client.getDataset(unique("none")));
});

test("items are linked to traces in a run", async () => {
  const name = await capitals();
  const dataset = await client.getDataset(name);
  const runName = "run 1/2 100%";
  const links = [];
  for (const item of dataset.items) {
    const trace = client.trace({ name: "work", input: item.input });
    const generation = trace.generation({ name: "answer" });
    generation.end({ output: "Paris" });
    await item.link(generation, runName, { description: "why", metadata: { m: 1 } });
    links.push([item.id, trace.id, generation.id]);
  }
  await client.flushAsync();
  const run = await client.getDatasetRun({ datasetName: name, runName });
  assert.deepEqual([run.description, run.metadata], ["why", { m: 1 }]);
  const found = run.datasetRunItems.map((one) => [one.datasetItemId, one.traceId, one.observationId]);
  assert.deepEqual(found.toSorted(), links.toSorted());
  const runs = await client.getDatasetRuns(name, { limit: 10 });
  assert.deepEqual([runs.meta.totalItems, runs.data[0].name], [1, runName]);
});
