// Tests of the evaluator as a function, without a sandbox. `perpend plugin test` tests the component.

import assert from "node:assert/strict";
import { test } from "node:test";

import { failureOf, run } from "../perpend/javascript/testing.js";
import plugin from "../plugin.ts";

test("words are counted", async () => {
  const [score] = await run(plugin, "max-words", { output: "one two  three" }, { maxWords: 2 });
  assert.deepEqual(score, { name: "within_limit", value: false, comment: "3 of 2 words" });
});

test("an item without output is invalid input", async () => {
  await assert.rejects(run(plugin, "max-words", {}, { maxWords: 2 }), (thrown) => failureOf(thrown) === "invalid-input");
});
