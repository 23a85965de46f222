// Datasets, runs and experiments as `@langfuse/client` makes them.

"use strict";

const assert = require("node:assert/strict");
const { test } = require("node:test");
const { LangfuseMedia, createEvaluatorFromAutoevals } = require("@langfuse/client");
const { startActiveObservation } = require("@langfuse/tracing");
const { eventually, observations, picture, refuses, rest, scores, unique } = require("../support.cjs");
const { client, flush } = require("./support.cjs");

const CAPITALS = { France: "Paris", Spain: "Lisbon" };
const capital = async ({ input }) => {
  if (!(input in CAPITALS)) throw new Error(`${input} is nowhere`);
  return CAPITALS[input];
};
const isRight = async ({ output, expectedOutput }) => ({
  name: "is_right", value: output === expectedOutput ? 1 : 0, dataType: "BOOLEAN", comment: "compared",
});
const lengths = async ({ output }) => [{ name: "length", value: output.length }, { name: "kind", value: "city" }];
const broken = async () => { throw new Error("this evaluator always fails"); };
const shareRight = async ({ itemResults }) => {
  const found = itemResults.flatMap((item) => item.evaluations).filter(({ name }) => name === "is_right");
  return { name: "share_right", value: found.reduce((sum, { value }) => sum + value, 0) / found.length };
};
// The shape of a scorer of the package autoevals.
const same = async ({ output, expected }) => ({ name: "Same", score: output === expected ? 1 : 0, metadata: { how: "===" } });

/** A dataset with two items. */
async function capitals() {
  const name = unique("capitals");
  await client.api.datasets.create({ name, description: "Which?", metadata: { a: [1, null] } });
  await client.createDatasetItem({ datasetName: name, input: "France", expectedOutput: "Paris", metadata: { n: 1 } });
  await client.createDatasetItem({ datasetName: name, input: "Spain", expectedOutput: "Madrid" });
  return name;
}

test("a dataset is made and read page by page", async () => {
  const name = await capitals();
  const dataset = await client.dataset.get(name, { fetchItemsPageSize: 1 });
  assert.deepEqual([dataset.name, dataset.description, dataset.metadata], [name, "Which?", { a: [1, null] }]);
  assert.deepEqual(dataset.items.map((item) => item.input).toSorted(), ["France", "Spain"]);
  const item = await client.getDatasetItem(dataset.items[0].id);
  assert.equal(item.datasetName, name);
  await client.api.datasetItems.delete(item.id);
  await refuses(404, () => client.getDatasetItem(item.id));
  assert.equal((await client.dataset.get(name)).items.length, 1);
  await refuses(404, () => client.dataset.get(unique("none")));
});

test("a dataset is read as of a moment that has passed", async () => {
  const name = await capitals();
  const [first] = (await client.dataset.get(name)).items;
  const version = first.updatedAt;
  await eventually(async () => Date.now() > new Date(version).getTime() + 5);
  await client.createDatasetItem({ datasetName: name, id: first.id, input: "changed" });
  const inputs = async (how) => (await client.dataset.get(name, how)).items.map((item) => item.input);
  assert.ok((await inputs()).includes("changed"));
  assert.ok(!(await inputs({ version })).includes("changed"));
});

test("media in an item come back as references that read", async () => {
  const name = unique("media");
  await client.createDataset({ name });
  const bytes = picture();
  const media = new LangfuseMedia({ source: "bytes", contentBytes: bytes, contentType: "image/png" });
  await client.dataset.createItem({ datasetName: name, input: { pictures: [media], q: "what?" } });
  const [item] = (await client.dataset.get(name)).items;
  const [reference] = item.input.pictures;
  assert.deepEqual([reference.contentType, reference.contentLength], ["image/png", bytes.length]);
  const content = await fetch(reference.url).then((answer) => answer.arrayBuffer());
  assert.deepEqual(Buffer.from(content), bytes);
});

test("an item is linked to a trace by hand, and its run is read and deleted", async () => {
  const name = await capitals();
  const [item] = (await client.dataset.get(name)).items;
  const runName = "by hand 1/2 100%";
  const traceId = await startActiveObservation("work", async (span) => {
    span.update({ output: "out" });
    await item.link(span, runName, { description: "why", metadata: { m: 1 } });
    return span.traceId;
  });
  await flush();
  const run = await client.getDatasetRun(name, runName);
  assert.deepEqual([run.description, run.metadata], ["why", { m: 1 }]);
  assert.deepEqual(run.datasetRunItems.map((one) => [one.traceId, one.datasetItemId]), [[traceId, item.id]]);
  const runs = await client.getDatasetRuns(name);
  assert.deepEqual(runs.data.map((one) => one.name), [runName]);
  await client.api.datasets.deleteRun(name, runName);
  await refuses(404, () => client.getDatasetRun(name, runName));
});

test("an experiment on data of its own leaves out the item that fails", async () => {
  const result = await client.experiment.run({
    name: unique("own"),
    data: [
      { input: "France", expectedOutput: "Paris" },
      { input: "Spain", expectedOutput: "Madrid", metadata: { hard: "yes" } },
      { input: "Atlantis" },
    ],
    task: capital,
    evaluators: [isRight, lengths, broken, createEvaluatorFromAutoevals(same)],
    runEvaluators: [shareRight],
    metadata: { model: "small" },
  });
  await flush();
  assert.deepEqual(result.itemResults.map((item) => item.output), ["Paris", "Lisbon"]);
  assert.deepEqual(result.runEvaluations.map(({ value }) => value), [0.5]);
  for (const { traceId, output } of result.itemResults) {
    const found = await scores(`traceId=${traceId}`, 4);
    assert.equal(found.is_right.value, output === "Paris");
    assert.deepEqual([found.length.value, found.kind.value], [output.length, "city"]);
    assert.deepEqual([found.Same.value, found.Same.metadata], [output === "Paris" ? 1 : 0, { how: "===" }]);
    const [span] = await observations(traceId, 1);
    assert.deepEqual([span.name, span.output, span.environment], ["experiment-item-run", output, "sdk-experiment"]);
  }
});

test("an experiment on a dataset is one run with scores", async () => {
  const name = await capitals();
  const dataset = await client.dataset.get(name);
  const result = await dataset.runExperiment({
    name: "capitals", runName: unique("run"), description: "which", metadata: { model: "small" },
    task: capital, evaluators: [isRight, lengths], runEvaluators: [shareRight], maxConcurrency: 1,
  });
  await flush();
  assert.equal(result.itemResults.length, 2);
  assert.ok(result.datasetRunUrl.includes(`/datasets/${dataset.id}/runs/${result.datasetRunId}`));
  const shown = await result.format({ includeItemResults: true });
  for (const part of ["is_right", "share_right", "0.5", "Paris"]) assert.ok(shown.includes(part), shown);
  const ofRun = await scores(`experimentId=${result.datasetRunId}`, 1);
  assert.equal(ofRun.share_right.value, 0.5);
  const query = `fromStartTime=2020-01-01T00:00:00Z&id=${result.datasetRunId}&fields=core,metadata,scores`;
  const [listed] = await eventually(async () => {
    const { data } = await rest(`/experiments?${query}`);
    return data[0]?.itemCount === 2 && data;
  });
  assert.deepEqual([listed.name, listed.datasetId, listed.metadata], [result.runName, dataset.id, { model: "small" }]);
  const items = await client.api.experiments.listItems({
    fromStartTime: "2020-01-01T00:00:00Z", experimentId: result.datasetRunId, fields: "core,dataset,io,scores",
  });
  assert.deepEqual(items.data.map((item) => item.output).toSorted(), ["Lisbon", "Paris"]);
  const run = await client.getDatasetRun(name, result.runName);
  assert.equal(run.datasetRunItems.length, 2);
});
