// Types of the SDK. The types of a configuration and of scores are derived from the declarations of the evaluator.

/** Any JSON value. */
export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

/** The JSON Schema (draft 2020-12) of a configuration. */
export interface ConfigSchema {
  readonly type: "object";
  readonly properties?: { readonly [name: string]: object };
  readonly required?: readonly string[];
  readonly [keyword: string]: unknown;
}

type Value<S> = S extends { readonly const: infer C }
  ? C
  : S extends { readonly enum: readonly (infer E)[] }
    ? E
    : S extends { readonly type: "string" }
      ? string
      : S extends { readonly type: "integer" | "number" }
        ? number
        : S extends { readonly type: "boolean" }
          ? boolean
          : S extends { readonly type: "null" }
            ? null
            : S extends { readonly type: "array"; readonly items: infer I }
              ? Value<I>[]
              : S extends { readonly type: "object"; readonly properties: infer P }
                ? Members<P, S>
                : unknown;

// Required members and those with a default are always present: the server fills in defaults.
type Given<P, S> = {
  [K in keyof P]: P[K] extends { readonly default: unknown }
    ? K
    : S extends { readonly required: readonly (infer R)[] }
      ? K extends R
        ? K
        : never
      : never;
}[keyof P];

type Members<P, S> = { [K in Given<P, S>]: Value<P[K]> } & { [K in Exclude<keyof P, Given<P, S>>]?: Value<P[K]> };

/** The configuration that a schema allows. */
export type Config<S> = S extends { readonly properties: infer P } ? Members<P, S> : { [name: string]: Json };

/** Parts of an item. */
export type Part = "input" | "output" | "expectedOutput" | "metadata" | "trace";

/** The reference to a recorded execution. */
export interface TraceRef {
  traceId: string;
  observationId?: string | undefined;
}

/** The item that is scored. A part that is absent or not in `needs` is `undefined`. */
export interface Item {
  /** For log lines only: a score must not depend on it. */
  readonly id: string;
  readonly input: Json | undefined;
  readonly output: Json | undefined;
  readonly expectedOutput: Json | undefined;
  readonly metadata: { [key: string]: Json };
  readonly trace: TraceRef | undefined;
  /** The id of the scored session, for `ctx.session`. */
  readonly session: string | undefined;
  /** The id of the scored run of an experiment, for `ctx.run`. */
  readonly run: string | undefined;
  /** True when the part is present, including the JSON value null. */
  has(part: Part): boolean;
  /** A part as text: a string unchanged, any other value as JSON text. Throws `InvalidInput` when absent. */
  text(part: "input" | "output" | "expectedOutput" | "metadata"): string;
  /** A part, or `InvalidInput` when it is absent. */
  required(part: "input" | "output" | "expectedOutput"): Json;
  /** The payload of a part. */
  raw(part: "input" | "output" | "expectedOutput"): { tag: "text" | "json"; val: string } | undefined;
}

/** A call of a tool by the model. */
export interface ToolCall {
  /** The identifier that the result refers to. */
  id: string;
  name: string;
  /** The text of a JSON object, written by a model: it may violate the schema of the tool or be invalid JSON. */
  arguments: string;
}

/** A tool call of a completion. */
export interface CompletionToolCall extends ToolCall {
  /** The arguments as an object. Throws when they are not one; the error is suitable for `failed`. */
  read(): { [name: string]: any };
  /** The result of the tool: text, or a value that the model reads as JSON. */
  result(content: unknown): ToolResult;
  /** The result of a failed tool. */
  failed(why: unknown): ToolResult;
}

/** The result of a tool call; in messages of the role `tool`. */
export interface ToolResult {
  callId: string;
  content: string;
  /** True when the tool failed; `content` is the reason. */
  isError?: boolean;
}

/** A part of a message. Media are ids of stored media of the project; the host loads them. */
export type MessagePart =
  | string
  | { text: string }
  | { image: string }
  | { audio: string }
  | { file: string }
  | ToolCall
  | ToolResult;

export interface Message {
  role: "system" | "user" | "assistant" | "tool";
  content: MessagePart | readonly MessagePart[];
}

/** A function of the evaluator that the model may call. */
export interface Tool {
  /** 1 to 64 of letters, digits, `_` and `-`, unique in the request. */
  name: string;
  /** The description for the model: when and how to use the tool. */
  description?: string;
  /** JSON Schema of the arguments, whose type is object. */
  parameters?: object;
}

/** One chat completion. Either `messages`, or `prompt` with or without `system`. */
export interface CompletionRequest {
  messages?: readonly Message[];
  prompt?: string;
  system?: string;
  /** A declared slot. Defaults to the first chat slot. */
  slot?: string;
  /** JSON Schema of the answer; `structured` satisfies it. */
  schema?: object;
  temperature?: number;
  topP?: number;
  maxOutputTokens?: number;
  seed?: number;
  stop?: string[];
  topLogprobs?: number;
  cache?: "standard" | "refresh" | "bypass";
  /** Settings of a provider. */
  extra?: { [name: string]: Json };
  /** The tools that the model may call. The evaluator executes them and sends another request with the results. */
  tools?: readonly Tool[];
  /** Whether the model must call a tool; `{ name }` is the tool it must call. */
  toolChoice?: "auto" | "required" | "none" | { name: string };
}

/** The probabilities of the choices. */
export interface Distribution {
  /** The probability of each choice; the sum is 1. */
  shares: { [choice: string]: number };
  /** The probability of the first choice minus that of the second. */
  margin: number;
  /** The total probability of the tokens that begin a choice. Below about 0.9 the shares are not reliable. */
  coverage: number;
}

export interface Completion {
  /** May be empty when the model calls tools. */
  text: string;
  /** Present when a schema was set and the model did not call tools instead. */
  structured: any;
  finish: "stop" | "length" | "content-filter" | "tool-calls" | "other";
  usage: { inputTokens: number; outputTokens: number };
  logprobs: { token: string; logprob: number; alternatives: { token: string; logprob: number }[] }[];
  /** The calls of tools, in the order of the model. */
  toolCalls: CompletionToolCall[];
  model: string;
  fromCache: boolean;
  /** The message of the model for the next request. A message of the role `tool` with a result of each call must follow. */
  readonly message: Message;
  /**
   * The probability of each of the choices, from the log-probabilities of the tokens that distinguish them; set
   * `topLogprobs` in the request. `undefined` without log-probabilities, and when no choice begins at the place: the whole
   * answer, the member of this name of a JSON object, or this index of `text`. Choices are plain text: `yes` and not
   * `"yes"`, `true` for a boolean.
   */
  probabilities(choices: readonly (string | number | boolean)[], place?: string | { offset: number }): Distribution | undefined;
}

/** The models of the declared slots. Calls block until the answer arrives; `await` is allowed. */
export interface Models {
  /** Throws `ModelError`. */
  complete(request: CompletionRequest | string): Completion;
  /** At most 64 requests concurrently; the results have the order of the requests. */
  completeAll(
    requests: (CompletionRequest | string)[],
  ): ({ status: "fulfilled"; value: Completion } | { status: "rejected"; reason: ModelError })[];
  /** One vector per text, for at most 256 texts. Throws `ModelError`. */
  embed(texts: string[], options?: { slot?: string }): number[][];
}

export type ObservationKind =
  | "span"
  | "generation"
  | "event"
  | "agent"
  | "tool"
  | "chain"
  | "retriever"
  | "evaluator"
  | "embedding"
  | "guardrail";

export interface Observation {
  id: string;
  parentId?: string | null;
  kind: ObservationKind;
  name?: string | null;
  start: number;
  end?: number;
  severity: "debug" | "standard" | "warning" | "error";
  statusMessage?: string | null;
  model?: string | null;
  inputTokens?: number;
  outputTokens?: number;
  inputSize: number;
  outputSize: number;
}

export interface TraceInfo {
  id: string;
  name?: string | null;
  sessionId?: string | null;
  userId?: string | null;
  start: number;
  tags: string[];
  metadata?: { [key: string]: Json };
  observationCount: number;
}

/** One line of the outline of a trace. */
export interface OutlineEntry {
  id: string;
  parentId?: string | null;
  /** 0 at the top of the requested tree. */
  depth: number;
  kind: ObservationKind;
  name?: string | null;
  severity: "debug" | "standard" | "warning" | "error";
  start: number;
  /** Absent for an observation without end. */
  durationMs?: number;
  inputSize: number;
  outputSize: number;
  /** Direct children. */
  childCount: number;
}

/** The parts of an observation that can be large. */
export type ObservationPart = "input" | "output" | "metadata";

/** An occurrence of a text. */
export interface Hit {
  observationId: string;
  part: ObservationPart;
  /** Byte offset in the part, as for `range`. */
  offset: number;
  /** The occurrence with about 100 bytes on each side. */
  excerpt: string;
}

/** A range of one part. */
export interface Slice {
  text: string;
  /** The start in bytes, moved back to the beginning of a character. */
  offset: number;
  /** The size of the whole part in bytes. */
  total: number;
  /** True when the whole part is JSON, and not the text of a JSON string. */
  isJson: boolean;
}

/** The recorded execution of the item. Calls throw `TraceError`. */
export interface Trace {
  /** Another trace of the scored session or run. */
  of(traceId: string): Trace;
  get(): TraceInfo;
  /** Observations by start; pages are read on demand. */
  observations(filter?: {
    parentId?: string;
    kinds?: ObservationKind[];
    name?: string;
    pageSize?: number;
  }): Generator<Observation, void, undefined>;
  input(observationId: string): Json | undefined;
  output(observationId: string): Json | undefined;
  metadata(observationId: string): { [key: string]: Json } | undefined;
  /**
   * The tree, or the subtree below one observation: depth first, children by start. A trace of more than 50,000
   * observations has no outline.
   */
  outline(options?: { parentId?: string; pageSize?: number }): Generator<OutlineEntry, void, undefined>;
  /** The occurrences of a text of 1 to 1,000 bytes, ignoring case; at most 100. */
  search(text: string, options?: { limit?: number }): Hit[];
  /** `length` bytes, at most 1 MiB, of a part from byte `offset`; `undefined` when the observation has no such part. */
  range(observationId: string, part: ObservationPart, options?: { offset?: number; length?: number }): Slice | undefined;
}

/** The scored session: `item.session`. Its traces are read with `ctx.trace.of(id)`. Calls throw `TraceError`. */
export interface Session {
  get(): {
    id: string;
    traceCount: number;
    /** Start of the first trace. */
    start: number;
    /** Start of the last trace. */
    end: number;
    /** The users of the session, sorted; the first 100. */
    userIds: string[];
  };
  /** Its traces by start. */
  traces(options?: { pageSize?: number }): Generator<TraceInfo, void, undefined>;
}

/** The recorded execution of one item of the dataset. */
export interface RunItem {
  id: string;
  datasetItemId?: string | null;
  trace?: TraceRef | null;
  /** The input in the dataset; if absent, the recorded one. */
  input: Json | undefined;
  output: Json | undefined;
  expectedOutput: Json | undefined;
  /** The metadata of the item of the dataset. */
  metadata: Json | undefined;
}

/** The scored run of an experiment: `item.run`. Traces of its items are read with `ctx.trace.of(id)`. */
export interface Run {
  get(): { id: string; name?: string | null; datasetId?: string | null; metadata: Json | undefined; itemCount: number };
  /** Its items, the newest first. */
  items(options?: { pageSize?: number }): Generator<RunItem, void, undefined>;
}

type LogLine = (message: string, fields?: { [name: string]: Json }) => void;

/** The third argument of `evaluate`. */
export interface Context {
  /** Derived from plug-in, evaluator, configuration and item; equal calls have equal seeds. It seeds `Math.random`. */
  readonly seed: number;
  /** The start time of the run in milliseconds since 1970. Clocks always return this time. */
  readonly runTime: number;
  readonly log: { debug: LogLine; info: LogLine; warn: LogLine; error: LogLine };
  /** Only where `slots` are declared. */
  readonly model: Models;
  /** Only where `needs` has `"trace"`. */
  readonly trace: Trace;
  /** Only where `needs` has `"trace"`. */
  readonly session: Session;
  /** Only where `needs` has `"trace"`. */
  readonly run: Run;
}

type Plain = number | boolean | string;

/** One score. */
export interface Score<V extends Plain = Plain> {
  value: V;
  /** A short explanation for users. */
  comment?: string | null | undefined;
  metadata?: { [key: string]: unknown } | null | undefined;
  /** Attach the score to this observation instead of the subject. */
  observationId?: string | null | undefined;
}

export interface NamedScore extends Score {
  name: string;
}

/** A declared score, created by `numeric`, `share`, `boolean` and `category`. */
export interface ScoreSpec<V extends Plain = Plain> {
  readonly description: string;
  readonly domain: { tag: "numeric"; val: object } | { tag: "boolean" } | { tag: "categorical"; val: string[] };
  readonly _value?: V;
}

export function numeric(
  description?: string,
  range?: { min?: number; max?: number; higherIsBetter?: boolean },
): ScoreSpec<number>;
export function share(description?: string, options?: { higherIsBetter?: boolean }): ScoreSpec<number>;
export function boolean(description?: string): ScoreSpec<boolean>;
export function category<const T extends readonly string[] = readonly string[]>(
  description?: string,
  values?: T,
): ScoreSpec<T[number]>;

type ValueOf<Spec> = Spec extends ScoreSpec<infer V> ? V : never;
type One<V extends Plain> = V | Score<V>;

/** The result of `evaluate`: nothing, the value of the only score, an object by names, or a list. */
export type Returned<Scores> =
  | { [K in keyof Scores]?: One<ValueOf<Scores[K]>> | null }
  | One<ValueOf<Scores[keyof Scores]>>
  | NamedScore[]
  | null
  | undefined
  | void;

export interface Problem {
  /** JSON Pointer into the configuration; empty for the whole of it. */
  pointer?: string;
  message: string;
}

export interface EvaluatorSpec<S extends ConfigSchema, Scores> {
  /** 1 to 64 of `a-z`, `0-9` and `-`; a letter first. */
  id: string;
  title?: string;
  description?: string;
  config?: S;
  /** The parts of the item that the evaluator reads. Defaults to `["output"]`. */
  needs?: readonly Part[];
  /** The slots of the models it calls, by name. */
  slots?: { [name: string]: true | { description?: string; kind?: "chat" | "embedding"; required?: boolean } };
  scores?: Scores;
  /** True when score names depend on the configuration or the data. */
  dynamicScores?: boolean;
  /** True, the default, when equal calls have equal scores. */
  deterministic?: boolean;
  evaluate(item: Item, config: Config<S>, ctx: Context): Returned<Scores> | Promise<Returned<Scores>>;
  /** Scores all items: scores or an `EvalError` for each, in order. */
  evaluateBatch?(
    items: Item[],
    config: Config<S>,
    ctx: Context,
  ): (Returned<Scores> | EvalError)[] | Promise<(Returned<Scores> | EvalError)[]>;
  /** The problems of a configuration that a JSON Schema cannot express. */
  checkConfig?(config: Config<S>): (Problem | string)[];
}

/** A defined evaluator. */
export interface Evaluator {
  readonly id: string;
}

export function defineEvaluator<
  const S extends ConfigSchema,
  const Scores extends { readonly [name: string]: ScoreSpec<any> },
>(spec: EvaluatorSpec<S, Scores>): Evaluator;
/** A class: the description in static members, and a method `evaluate`. */
export function defineEvaluator(
  spec: (new () => { evaluate(item: Item, config: any, ctx: Context): unknown }) & { readonly id: string },
): Evaluator;

export interface Plugin {
  readonly evaluators: ReadonlyMap<string, Evaluator>;
}

/** The plug-in: the default export of its main module. */
export function definePlugin(plugin: {
  /** `vendor/name`. */
  name: string;
  /** Semantic version. */
  version: string;
  description?: string;
  evaluators: Evaluator[];
}): Plugin;

/** The reason why there is no score. */
export class EvalError extends Error {
  constructor(
    kind: "invalid-config" | "invalid-input" | "not-applicable" | "upstream" | "transient" | "internal",
    message: string,
  );
  readonly kind: string;
}
/** The configuration satisfies its schema and is invalid nevertheless. */
export class InvalidConfig extends EvalError {
  constructor(message: string);
}
/** A needed part of the item is absent or has an invalid shape. */
export class InvalidInput extends EvalError {
  constructor(message: string);
}
/** There is nothing to measure for this item: recorded as skipped, not as 0. */
export class NotApplicable extends EvalError {
  constructor(message: string);
}
/** A call to the host failed and the evaluator cannot continue without it. */
export class Upstream extends EvalError {
  constructor(message: string);
}
/** A transient failure: another attempt may succeed. */
export class Transient extends EvalError {
  constructor(message: string);
}
/** A model call failed. If not caught, it becomes `upstream`. */
export class ModelError extends Upstream {
  /** The case, such as `rate-limited`. */
  readonly reason: string;
  /** The message of the host. */
  readonly detail: string;
}
/** A part of the trace could not be read. If not caught, it becomes `upstream`. */
export class TraceError extends Upstream {
  /** The case, such as `not-found`. */
  readonly reason: string;
  /** The message of the host. */
  readonly detail: string;
}
