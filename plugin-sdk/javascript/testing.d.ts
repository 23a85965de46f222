// Types of testing.js.

import type { Completion, CompletionRequest, Json, MessagePart, Observation, Plugin, RunItem, TraceRef } from "./index.js";

/** What a model is asked, in one form. */
export interface Asked extends Omit<CompletionRequest, "messages" | "prompt" | "system"> {
  /** The text of each message is in `content`, all of it in `parts`. */
  messages: { role: string; content: string; parts: MessagePart[] }[];
}

/** What a model answers: its text, or as much of an answer as matters. */
export type Answer =
  | string
  | {
      text?: string;
      structured?: Json;
      toolCalls?: { id?: string; name: string; arguments?: { [name: string]: Json } | string }[];
      /** How probable choices were: on a server that is computed from log-probabilities. */
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
    complete?(request: Asked): Answer;
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

/** The class of failure that the server would store for a thrown value, such as `invalid-input`. */
export function failureOf(thrown: unknown): string;
