// Types of testing.js.

import type { Completion, CompletionRequest, Json, MessagePart, Observation, Plugin, RunItem, TraceRef } from "./index.js";

/** A request to a model, in normal form. */
export interface RecordedRequest extends Omit<CompletionRequest, "messages" | "prompt" | "system"> {
  /** `content` is the text of a message, `parts` all its parts. */
  messages: { role: string; content: string; parts: MessagePart[] }[];
}

/** The answer of a model: its text, or some members of an answer. */
export type Answer =
  | string
  | {
      text?: string;
      structured?: Json;
      toolCalls?: { id?: string; name: string; arguments?: { [name: string]: Json } | string }[];
      /** The probabilities of choices, which a server computes from log-probabilities. */
      probabilities?: { [choice: string]: number };
      finish?: Completion["finish"];
      usage?: Partial<Completion["usage"]>;
      logprobs?: Completion["logprobs"];
      model?: string;
      fromCache?: boolean;
    };

/** An observation of a trace, with its parts. */
export interface TestObservation extends Partial<Omit<Observation, "id">> {
  id: string;
  input?: Json;
  output?: Json;
  metadata?: { [key: string]: Json };
}

export function run(
  plugin: Plugin,
  id: string,
  item: {
    id?: string;
    input?: Json;
    output?: Json;
    expectedOutput?: Json;
    metadata?: { [key: string]: Json };
    trace?: TraceRef;
    session?: string;
    run?: string;
  },
  config?: object,
  host?: {
    seed?: number;
    runTime?: number;
    complete?(request: RecordedRequest): Answer;
    embed?(texts: string[]): number[][];
    log?(level: string, message: string, fields?: string): void;
    /** The observations of each trace. */
    traces?: { [traceId: string]: TestObservation[] };
    /** The ids of the traces of each session. */
    sessions?: { [sessionId: string]: string[] };
    /** The items of each run. */
    runs?: { [runId: string]: (Partial<RunItem> & { id: string })[] };
  },
): Promise<
  {
    name: string;
    value: number | boolean | string;
    comment?: string;
    metadata?: { [key: string]: Json };
    observationId?: string;
  }[]
>;

/** The failure class that the server stores for a thrown value, such as `invalid-input`. */
export function failureOf(thrown: unknown): string;
