// Types of the SDK. What a configuration and scores look like follows from what the evaluator declares.

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

// Required members and those with a default are always there: the server fills defaults in.
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

/** Where a recorded execution can be read. */
export interface TraceRef {
  traceId: string;
  observationId?: string | undefined;
}

/** What is being scored. A part that is absent, or was not asked for, is `undefined`. */
export interface Item {
  /** For log lines only: a score must not depend on it. */
  readonly id: string;
  readonly input: Json | undefined;
  readonly output: Json | undefined;
  readonly expectedOutput: Json | undefined;
  readonly metadata: { [key: string]: Json };
  readonly trace: TraceRef | undefined;
  /** The session that is scored, for `ctx.session`. */
  readonly session: string | undefined;
  /** The run of an experiment that is scored, for `ctx.run`. */
  readonly run: string | undefined;
  /** True when the part is there, be it the JSON value null. */
  has(part: Part): boolean;
  /** A part as text: a string as it is, anything else as JSON text. Throws `InvalidInput` when absent. */
  text(part: "input" | "output" | "expectedOutput" | "metadata"): string;
  /** A part, or `InvalidInput` when it is absent. */
  required(part: "input" | "output" | "expectedOutput"): Json;
  /** A part as it crossed the boundary. */
  raw(part: "input" | "output" | "expectedOutput"): { tag: "text" | "json"; val: string } | undefined;
}

/** The model asks for a tool to be used. */
export interface ToolCall {
  /** The result names it. */
  id: string;
  name: string;
  /** The text of a JSON object, written by a model: it need not fit the schema of the tool, nor be JSON. */
  arguments: string;
}

/** A tool call of an answer. */
export interface AskedToolCall extends ToolCall {
  /** The arguments as an object; throws when they are none, which is good to be told with `failed`. */
  read(): { [name: string]: any };
  /** What the tool found: text, or a value that the model reads as JSON. */
  result(content: unknown): ToolResult;
  /** Why the tool found nothing. */
  failed(why: unknown): ToolResult;
}

/** What came of a tool call; in messages of the role `tool`. */
export interface ToolResult {
  callId: string;
  content: string;
  /** The tool failed, and `content` says why. */
  isError?: boolean;
}

/** A piece of a message. Media are named by their ids in the project; the host loads them. */
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

/** A function that the model may ask the evaluator to carry out. */
export interface Tool {
  /** 1 to 64 of letters, digits, `_` and `-`, unique in the request. */
  name: string;
  /** Tells the model when and how to use it. */
  description?: string;
  /** JSON Schema of the arguments, an object at its top. */
  parameters?: object;
}

/** One chat completion. Either `messages`, or `prompt` with or without `system`. */
export interface CompletionRequest {
  messages?: readonly Message[];
  prompt?: string;
  system?: string;
  /** A slot that the evaluator declares; the first chat slot when absent. */
  slot?: string;
  /** JSON Schema of the wanted answer; `structured` then follows it. */
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
  /** What the model may ask for. The evaluator carries it out, and asks again with the results. */
  tools?: readonly Tool[];
  /** Whether it has to: `{ name }` names the tool that has to be called. */
  toolChoice?: "auto" | "required" | "none" | { name: string };
}

/** How probable each choice was. */
export interface Distribution {
  /** Of each choice; they sum up to 1. */
  shares: { [choice: string]: number };
  /** How far the most probable choice is ahead of the next one. */
  margin: number;
  /** The probability of all that was seen to begin a choice. Below about 0.9 the shares say little. */
  coverage: number;
}

export interface Completion {
  /** May be empty when the model calls tools. */
  text: string;
  /** Present when a schema was given, and the model did not call tools instead. */
  structured: any;
  finish: "stop" | "length" | "content-filter" | "tool-calls" | "other";
  usage: { inputTokens: number; outputTokens: number };
  logprobs: { token: string; logprob: number; alternatives: { token: string; logprob: number }[] }[];
  /** Tools that the model asks for, in its order. */
  toolCalls: AskedToolCall[];
  model: string;
  fromCache: boolean;
  /** What the model said, for the next request; a message of the role `tool` with a result of each call follows it. */
  readonly message: Message;
  /**
   * How probable each of the choices was, from the log-probabilities of the tokens that tell them apart; the request asked
   * for some with `topLogprobs`. `undefined` when there are none, and when no choice was begun at the place: the whole
   * answer, the member of this name of a JSON object, or from this index of `text` on. Choices are plain text: `yes` and
   * not `"yes"`, `true` for a boolean.
   */
  probabilities(choices: readonly (string | number | boolean)[], place?: string | { offset: number }): Distribution | undefined;
}

/** Models, named by the slots that the evaluator declares. Calls wait for the answer; `await` does no harm. */
export interface Models {
  /** Throws `ModelError`. */
  complete(request: CompletionRequest | string): Completion;
  /** Up to 64 at once, answered in order. */
  completeAll(
    requests: (CompletionRequest | string)[],
  ): ({ status: "fulfilled"; value: Completion } | { status: "rejected"; reason: ModelError })[];
  /** One vector per text, for up to 256 texts. Throws `ModelError`. */
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
  /** 0 at the top of what was asked for. */
  depth: number;
  kind: ObservationKind;
  name?: string | null;
  severity: "debug" | "standard" | "warning" | "error";
  start: number;
  /** Absent while it has no end. */
  durationMs?: number;
  inputSize: number;
  outputSize: number;
  /** Direct children. */
  childCount: number;
}

/** The parts of an observation that can be large. */
export type ObservationPart = "input" | "output" | "metadata";

/** A place where a text was found. */
export interface Hit {
  observationId: string;
  part: ObservationPart;
  /** Byte of the place in the part, for `range`. */
  offset: number;
  /** The place with about 100 bytes on each side. */
  excerpt: string;
}

/** A range of one part. */
export interface Slice {
  text: string;
  /** The byte where it begins: moved back to the beginning of a character. */
  offset: number;
  /** Bytes of the whole part. */
  total: number;
  /** The whole part is JSON, and not the text of a JSON string. */
  isJson: boolean;
}

/** The recorded execution behind the item, read piece by piece. Calls throw `TraceError`. */
export interface Trace {
  /** Another trace: those of the session or run that the item is can be read. */
  of(traceId: string): Trace;
  get(): TraceInfo;
  /** Observations by start; pages are fetched as they are walked over. */
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
   * The tree, or what is below one observation of it: depth first, children by start. A trace of more than 50,000
   * observations has none.
   */
  outline(options?: { parentId?: string; pageSize?: number }): Generator<OutlineEntry, void, undefined>;
  /** Where a text of 1 to 1,000 bytes stands: literally, in upper or lower case; at most 100 places. */
  search(text: string, options?: { limit?: number }): Hit[];
  /** `length` bytes, at most 1 MiB, of a part from byte `offset` on; `undefined` when the observation has no such part. */
  range(observationId: string, part: ObservationPart, options?: { offset?: number; length?: number }): Slice | undefined;
}

/** The session that is scored: `item.session`. Its traces are read with `ctx.trace.of(id)`. Calls throw `TraceError`. */
export interface Session {
  get(): {
    id: string;
    traceCount: number;
    /** When the first of its traces began. */
    start: number;
    /** When the last of them began. */
    end: number;
    /** Whose it was, sorted; the first 100. */
    userIds: string[];
  };
  /** Its traces by start. */
  traces(options?: { pageSize?: number }): Generator<TraceInfo, void, undefined>;
}

/** What was recorded for one item of the dataset. */
export interface RunItem {
  id: string;
  datasetItemId?: string | null;
  trace?: TraceRef | null;
  /** What the dataset says, else what was recorded. */
  input: Json | undefined;
  output: Json | undefined;
  expectedOutput: Json | undefined;
  /** Of the item of the dataset. */
  metadata: Json | undefined;
}

/** The run of an experiment that is scored: `item.run`. Traces of its items are read with `ctx.trace.of(id)`. */
export interface Run {
  get(): { id: string; name?: string | null; datasetId?: string | null; metadata: Json | undefined; itemCount: number };
  /** Its items, the newest first. */
  items(options?: { pageSize?: number }): Generator<RunItem, void, undefined>;
}

type LogLine = (message: string, fields?: { [name: string]: Json }) => void;

/** The third argument of `evaluate`. */
export interface Context {
  /** Made from plug-in, evaluator, configuration and item; equal calls get equal seeds. `Math.random` starts from it. */
  readonly seed: number;
  /** When the run started, in milliseconds since 1970. The clock stands still at this moment. */
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
  /** A short explanation for people. */
  comment?: string | null | undefined;
  metadata?: { [key: string]: unknown } | null | undefined;
  /** Attach the score to this observation instead of the subject. */
  observationId?: string | null | undefined;
}

export interface NamedScore extends Score {
  name: string;
}

/** A declared score; made by `numeric`, `share`, `boolean` and `category`. */
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

/** What `evaluate` may return: nothing, the value of the only score, an object by names, or a list. */
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
  /** Parts of the item that are read; `["output"]` when absent. */
  needs?: readonly Part[];
  /** Models it calls, by the names it uses for them. */
  slots?: { [name: string]: true | { description?: string; kind?: "chat" | "embedding"; required?: boolean } };
  scores?: Scores;
  /** Score names depend on the configuration or the data. */
  dynamicScores?: boolean;
  /** Equal calls give equal scores; true when absent. */
  deterministic?: boolean;
  evaluate(item: Item, config: Config<S>, ctx: Context): Returned<Scores> | Promise<Returned<Scores>>;
  /** All items at once, in order: scores, or an `EvalError`, for each. */
  evaluateBatch?(
    items: Item[],
    config: Config<S>,
    ctx: Context,
  ): (Returned<Scores> | EvalError)[] | Promise<(Returned<Scores> | EvalError)[]>;
  /** What a schema cannot say: problems of a configuration that satisfies it. */
  checkConfig?(config: Config<S>): (Problem | string)[];
}

/** An evaluator that was checked. */
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

/** Why there is no score. */
export class EvalError extends Error {
  constructor(
    kind: "invalid-config" | "invalid-input" | "not-applicable" | "upstream" | "transient" | "internal",
    message: string,
  );
  readonly kind: string;
}
/** The configuration passed its schema and still cannot be used. */
export class InvalidConfig extends EvalError {
  constructor(message: string);
}
/** A part of the item that is needed is absent or has a wrong shape. */
export class InvalidInput extends EvalError {
  constructor(message: string);
}
/** There is nothing to measure for this item: recorded as skipped, never as zero. */
export class NotApplicable extends EvalError {
  constructor(message: string);
}
/** A call to the host failed and the evaluator cannot go on without it. */
export class Upstream extends EvalError {
  constructor(message: string);
}
/** Another attempt may work. */
export class Transient extends EvalError {
  constructor(message: string);
}
/** A model call failed; uncaught it becomes `upstream`. */
export class ModelError extends Upstream {
  /** The case, such as `rate-limited`. */
  readonly reason: string;
  /** What was said. */
  readonly detail: string;
}
/** A piece of the trace could not be read; uncaught it becomes `upstream`. */
export class TraceError extends Upstream {
  /** The case, such as `not-found`. */
  readonly reason: string;
  /** What was said. */
  readonly detail: string;
}
