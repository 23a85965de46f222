// Types generated from the OpenAPI document, and ten operations that use them.
// It is compiled with every check that TypeScript has; a member that the document does not have is an error.

import createClient from "openapi-fetch";
import type { components, paths } from "./api";

type Schemas = components["schemas"];

/** The answer, or the reason why there is none. */
function taken<T>(answer: { data?: T; error?: unknown; response: Response }): T {
  if (answer.data === undefined) {
    throw new Error(`${answer.response.status} ${JSON.stringify(answer.error)}`);
  }
  return answer.data;
}

/** What the operations found, for the test that called them. */
export interface Found {
  traceName: string | null | undefined;
  steps: string[];
  scores: [string, Schemas["ScoreValue"]][];
  ruleStatus: Schemas["RuleStatus"];
  filter: Schemas["FilterCondition"][];
  step: string;
  executions: number;
}

export async function operations(baseUrl: string, authorization: string, id: string): Promise<Found> {
  const client = createClient<paths>({ baseUrl, headers: { authorization } });
  const traceId = `trace-${id}`;

  taken(await client.POST("/api/public/traces", { body: { id: traceId, name: "typed", tags: ["generated"] } }));
  taken(
    await client.POST("/api/public/spans", {
      body: { id: `span-${id}`, traceId, name: "answer", output: "short", metadata: { n: 1 } },
    }),
  );
  taken(
    await client.POST("/api/public/scores", {
      body: { traceId, name: "liked", value: 0.5, comment: "half of it" },
    }),
  );

  const plugins = taken(await client.GET("/api/v1/plugins", { params: { query: { name: "perpend/text" } } }));
  const plugin: Schemas["Plugin"] | undefined = plugins.data[0];
  if (plugin === undefined) throw new Error("no plug-in perpend/text");
  const evaluator = taken(
    await client.POST("/api/public/v2/evaluators", {
      body: {
        type: "plugin",
        name: `length ${id}`,
        plugin: plugin.digest,
        evaluator: "length",
        config: { unit: "words", min: 1 },
        variableMapping: [{ variable: "output", source: "output" }],
      },
    }),
  );
  const rule = taken(
    await client.POST("/api/public/v2/evaluation-rules", {
      body: {
        name: `rule ${id}`,
        enabled: true,
        target: "observation",
        filter: [{ type: "stringOptions", column: "traceName", operator: "any of", value: ["typed"] }],
        evaluatorAssignments: [{ evaluatorId: evaluator.id }],
      },
    }),
  );

  const trace = taken(await client.GET("/api/public/traces/{traceId}", { params: { path: { traceId } } }));
  const steps = taken(
    await client.GET("/api/public/v2/observations", {
      params: { query: { traceId, fields: "core,basic,io" } },
    }),
  );
  const scores = taken(await client.GET("/api/public/v3/scores", { params: { query: { traceId } } }));
  const explained = taken(
    await client.GET("/api/v1/evaluation-rules/{ruleId}/explain", {
      params: { path: { ruleId: rule.id }, query: { traceId, observationId: `span-${id}` } },
    }),
  );
  const executions = taken(await client.GET("/api/v1/executions", { params: { query: { traceId } } }));

  return {
    traceName: trace.name,
    steps: steps.data.map((step) => `${step.type} ${step.name ?? ""}: ${step.output ?? ""}`),
    scores: scores.data.map((score) => [score.name, score.value]),
    ruleStatus: rule.status,
    filter: rule.filter,
    step: explained.step,
    executions: executions.data.length,
  };
}
