// Replaces the package `openai` in the bundle: the functions that the scorers call, implemented by the models of the
// host. It has no keys, addresses or model names: the slot of the evaluator determines the model.

/** Bindings of the call in progress: `ctx` of the SDK. */
let host;

/** Sets the host of the client. */
export function setHost(ctx) {
  host = ctx;
}

// Requests in the same turn are sent together: the scorers send them concurrently with `Promise.all`.
const waiting = [];

function flush() {
  const pending = waiting.splice(0);
  const seen = new Map();
  const requests = pending.map(({ request }) => {
    // A repeated request needs a new answer, not one from the response cache.
    const key = JSON.stringify(request);
    const times = seen.get(key) ?? 0;
    seen.set(key, times + 1);
    return times === 0 ? request : { ...request, seed: (host.seed % 2 ** 31) + times };
  });
  const answers = host.model.completeAll(requests);
  answers.forEach((answer, index) => {
    const { resolve, reject } = pending[index];
    if (answer.status === "fulfilled") resolve(answer.value);
    else reject(answer.reason);
  });
}

function send(request) {
  return new Promise((resolve, reject) => {
    if (waiting.length === 0) queueMicrotask(flush);
    waiting.push({ request, resolve, reject });
  });
}

// The only tool of a scorer defines the form of its answer: its parameters are the response schema.
async function create({ messages, tools, temperature, max_tokens: maxOutputTokens }) {
  const tool = tools?.[0]?.function;
  const answer = await send({ messages, schema: tool?.parameters, temperature, maxOutputTokens });
  const called = { type: "function", function: { name: tool?.name, arguments: JSON.stringify(answer.structured) } };
  const message = { role: "assistant", content: answer.text, tool_calls: tool ? [called] : undefined };
  return { model: answer.model, choices: [{ index: 0, message, finish_reason: "stop" }] };
}

/** The client: chat completions and embeddings. */
export const client = {
  chat: { completions: { create } },
  embeddings: {
    create: async ({ input }) => ({ data: [{ embedding: host.model.embed([input], { slot: "embedding" })[0] }] }),
  },
};

/** Never constructed: the scorers use `client`. */
export class OpenAI {}
export class AzureOpenAI {}
