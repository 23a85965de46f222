// Reading of traces, sessions and runs.

import { hostCall, nothing, parsed, value } from "./bindings.js";
import { TraceError } from "./errors.js";

/** The parts of an observation that can be large. */
const PARTS = ["input", "output", "metadata"];
/** The maximum length of a range. */
const MAX_RANGE = 1 << 20;

const reading = (call) => hostCall(TraceError, call);
const number = (given) => (nothing(given) ? undefined : Number(given));

/** A number in the range of the type in the contract. */
const within = (given, max) => Math.trunc(Math.min(Math.max(Number(given) || 0, 0), max));

/** Iterates over all pages, which are read on demand. */
function* paged(read) {
  let cursor;
  do {
    const [entries, next] = read(cursor);
    yield* entries;
    cursor = next ?? undefined;
  } while (cursor !== undefined);
}

function trace({ start, metadata, ...rest }) {
  return { ...rest, start: number(start), metadata: parsed(metadata) };
}

function head(observation) {
  return {
    ...observation,
    start: number(observation.start),
    end: number(observation.end),
    inputTokens: number(observation.inputTokens),
    outputTokens: number(observation.outputTokens),
    inputSize: number(observation.inputSize),
    outputSize: number(observation.outputSize),
  };
}

function entry({ start, durationMs, inputSize, outputSize, ...rest }) {
  return {
    ...rest,
    start: number(start),
    durationMs: number(durationMs),
    inputSize: number(inputSize),
    outputSize: number(outputSize),
  };
}

/** `ctx.trace`: the recorded execution of the item. */
export function traces(bindings, item, given) {
  const { traceReader, u64 } = bindings;
  const id = () => {
    const found = given ?? item.trace?.traceId;
    if (found === undefined) throw new TraceError("not-found", "the item has no trace");
    return found;
  };
  return {
    /** Another trace of the scored session or run. */
    of: (traceId) => traces(bindings, item, traceId),
    get: () => trace(reading(() => traceReader.getTrace(id()))),
    /** Observations by start. */
    observations({ parentId, kinds = [], name, pageSize = 100 } = {}) {
      const filter = { parentId, kinds: [...kinds], name };
      return paged((cursor) => {
        const page = reading(() => traceReader.listObservations(id(), filter, cursor, pageSize));
        return [page.observations.map(head), page.nextCursor];
      });
    },
    input: (observationId) => value(reading(() => traceReader.readInput(id(), observationId))),
    output: (observationId) => value(reading(() => traceReader.readOutput(id(), observationId))),
    metadata: (observationId) => parsed(reading(() => traceReader.readMetadata(id(), observationId))),
    /** The tree, or the subtree below one observation, depth first. */
    outline({ parentId, pageSize = 500 } = {}) {
      return paged((cursor) => {
        const page = reading(() => traceReader.outline(id(), parentId, cursor, pageSize));
        return [page.entries.map(entry), page.nextCursor];
      });
    },
    /** The occurrences of a text, ignoring case. */
    search(text, { limit = 100 } = {}) {
      const hits = reading(() => traceReader.search(id(), String(text), within(limit, 100)));
      return hits.map(({ offset, ...rest }) => ({ ...rest, offset: number(offset) }));
    },
    /** `length` bytes of a part from byte `offset`. */
    range(observationId, part, { offset = 0, length = MAX_RANGE } = {}) {
      if (!PARTS.includes(part)) throw new TraceError("not-found", `the part must be one of ${PARTS.join(", ")}; got "${part}"`);
      const [from, size] = [u64(within(offset, Number.MAX_SAFE_INTEGER)), within(length, MAX_RANGE)];
      const found = reading(() => traceReader.readRange(id(), observationId, part, from, size));
      if (nothing(found)) return undefined;
      const { text, total, isJson } = found;
      return { text, offset: number(found.offset), total: number(total), isJson };
    },
  };
}

/** `ctx.session`: the scored session. */
export function sessions({ sessionReader }, item) {
  const id = () => {
    if (item.session === undefined) throw new TraceError("not-found", "the item is not a session");
    return item.session;
  };
  return {
    get() {
      const { start, end, ...rest } = reading(() => sessionReader.getSession(id()));
      return { ...rest, start: number(start), end: number(end) };
    },
    /** Its traces by start. */
    traces({ pageSize = 100 } = {}) {
      return paged((cursor) => {
        const page = reading(() => sessionReader.listTraces(id(), cursor, pageSize));
        return [page.traces.map(trace), page.nextCursor];
      });
    },
  };
}

function runItem({ input, output, expectedOutput, metadata, ...rest }) {
  return {
    ...rest,
    input: value(input),
    output: value(output),
    expectedOutput: value(expectedOutput),
    metadata: parsed(metadata),
  };
}

/** `ctx.run`: the scored run of an experiment. */
export function runs({ runReader }, item) {
  const id = () => {
    if (item.run === undefined) throw new TraceError("not-found", "the item is not a run");
    return item.run;
  };
  return {
    get() {
      const { metadata, ...rest } = reading(() => runReader.getRun(id()));
      return { ...rest, metadata: parsed(metadata) };
    },
    /** Its items, the newest first. */
    items({ pageSize = 20 } = {}) {
      return paged((cursor) => {
        const page = reading(() => runReader.listItems(id(), cursor, pageSize));
        return [page.items.map(runItem), page.nextCursor];
      });
    },
  };
}
