// Reads a request of OpenAI's chat completions, and refuses by name what is not offered.

/** A request that is not carried out. */
export class Refused extends Error {
  constructor(message, param, status = 400) {
    super(message);
    this.param = param;
    this.status = status;
  }
}

const ROLES = ["system", "developer", "user", "assistant"];
const KNOWN = [
  "model",
  "messages",
  "max_tokens",
  "max_completion_tokens",
  "temperature",
  "top_p",
  "seed",
  "logprobs",
  "top_logprobs",
  "response_format",
  "tools",
  "tool_choice",
];
const DEFAULT_LIMIT = 512;

const unsupported = (param) => new Refused(`Unsupported parameter: '${param}' is not supported by this server.`, param);

function numberIn(body, name, min, max) {
  const value = body[name] ?? undefined;
  if (value !== undefined && !(typeof value === "number" && min <= value && value <= max)) {
    throw new Refused(`'${name}' must be a number from ${min} to ${max}`, name);
  }
  return value;
}

function messagesOf({ messages }) {
  const isMessage = (one) => ROLES.includes(one?.role) && typeof one.content === "string";
  if (!Array.isArray(messages) || messages.length === 0 || !messages.every(isMessage)) {
    throw new Refused(`'messages' must be a list of {role, content} with the roles ${ROLES.join(", ")}`, "messages");
  }
  return messages;
}

/** The schema that the reply has to fit, and the tool whose arguments it is. */
function formOf({ response_format: format, tools, tool_choice: choice }, without) {
  if (tools) {
    if (without.has("tools")) throw unsupported("tools");
    const wanted = choice?.function?.name;
    const tool = tools.find((one) => one?.function?.name === wanted)?.function;
    if (!tool) throw new Refused("'tool_choice' must name one of the tools: this server calls no other", "tool_choice");
    return { schema: tool.parameters ?? { type: "object" }, tool: tool.name };
  }
  const type = format?.type ?? "text";
  if (type === "text") return {};
  if (!["json_schema", "json_object"].includes(type) || without.has(type)) throw unsupported("response_format");
  return type === "json_object" ? { isJson: true } : { schema: format.json_schema?.schema };
}

/** What is asked for. `without` names forms of structure, and `logprobs`, that are refused. */
export function readRequest(body, without) {
  if (body === null || typeof body !== "object" || Array.isArray(body)) throw new Refused("the body is no object", null);
  const unknown = Object.keys(body).find((name) => !KNOWN.includes(name));
  if (unknown) throw unsupported(unknown);
  if (body.logprobs && without.has("logprobs")) throw unsupported("logprobs");
  const limit = numberIn(body, "max_completion_tokens", 1, 4096) ?? numberIn(body, "max_tokens", 1, 4096);
  return {
    messages: messagesOf(body),
    limit: limit ?? DEFAULT_LIMIT,
    // Unless it is asked to vary, the same question gets the same answer.
    temperature: numberIn(body, "temperature", 0, 2) ?? 0,
    topP: numberIn(body, "top_p", 0, 1),
    // The model takes 32 bits of it.
    seed: (numberIn(body, "seed", 0, 2 ** 64) ?? 0) % 2 ** 32,
    topLogprobs: body.logprobs ? (numberIn(body, "top_logprobs", 0, 20) ?? 0) : undefined,
    ...formOf(body, without),
  };
}
