// The exports of a component, implemented by a plug-in. The entry module, which the build writes, calls this.

import { asEvalError, InvalidConfig } from "./errors.js";
import { Context, logger, seeded } from "./host.js";
import { Item } from "./item.js";
import { asScores } from "./scores.js";

/** A `console` that writes to the log of the evaluation. */
function consoleOver(bindings) {
  const text = (values) =>
    values.map((value) => (typeof value === "string" ? value : (JSON.stringify(value) ?? String(value)))).join(" ");
  const log = logger(bindings);
  const line = (level) => (...values) => log[level](text(values));
  return { log: line("info"), info: line("info"), debug: line("debug"), warn: line("warn"), error: line("error"), trace: line("debug") };
}

/** Replaces time, randomness and `console` by those of the host. */
function installGlobals(bindings) {
  globalThis.console = consoleOver(bindings);
  let random;
  Math.random = () => {
    random ??= seeded(Number(bindings.context.seed()));
    return random();
  };
}

/**
 * @param plugin the result of `definePlugin`
 * @param bindings the imported interfaces, and `u64` to convert numbers
 * @param settle waits for the result of `evaluate`: synchronously on QuickJS, by promise elsewhere
 */
export function component(plugin, bindings, settle) {
  installGlobals(bindings);
  const found = (id) => {
    const evaluator = plugin.evaluators.get(id);
    if (evaluator === undefined) throw new InvalidConfig(`unknown evaluator "${id}" of ${plugin.info.name}`);
    return evaluator;
  };
  const parsed = (config) => JSON.parse(config);
  const one = (evaluator, raw, config) => {
    const item = new Item(raw);
    const ctx = new Context(bindings, evaluator, item);
    const scores = (returned) => asScores(returned, evaluator.scores);
    return settle(() => evaluator.evaluate(item, config, ctx), scores, (thrown) => {
      throw asEvalError(thrown);
    });
  };
  const tagged = (evaluator, returned) =>
    returned instanceof Error
      ? { tag: "err", val: asEvalError(returned) }
      : { tag: "ok", val: asScores(returned, evaluator.scores) };
  const failed = (thrown) => ({ tag: "err", val: asEvalError(thrown) });

  return {
    evaluator: {
      describe: () => plugin.info,
      evaluate(id, raw, config) {
        let evaluator;
        try {
          evaluator = found(id);
        } catch (thrown) {
          throw asEvalError(thrown);
        }
        return one(evaluator, raw, parsed(config));
      },
    },
    batch: {
      evaluateBatch(id, raws, config) {
        const evaluator = found(id);
        const read = parsed(config);
        if (!evaluator.evaluateBatch) {
          return settle.all(raws, (raw) => {
            const item = new Item(raw);
            const ctx = new Context(bindings, evaluator, item);
            return settle(
              () => evaluator.evaluate(item, read, ctx),
              (returned) => tagged(evaluator, returned),
              failed,
            );
          });
        }
        const items = raws.map((raw) => new Item(raw));
        const ctx = new Context(bindings, evaluator, items[0]);
        return settle(
          () => evaluator.evaluateBatch(items, read, ctx),
          (all) => all.map((returned) => tagged(evaluator, returned)),
          (thrown) => raws.map(() => failed(thrown)),
        );
      },
    },
    configCheck: {
      checkConfig(id, config) {
        const evaluator = plugin.evaluators.get(id);
        const problems = evaluator?.checkConfig?.(parsed(config)) ?? [];
        return problems.map((problem) =>
          typeof problem === "string" ? { pointer: "", message: problem } : { pointer: problem.pointer ?? "", message: problem.message },
        );
      },
    },
  };
}
