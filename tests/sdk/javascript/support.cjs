// What the scripts share: names of their own, plain requests, and patience for what the clients send.

"use strict";

const assert = require("node:assert/strict");
const { randomBytes, randomUUID } = require("node:crypto");

const PATIENCE_MS = 300_000;

const origin = process.env.LANGFUSE_BASE_URL;
const keys = `${process.env.LANGFUSE_PUBLIC_KEY}:${process.env.LANGFUSE_SECRET_KEY}`;

/** What the server answers, without a client between. */
async function rest(path) {
  const authorization = `Basic ${Buffer.from(keys).toString("base64")}`;
  const answer = await fetch(`${origin}/api/public${path}`, { headers: { authorization } });
  const text = await answer.text();
  assert.ok(answer.ok, `${path}: ${answer.status} ${text}`);
  return JSON.parse(text);
}

/** Asks again and again, a bounded time, until the answer is there and true. */
async function eventually(ask) {
  const end = Date.now() + PATIENCE_MS;
  let last;
  while (Date.now() < end) {
    try {
      last = await ask();
      if (last) return last;
    } catch (error) {
      last = error; // not there yet
    }
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error("it did not come true", { cause: last });
}

/** The observations of a trace, when there are as many. */
function observations(traceId, n) {
  const fields = "core,basic,time,io,metadata,model,usage,prompt,metrics,trace_context";
  return eventually(async () => {
    const { data } = await rest(`/v2/observations?traceId=${traceId}&fields=${fields}&limit=100`);
    return data.length === n && data;
  });
}

/** The scores that a query finds, when there are as many, by their names. */
async function scores(query, n) {
  const found = await eventually(async () => {
    const { data } = await rest(`/v3/scores?fields=details,subject&limit=100&${query}`);
    return data.length === n && data;
  });
  return Object.fromEntries(found.map((score) => [score.name, score]));
}

/** The server refuses the call with this status. */
async function refuses(status, call) {
  const error = await call().then(
    () => assert.fail(`it was not refused with ${status}`),
    (error) => error,
  );
  const found = error.statusCode ?? error.status ?? error.response?.status;
  assert.equal(found, status, String(error));
  return error;
}

/** The page at an address of the server, logged in with the key pair. */
async function page(address) {
  const [public_key, secret_key] = keys.split(":");
  const body = new URLSearchParams({ public_key, secret_key });
  const headers = { origin };
  const login = await fetch(`${origin}/login`, { method: "POST", body, headers, redirect: "manual" });
  const cookie = login.headers.get("set-cookie").split(";")[0];
  const answer = await fetch(address, { headers: { cookie } });
  assert.equal(answer.status, 200, address);
  return answer.text();
}

/** A name that no other test uses, with what makes paths difficult. */
const unique = (what) => `folder/${what} 100% ${randomUUID()}`;

/** A picture that nobody has uploaded before. */
function picture() {
  const start = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
  return Buffer.concat([Buffer.from(start, "base64"), randomBytes(8)]);
}

module.exports = { eventually, observations, page, picture, refuses, rest, scores, unique };
