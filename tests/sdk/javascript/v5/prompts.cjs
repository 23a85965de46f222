// Prompts as `@langfuse/client` makes, reads and keeps them.

"use strict";

const assert = require("node:assert/strict");
const { randomUUID } = require("node:crypto");
const { test } = require("node:test");
const { eventually, refuses, unique } = require("../support.cjs");
const { client } = require("./support.cjs");

const FRESH = { cacheTtlSeconds: 0 };

test("a text prompt goes there and back", async () => {
  const name = unique("tone");
  const made = await client.prompt.create({
    name, prompt: "Be {{tone}} to {{who}}.", labels: ["production"], tags: ["a", "b"],
    config: { model: "small", temperature: 0.5 }, commitMessage: "first",
  });
  assert.equal(made.version, 1);
  const found = await client.prompt.get(name);
  assert.equal(found.compile({ tone: "kind", who: "all" }), "Be kind to all.");
  assert.equal(found.getLangchainPrompt(), "Be {tone} to {who}.");
  assert.deepEqual([found.labels.toSorted(), found.tags], [["latest", "production"], ["a", "b"]]);
  assert.deepEqual([found.config, found.commitMessage], [{ model: "small", temperature: 0.5 }, "first"]);
  assert.equal(found.isFallback, false);
});

test("a chat prompt has placeholders for messages", async () => {
  const name = unique("chat");
  await client.prompt.create({
    name, type: "chat", labels: ["production"],
    prompt: [
      { role: "system", content: "You are {{role}}." },
      { type: "placeholder", name: "history" },
      { role: "user", content: "{{question}}" },
    ],
  });
  const found = await client.prompt.get(name, { type: "chat" });
  const history = [{ role: "user", content: "Hi" }, { role: "assistant", content: "Hello" }];
  const compiled = found.compile({ role: "a judge", question: "Why?" }, { history });
  assert.deepEqual(compiled.map(({ role, content }) => [role, content]), [
    ["system", "You are a judge."], ["user", "Hi"], ["assistant", "Hello"], ["user", "Why?"],
  ]);
});

test("labels choose the version and move", async () => {
  const name = unique("labels");
  for (const prompt of ["one", "two"]) await client.prompt.create({ name, prompt, labels: ["production"] });
  const get = async (how) => (await client.prompt.get(name, { ...FRESH, ...how })).prompt;
  assert.equal(await get(), "two");
  assert.equal(await get({ version: 1 }), "one");
  await client.prompt.update({ name, version: 1, newLabels: ["production", "eu"] });
  assert.equal(await get(), "one");
  assert.equal(await get({ label: "eu" }), "one");
  assert.equal(await get({ label: "latest" }), "two");
  await refuses(400, () => client.prompt.update({ name, version: 1, newLabels: ["latest"] }));
});

test("a missing prompt falls back", async () => {
  const how = { ...FRESH, maxRetries: 0 };
  const fallback = await client.prompt.get(unique("none"), { ...how, fallback: "Hi {{x}}" });
  assert.deepEqual([fallback.isFallback, fallback.compile({ x: "you" })], [true, "Hi you"]);
  const messages = [{ role: "user", content: "Hi" }];
  const chat = await client.prompt.get(unique("none"), { ...how, type: "chat", fallback: messages });
  assert.equal(chat.compile()[0].content, "Hi");
  await assert.rejects(client.prompt.get(unique("none"), how));
});

test("the cache serves a prompt until it is stale or changed", async () => {
  const name = unique("cached");
  await client.prompt.create({ name, prompt: "one", labels: ["production"] });
  assert.equal((await client.prompt.get(name)).prompt, "one");
  // Another program moves the label: this client goes on with what it has, then asks again.
  await client.api.prompts.create({ type: "text", name, prompt: "two", labels: ["production"] });
  assert.equal((await client.prompt.get(name)).prompt, "one");
  await eventually(async () => (await client.prompt.get(name, FRESH)).prompt === "two");
  await client.prompt.update({ name, version: 1, newLabels: ["production"] });
  await eventually(async () => (await client.prompt.get(name)).prompt === "one");
});

test("prompts include others, are listed and deleted", async () => {
  const [part, whole] = [`part ${randomUUID()}`, `whole ${randomUUID()}`];
  await client.prompt.create({ name: part, prompt: "Never lie to {{who}}.", labels: ["production"] });
  const reference = `@@@langfusePrompt:name=${part}|label=production@@@`;
  await client.prompt.create({ name: whole, prompt: `Help. ${reference}`, labels: ["production"], tags: ["listed"] });
  const found = await client.prompt.get(whole, FRESH);
  assert.equal(found.compile({ who: "us" }), "Help. Never lie to us.");
  const listed = await client.api.prompts.list({ tag: "listed" });
  assert.deepEqual(listed.data.map((one) => [one.name, one.versions]), [[whole, [1]]]);
  await refuses(400, () => client.prompt.delete(part));
  await client.prompt.delete(whole, { version: 1 });
  await client.prompt.delete(part);
  await refuses(404, () => client.api.prompts.get(part));
});
