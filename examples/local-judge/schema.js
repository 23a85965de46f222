// JSON Schemas in the form that the grammars of node-llama-cpp support.
//
// A small model does not respect bounds that are not enforced, and may write an endless text. A number within bounds
// therefore becomes a choice of steps, and texts and lists get a maximum length.

const MAX_ITEMS = 8;
const STEPS = 20;

/** A bound: the value of a keyword, or its value in the description, where some clients move it. */
function bound(schema, keyword) {
  if (typeof schema[keyword] === "number") return schema[keyword];
  const match = new RegExp(`\\b${keyword}: (-?\\d+(?:\\.\\d+)?)`).exec(schema.description ?? "");
  return match ? Number(match[1]) : undefined;
}

function steps(schema) {
  const [low, high] = [bound(schema, "minimum"), bound(schema, "maximum")];
  if (low === undefined || high === undefined || high < low) return { type: schema.type };
  const isWhole = schema.type === "integer";
  const [first, end] = isWhole ? [Math.ceil(low), Math.floor(high)] : [low, high];
  const n = isWhole ? Math.min(end - first, 100) : STEPS;
  const step = (at) => first + ((end - first) * at) / n;
  const values = Array.from({ length: n + 1 }, (_, at) => (n === 0 ? first : Number(step(at).toPrecision(6))));
  return { enum: [...new Set(isWhole ? values.map(Math.round) : values)] };
}

const each = (members, change) => Object.fromEntries(Object.entries(members).map(([name, of]) => [name, change(of)]));

/**
 * The schema for a grammar, with texts of at most `maxText` characters. Constraints that a grammar cannot express
 * are left to the caller.
 */
export function forGrammar(schema, maxText) {
  const inner = (part) => forGrammar(part, maxText);
  if (schema === null || typeof schema !== "object") return {};
  if (schema.$ref) return { $ref: schema.$ref };
  const more = schema.$defs ? { $defs: each(schema.$defs, inner) } : {};
  if (schema.enum) return { ...more, enum: schema.enum };
  if ("const" in schema) return { ...more, const: schema.const };
  const choices = schema.oneOf ?? schema.anyOf;
  if (choices) return { ...more, oneOf: choices.map(inner) };
  if (Array.isArray(schema.type)) return { ...more, oneOf: schema.type.map((type) => inner({ ...schema, type })) };
  switch (schema.type) {
    case "string":
      return { type: "string", minLength: 1, maxLength: Math.min(bound(schema, "maxLength") ?? maxText, maxText) };
    case "number":
    case "integer":
      return steps(schema);
    case "array": {
      const maxItems = Math.min(bound(schema, "maxItems") ?? MAX_ITEMS, MAX_ITEMS);
      const minItems = Math.min(bound(schema, "minItems") ?? 0, maxItems);
      return { ...more, type: "array", items: inner(schema.items ?? {}), minItems, maxItems };
    }
    case "object":
      return { ...more, type: "object", properties: each(schema.properties ?? {}, inner) };
    default:
      return { ...more, ...(schema.type ? { type: schema.type } : {}) };
  }
}
