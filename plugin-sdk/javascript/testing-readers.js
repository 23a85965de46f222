// The readers of the host over the traces, sessions and runs of a unit test.
//
// `traces` has the observations of each trace: { t1: [{ id, kind, parentId, start, input, output, metadata }] };
// `sessions` the ids of the traces of each session, `runs` the items of each run.

const PARTS = ["input", "output", "metadata"];
const AROUND = 100;
const MAX_TEXT = 1000;

/** The payload of a value. */
export function payload(value) {
  if (value === undefined) return undefined;
  return typeof value === "string" ? { tag: "text", val: value } : { tag: "json", val: JSON.stringify(value) };
}

const fail = (tag, val) => {
  throw { tag, val };
};

const utf8 = new TextEncoder();
const size = (text) => utf8.encode(text).length;
const byStart = (one, other) => one.start - other.start || (one.id < other.id ? -1 : 1);

function head({ input, output, metadata, ...given }) {
  const sizeOf = (value) => (value === undefined ? 0 : size(payload(value).val));
  return {
    kind: "span",
    start: 0,
    severity: "standard",
    inputSize: sizeOf(input),
    outputSize: sizeOf(output),
    ...given,
  };
}

function entry(observation, depth, childCount) {
  const { id, parentId, kind, name, severity, start, end, inputSize, outputSize } = observation;
  const durationMs = end === undefined ? undefined : end - start;
  return { id, parentId, depth, kind, name, severity, start, durationMs, inputSize, outputSize, childCount };
}

/** The tree, depth first; children by start, then by id. */
function outlined(heads, parentId) {
  const ids = new Set(heads.map(({ id }) => id));
  const children = new Map();
  for (const one of [...heads].sort(byStart)) {
    const parent = ids.has(one.parentId) ? one.parentId : undefined;
    children.set(parent, [...(children.get(parent) ?? []), one]);
  }
  // Visited observations are removed, so that a cycle of parents ends.
  const taken = (parent) => {
    const found = children.get(parent) ?? [];
    children.delete(parent);
    return found;
  };
  const walk = (parent, depth) =>
    taken(parent).flatMap((one) => {
      const childCount = children.get(one.id)?.length ?? 0;
      return [entry(one, depth, childCount), ...walk(one.id, depth + 1)];
    });
  return walk(parentId ?? undefined, 0);
}

function hits(observation, part, query) {
  const { val: text } = payload(observation[part]);
  const literal = query.replace(/[.*+?^${}()|[\]\\/-]/g, "\\$&");
  return [...text.matchAll(new RegExp(literal, "gi"))].map(({ index }) => ({
    observationId: observation.id,
    part,
    offset: size(text.slice(0, index)),
    excerpt: text.slice(Math.max(0, index - AROUND), index + query.length + AROUND),
  }));
}

function slice({ tag, val }, offset, length) {
  const whole = utf8.encode(val);
  const boundary = (byte) => {
    let at = Math.min(byte, whole.length);
    while (at > 0 && at < whole.length && (whole[at] & 0xc0) === 0x80) at -= 1;
    return at;
  };
  const [begin, end] = [boundary(offset), boundary(offset + length)];
  const text = new TextDecoder().decode(whole.subarray(begin, end));
  return { text, offset: begin, total: whole.length, isJson: tag === "json" };
}

/** Implements `trace-reader`. */
function traceReader(traces, sessions) {
  const of = (id) => traces[id] ?? fail("not-granted", id);
  const heads = (id) => of(id).map(head);
  const raw = (id, observationId, part) => {
    const found = of(id).find((one) => one.id === observationId) ?? fail("not-found", observationId);
    return payload(found[part]);
  };
  return {
    getTrace(id) {
      const starts = heads(id).map(({ start }) => start);
      const sessionId = Object.keys(sessions).find((session) => sessions[session].includes(id));
      return { id, sessionId, start: starts.length > 0 ? Math.min(...starts) : 0, tags: [], observationCount: starts.length };
    },
    listObservations(id, { parentId, kinds, name }) {
      const fits = (one) =>
        (parentId === undefined || one.parentId === parentId) &&
        (kinds.length === 0 || kinds.includes(one.kind)) &&
        (name === undefined || one.name === name);
      return { observations: heads(id).filter(fits).sort(byStart) };
    },
    readInput: (id, observationId) => raw(id, observationId, "input"),
    readOutput: (id, observationId) => raw(id, observationId, "output"),
    readMetadata: (id, observationId) => raw(id, observationId, "metadata")?.val,
    outline: (id, parentId) => ({ entries: outlined(heads(id), parentId) }),
    search(id, text, limit) {
      const length = size(text);
      if (length < 1 || length > MAX_TEXT) fail("too-large", "the text of a search must have 1 to 1,000 bytes");
      const found = of(id).flatMap((one) =>
        PARTS.filter((part) => one[part] !== undefined).flatMap((part) => hits(one, part, text)),
      );
      return found.slice(0, Math.max(1, limit));
    },
    readRange(id, observationId, part, offset, length) {
      const whole = raw(id, observationId, part);
      return whole === undefined ? undefined : slice(whole, offset, length);
    },
  };
}

/** Implements the readers of the contract. */
export function readers({ traces = {}, sessions = {}, runs = {} }) {
  const trace = traceReader(traces, sessions);
  const tracesOf = (id) => (sessions[id] ?? fail("not-granted", id)).map((traceId) => trace.getTrace(traceId));
  const itemsOf = (id) => runs[id] ?? fail("not-granted", id);
  const item = ({ input, output, expectedOutput, metadata, ...rest }) => ({
    ...rest,
    input: payload(input),
    output: payload(output),
    expectedOutput: payload(expectedOutput),
    metadata: metadata === undefined ? undefined : JSON.stringify(metadata),
  });
  return {
    traceReader: trace,
    sessionReader: {
      getSession(id) {
        const starts = tracesOf(id).map(({ start }) => start);
        const [start, end] = starts.length > 0 ? [Math.min(...starts), Math.max(...starts)] : [0, 0];
        return { id, traceCount: starts.length, start, end, userIds: [] };
      },
      listTraces: (id) => ({ traces: tracesOf(id).sort(byStart) }),
    },
    runReader: {
      getRun: (id) => ({ id, itemCount: itemsOf(id).length }),
      listItems: (id) => ({ items: itemsOf(id).map(item) }),
    },
  };
}
