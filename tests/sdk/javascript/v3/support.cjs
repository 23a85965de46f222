// A client of version 3.

"use strict";

const { after } = require("node:test");
const { Langfuse } = require("langfuse");

const client = new Langfuse({ environment: "testing", release: "r1", flushInterval: 100, fetchRetryCount: 0, requestTimeout: 300_000 });

after(() => client.shutdownAsync());

module.exports = { client };
