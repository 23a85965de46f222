// Prompts as npm's `langfuse` 3 makes, reads and keeps them.

"use strict";

const assert = require("node:assert/strict");
const { test } = require("node:test");
const { eventually, unique } = require("../support.cjs");
const { client } = require("./support.cjs");

const FRESH = { cacheTtlSeconds: 0, maxRetries: 0 };

test("a text prompt goes there and back, and its label moves", async () => {
  const name = unique("tone");
  const prompt = "Be {{tone}}.";
  const made = await client.createPrompt({ name, prompt, labels: ["production"], tags: ["a"], config: { t: 0.5 } });
  assert.equal(made.version, 1);
  const found = await client.getPrompt(name);
  assert.deepEqual([found.compile({ tone: "kind" }), found.config, found.tags], ["Be kind.", { t: 0.5 }, ["a"]]);
  await client.createPrompt({ name, prompt: "two", labels: ["production"] });
  assert.equal((await client.getPrompt(name, undefined, FRESH)).prompt, "two");
  assert.equal((await client.getPrompt(name, 1, FRESH)).prompt, prompt);
  await client.updatePrompt({ name, version: 1, newLabels: ["production"] });
  assert.equal((await client.getPrompt(name, undefined, FRESH)).prompt, prompt);
  assert.equal((await client.getPrompt(name, undefined, { ...FRESH, label: "latest" })).prompt, "two");
});

test("a chat prompt has placeholders for messages", async () => {
  const name = unique("chat");
  await client.createPrompt({
    name, type: "chat", labels: ["production"],
    prompt: [{ role: "system", content: "You are {{role}}." }, { type: "placeholder", name: "history" }],
  });
  const found = await client.getPrompt(name, undefined, { type: "chat" });
  const compiled = found.compile({ role: "a judge" }, { history: [{ role: "user", content: "Hi" }] });
  assert.deepEqual(compiled.map(({ role, content }) => [role, content]), [["system", "You are a judge."], ["user", "Hi"]]);
});

test("a missing prompt falls back, a known one is served from the cache", async () => {
  const fallback = await client.getPrompt(unique("none"), undefined, { ...FRESH, fallback: "Hi {{x}}" });
  assert.deepEqual([fallback.isFallback, fallback.compile({ x: "you" })], [true, "Hi you"]);
  const messages = [{ role: "user", content: "Hi" }];
  const chat = await client.getPrompt(unique("none"), undefined, { ...FRESH, type: "chat", fallback: messages });
  assert.equal(chat.compile()[0].content, "Hi");
  await assert.rejects(client.getPrompt(unique("none"), undefined, FRESH));
  const name = unique("cached");
  await client.createPrompt({ name, prompt: "one", labels: ["production"] });
  assert.equal((await client.getPrompt(name)).prompt, "one");
  await client.createPromptStateless({ name, prompt: "two", labels: ["production"] });
  assert.equal((await client.getPrompt(name)).prompt, "one");
  await eventually(async () => (await client.getPrompt(name, undefined, FRESH)).prompt === "two");
});
