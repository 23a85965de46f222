// A client made from the server's own OpenAPI document: its types are generated, its script is checked against
// them and run.

"use strict";

const assert = require("node:assert/strict");
const { execFile } = require("node:child_process");
const { randomUUID } = require("node:crypto");
const { copyFileSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } = require("node:fs");
const { tmpdir } = require("node:os");
const path = require("node:path");
const { after, test } = require("node:test");
const { promisify } = require("node:util");

const packages = process.env.NODE_PATH;
const origin = process.env.LANGFUSE_BASE_URL;
const keys = `${process.env.LANGFUSE_PUBLIC_KEY}:${process.env.LANGFUSE_SECRET_KEY}`;
// Not synchronous: a connection that the server closes meanwhile would be taken for open.
const run = promisify(execFile);
const folder = mkdtempSync(path.join(tmpdir(), "perpend-generated-"));
after(() => rmSync(folder, { recursive: true }));

test("types are generated from the document without a warning", async () => {
  const answer = await fetch(`${origin}/api/openapi.json`);
  assert.equal(answer.status, 200);
  writeFileSync(path.join(folder, "openapi.json"), await answer.text());
  const generator = path.join(packages, "openapi-typescript/bin/cli.js");
  const made = await run(process.execPath, [generator, "openapi.json", "-o", "api.d.ts"], { cwd: folder });
  assert.doesNotMatch(`${made.stdout}${made.stderr}`, /warn|⚠|error/i);
});

test("a strict script uses ten operations as their types say", async () => {
  for (const name of ["operations.ts", "tsconfig.json"]) {
    copyFileSync(path.join(__dirname, name), path.join(folder, name));
  }
  symlinkSync(packages, path.join(folder, "node_modules"));
  const compiler = path.join(packages, "typescript/bin/tsc");
  await run(process.execPath, [compiler, "-p", "."], { cwd: folder }).catch((error) => {
    throw new Error(error.stdout);
  });
  const { operations } = require(path.join(folder, "out/operations.js"));
  const authorization = `Basic ${Buffer.from(keys).toString("base64")}`;
  const found = await operations(origin, authorization, randomUUID());
  assert.equal(found.traceName, "typed");
  assert.deepEqual(found.steps, ["SPAN answer: short"]);
  assert.deepEqual(found.scores, [["liked", 0.5]]);
  assert.equal(found.ruleStatus, "active");
  assert.deepEqual(found.filter, [
    { type: "stringOptions", column: "traceName", operator: "any of", value: ["typed"] },
  ]);
  // The span has not ended.
  assert.equal(found.step, "not_complete");
  assert.equal(found.executions, 0);
});
