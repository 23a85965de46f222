// Replaces `openai/helpers/zod`: a tool with parameters from a zod schema.

import { zodToJsonSchema } from "zod-to-json-schema";

export function zodFunction({ name, description, parameters }) {
  const { $schema, ...schema } = zodToJsonSchema(parameters, { $refStrategy: "none" });
  return { type: "function", function: { name, description, parameters: schema } };
}
