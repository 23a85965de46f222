// A local model behind OpenAI's `POST /v1/chat/completions`, one request at a time:
//
//     node server.js --model model.gguf [--port 8089] [--without json_schema,tools,json_object,logprobs] [--max-text 160]
//
// Unsupported parameters are refused with status 400 and their name. `--without` disables further parameters.

import { createServer } from "node:http";
import { parseArgs } from "node:util";

import { RequestError, readRequest } from "./request.js";
import { openModel } from "./model.js";

const MAX_BODY_BYTES = 1 << 20;

const { values } = parseArgs({
  options: {
    model: { type: "string" },
    port: { type: "string", default: "8089" },
    without: { type: "string", default: "" },
    "max-text": { type: "string", default: "160" },
  },
});
if (!values.model) throw new Error("--model FILE is required");
const maxText = Number(values["max-text"]);
if (!(Number.isInteger(maxText) && maxText > 0)) throw new Error(`--max-text must be a positive integer, got ${values["max-text"]}`);
const without = new Set(values.without.split(",").filter(Boolean));
const model = await openModel(values.model, maxText);

// Requests run one after the other: there is one context.
let last = Promise.resolve();

function enqueue(work) {
  const mine = last.then(work);
  last = mine.catch(() => {});
  return mine;
}

async function bodyOf(request) {
  const parts = [];
  let size = 0;
  for await (const part of request) {
    size += part.length;
    if (size > MAX_BODY_BYTES) throw new RequestError("the request is too large", null, 413);
    parts.push(part);
  }
  try {
    return JSON.parse(Buffer.concat(parts).toString("utf8"));
  } catch {
    throw new RequestError("the body is not JSON", null);
  }
}

function answerOf(parsed, reply) {
  const { text, tokens, promptTokens, isComplete } = reply;
  const call = { id: "call_1", type: "function", function: { name: parsed.tool, arguments: text } };
  const message = { role: "assistant", ...(parsed.tool ? { content: null, tool_calls: [call] } : { content: text }) };
  const finished = parsed.tool ? "tool_calls" : "stop";
  const choice = { index: 0, message, finish_reason: isComplete ? finished : "length" };
  if (parsed.topLogprobs !== undefined) choice.logprobs = { content: tokens };
  const usage = { prompt_tokens: promptTokens, completion_tokens: tokens.length };
  return {
    id: "chatcmpl-local",
    object: "chat.completion",
    created: Math.floor(Date.now() / 1000),
    model: model.name,
    choices: [choice],
    usage: { ...usage, total_tokens: promptTokens + tokens.length },
  };
}

async function answer(request, signal) {
  if (request.method !== "POST" || request.url !== "/v1/chat/completions") {
    throw new RequestError(`unknown endpoint ${request.method} ${request.url}`, null, 404);
  }
  const parsed = readRequest(await bodyOf(request), without);
  return answerOf(parsed, await enqueue(() => model.complete(parsed, signal)));
}

function send(response, status, body) {
  response.writeHead(status, { "content-type": "application/json" });
  response.end(JSON.stringify(body));
}

const server = createServer((request, response) => {
  const closed = new AbortController();
  response.on("close", () => closed.abort());
  answer(request, closed.signal).then(
    (body) => send(response, 200, body),
    (thrown) => {
      if (closed.signal.aborted) return;
      const status = thrown instanceof RequestError ? thrown.status : 500;
      if (status === 500) console.error(thrown);
      const error = { message: thrown.message, type: "invalid_request_error", param: thrown.param ?? null, code: null };
      send(response, status, { error });
    },
  );
});
server.listen(Number(values.port), "127.0.0.1", () => {
  console.log(`${model.name} is served at http://127.0.0.1:${server.address().port}/v1`);
});
