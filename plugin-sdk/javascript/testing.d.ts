// Types of testing.js.

import type { Json, Plugin } from "./index.js";

export function run(
  plugin: Plugin,
  id: string,
  item: {
    id?: string;
    input?: Json;
    output?: Json;
    expectedOutput?: Json;
    metadata?: { [key: string]: Json };
    trace?: { traceId: string; observationId?: string };
  },
  config?: object,
  host?: {
    seed?: number;
    runTime?: number;
    complete?(request: any): string | { text?: string; structured?: Json; [field: string]: unknown };
    embed?(texts: string[]): number[][];
    log?(level: string, message: string, fields?: string): void;
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
