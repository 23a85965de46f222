// A model on this machine behind OpenAI's `POST /v1/chat/completions`, for one caller at a time:
//
//     node server.js --model model.gguf [--port 8089] [--without json_schema,tools,json_object,logprobs] [--max-text 160]
//
// What it cannot do is answered with status 400 and the name of the parameter, as other servers do. `--without` makes
// it one that can do less.

import { createServer } from "node:http";
import { parseArgs } from "node:util";

import { Refused, readRequest } from "./request.js";
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
if (!(Number.isInteger(maxText) && maxText > 0)) throw new Error("--max-text: a whole number above 0 is expected");
const without = new Set(values.without.split(",").filter(Boolean));
const model = await openModel(values.model, maxText);

// One after the other: there is one context.
let last = Promise.resolve();

function inTurn(work) {
  const mine = last.then(work);
  last = mine.catch(() => {});
  return mine;
}

async function bodyOf(request) {
  const parts = [];
  let size = 0;
  for await (const part of request) {
    size += part.length;
    if (size > MAX_BODY_BYTES) throw new Refused("the request is too large", null, 413);
    parts.push(part);
  }
  try {
    return JSON.parse(Buffer.concat(parts).toString("utf8"));
  } catch {
    throw new Refused("the body is not JSON", null);
  }
}

function answerOf(asked, reply) {
  const { text, tokens, promptTokens, isComplete } = reply;
  const call = { id: "call_1", type: "function", function: { name: asked.tool, arguments: text } };
  const message = { role: "assistant", ...(asked.tool ? { content: null, tool_calls: [call] } : { content: text }) };
  const finished = asked.tool ? "tool_calls" : "stop";
  const choice = { index: 0, message, finish_reason: isComplete ? finished : "length" };
  if (asked.topLogprobs !== undefined) choice.logprobs = { content: tokens };
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
    throw new Refused("there is POST /v1/chat/completions, and nothing else", null, 404);
  }
  const asked = readRequest(await bodyOf(request), without);
  return answerOf(asked, await inTurn(() => model.complete(asked, signal)));
}

function send(response, status, body) {
  response.writeHead(status, { "content-type": "application/json" });
  response.end(JSON.stringify(body));
}

const server = createServer((request, response) => {
  const gone = new AbortController();
  response.on("close", () => gone.abort());
  answer(request, gone.signal).then(
    (body) => send(response, 200, body),
    (thrown) => {
      if (gone.signal.aborted) return;
      const status = thrown instanceof Refused ? thrown.status : 500;
      if (status === 500) console.error(thrown);
      const error = { message: thrown.message, type: "invalid_request_error", param: thrown.param ?? null, code: null };
      send(response, status, { error });
    },
  );
});
server.listen(Number(values.port), "127.0.0.1", () => {
  console.log(`${model.name} is served at http://127.0.0.1:${server.address().port}/v1`);
});
