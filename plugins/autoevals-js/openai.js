// Stands for the package `openai` in the bundle: the few calls that the scorers make, answered by the models
// of the host. No key, address or model name gets in here; which model answers is the evaluator's slot.

/** Bindings of the call in progress: `ctx` of the SDK. */
let host;

/** Whom the client asks from now on. */
export function answeredBy(ctx) {
  host = ctx;
}

// What is asked in one go is answered in one go: the scorers ask side by side by `Promise.all`.
const waiting = [];

function flush() {
  const asked = waiting.splice(0);
  const seen = new Map();
  const requests = asked.map(({ request }) => {
    // The same question again is meant to be answered anew, and must not come from the response cache.
    const key = JSON.stringify(request);
    const times = seen.get(key) ?? 0;
    seen.set(key, times + 1);
    return times === 0 ? request : { ...request, seed: (host.seed % 2 ** 31) + times };
  });
  const answers = host.model.completeAll(requests);
  answers.forEach((answer, index) => {
    const { resolve, reject } = asked[index];
    if (answer.status === "fulfilled") resolve(answer.value);
    else reject(answer.reason);
  });
}

function ask(request) {
  return new Promise((resolve, reject) => {
    if (waiting.length === 0) queueMicrotask(flush);
    waiting.push({ request, resolve, reject });
  });
}

// The one tool that a scorer offers is the form of its answer, hence the schema of the response.
async function create({ messages, tools, temperature, max_tokens: maxOutputTokens }) {
  const tool = tools?.[0]?.function;
  const answer = await ask({ messages, schema: tool?.parameters, temperature, maxOutputTokens });
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

/** Never constructed: the scorers are given `client`. */
export class OpenAI {}
export class AzureOpenAI {}
