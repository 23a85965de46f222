// The promises that take the engine's place on QuickJS, against the engine's own.

import assert from "node:assert/strict";
import { test } from "node:test";

const Own = globalThis.Promise;
const ownMicrotask = globalThis.queueMicrotask;
const { settle } = await import("../settle-now.js");
const Settling = globalThis.Promise;
// The test runner needs the engine's.
globalThis.Promise = Own;
globalThis.queueMicrotask = ownMicrotask;

/** The trace of a scenario with either kind of promise: the words in order, and the outcome. */
const stories = {
  "reactions run in order": (P, say) => {
    P.resolve(1).then(() => say("a")).then(() => say("c"));
    P.resolve(2).then(() => say("b"));
    return P.resolve("end");
  },
  "a rejection is caught once and gone": (P, say) =>
    P.reject(new Error("no"))
      .then(() => say("never"))
      .catch((error) => say(error.message))
      .then(() => "caught"),
  "a promise resolved with a promise follows it": (P) => new P((resolve) => resolve(P.resolve(P.resolve("deep")))),
  "only the first settling counts": (P) =>
    new P((resolve, reject) => {
      resolve("first");
      reject(new Error("second"));
      throw new Error("third");
    }),
  "a thenable is followed, and its errors reject": (P, say) =>
    P.all([
      P.resolve({ then: (done) => done("thenable") }),
      P.resolve({ then: () => { throw new Error("then"); } }).catch((error) => error.message),
    ]).then((both) => both.forEach(say)),
  "finally hands on what came, unless it fails itself": (P, say) =>
    P.allSettled([
      P.resolve(1).finally(() => say("ran")),
      P.reject(new Error("kept")).finally(() => "ignored"),
      P.resolve(2).finally(() => { throw new Error("own"); }),
    ]).then((all) => all.map(({ status, value, reason }) => [status, value ?? reason.message].join()).join(";")),
  "all keeps the order and fails at the first": (P) =>
    P.all([P.resolve(1), 2, new P((resolve) => P.resolve().then(() => resolve(3)))]).then((all) =>
      P.all([P.reject(new Error("one")), 2]).catch((error) => [...all, error.message].join())),
  "any and race take the first": (P) =>
    P.all([P.race([P.resolve().then(() => "slow"), P.resolve("quick")]), P.any([P.reject(1), P.resolve("good")]), P.all([]), P.allSettled([])])
      .then((all) => JSON.stringify(all)),
  "any fails when all fail": (P) => P.any([P.reject("x"), P.reject("y")]).catch((error) => `${error.name} ${error.errors}`),
  "a promise cannot wait for itself": (P) => {
    const { promise, resolve } = P.withResolvers?.() ?? {};
    if (!promise) return P.resolve("TypeError");
    resolve(promise);
    return promise.catch((error) => error.name);
  },
  "an executor that throws rejects": (P) => new P(() => { throw new Error("at once"); }),
};

for (const [name, story] of Object.entries(stories)) {
  test(name, async () => {
    const settled = async (P, wait) => {
      const words = [];
      let end;
      try {
        end = await wait(() => story(P, (word) => words.push(word)));
      } catch (error) {
        end = `rejected: ${error.message}`;
      }
      return { words, end };
    };
    const expected = await settled(Own, (call) => call());
    const now = (call) => settle(call, (value) => value, (thrown) => { throw thrown; });
    assert.deepEqual(await settled(Settling, now), expected);
  });
}

test("a promise that never settles is an error", () => {
  const failed = settle(() => new Settling(() => {}), String, (thrown) => thrown.message);
  assert.match(failed, /never settles/);
});

test("a value that is not a promise is returned unchanged", () => {
  assert.equal(settle(() => 5, (value) => value + 1), 6);
});
