// A client of version 5 and the tracing that it wants: an OpenTelemetry provider with its processor.

"use strict";

const { after } = require("node:test");
const { LangfuseClient } = require("@langfuse/client");
const { LangfuseSpanProcessor } = require("@langfuse/otel");
const { NodeTracerProvider } = require("@opentelemetry/sdk-trace-node");

const client = new LangfuseClient();
const processor = new LangfuseSpanProcessor({ environment: "testing", release: "r1" });
const provider = new NodeTracerProvider({ spanProcessors: [processor] });
provider.register();

/** Sends what was recorded. */
async function flush() {
  await processor.forceFlush();
  await client.flush();
}

after(async () => {
  await provider.shutdown();
  await client.shutdown();
});

module.exports = { client, flush };
