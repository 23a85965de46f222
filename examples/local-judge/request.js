// Parses a request of OpenAI's chat completions. Unsupported parameters are refused by name.

/** An invalid or unsupported request. */
export class RequestError extends Error {
  constructor(message, param, status = 400) {
    super(message);
    this.param = param;
    this.status = status;
  }
}

const ROLES = ["system", "developer", "user", "assistant"];
const PARAMETERS = [
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

const unsupported = (param) => new RequestError(`Unsupported parameter: '${param}' is not supported by this server.`, param);

function numberIn(body, name, min, max) {
  const value = body[name] ?? undefined;
  if (value !== undefined && !(typeof value === "number" && min <= value && value <= max)) {
    throw new RequestError(`'${name}' must be a number from ${min} to ${max}`, name);
  }
  return value;
}

function messagesOf({ messages }) {
  const isMessage = (one) => ROLES.includes(one?.role) && typeof one.content === "string";
  if (!Array.isArray(messages) || messages.length === 0 || !messages.every(isMessage)) {
    throw new RequestError(`'messages' must be a list of {role, content} with the roles ${ROLES.join(", ")}`, "messages");
  }
  return messages;
}

/** The schema of the reply, and the tool whose arguments the reply is. */
function formOf({ response_format: format, tools, tool_choice: choice }, without) {
  if (tools) {
    if (without.has("tools")) throw unsupported("tools");
    const toolName = choice?.function?.name;
    const tool = tools.find((one) => one?.function?.name === toolName)?.function;
    if (!tool) throw new RequestError("'tool_choice' must name one of 'tools'", "tool_choice");
    return { schema: tool.parameters ?? { type: "object" }, tool: tool.name };
  }
  const type = format?.type ?? "text";
  if (type === "text") return {};
  if (!["json_schema", "json_object"].includes(type) || without.has(type)) throw unsupported("response_format");
  return type === "json_object" ? { isJson: true } : { schema: format.json_schema?.schema };
}

/** The parsed request. `without` names the forms of structure that are refused, or `logprobs`. */
export function readRequest(body, without) {
  if (body === null || typeof body !== "object" || Array.isArray(body)) throw new RequestError("the body must be a JSON object", null);
  const unknown = Object.keys(body).find((name) => !PARAMETERS.includes(name));
  if (unknown) throw unsupported(unknown);
  if (body.logprobs && without.has("logprobs")) throw unsupported("logprobs");
  const limit = numberIn(body, "max_completion_tokens", 1, 4096) ?? numberIn(body, "max_tokens", 1, 4096);
  return {
    messages: messagesOf(body),
    limit: limit ?? DEFAULT_LIMIT,
    // By default equal requests have equal replies.
    temperature: numberIn(body, "temperature", 0, 2) ?? 0,
    topP: numberIn(body, "top_p", 0, 1),
    // The model supports 32 bits.
    seed: (numberIn(body, "seed", 0, 2 ** 64) ?? 0) % 2 ** 32,
    topLogprobs: body.logprobs ? (numberIn(body, "top_logprobs", 0, 20) ?? 0) : undefined,
    ...formOf(body, without),
  };
}
