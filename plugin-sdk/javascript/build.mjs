// Builds a component from a plug-in project: bundles it, reads its declarations and componentizes it.
//
//   node build.mjs --entry plugin.js --wit perpend/wit --out plugin.wasm --engine quickjs
//                  --esbuild FOLDER --componentize FOLDER [--modules FOLDER] [--alias NAME=FILE]...
//
// The folders are those of the npm packages: esbuild, and componentize-qjs or @bytecodealliance/componentize-js.
// `--modules` is a further `node_modules` for imports of the plug-in; `--alias` replaces a package by a file.
// Errors are written to standard error, with file and line if known.

import { cp, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, relative, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { parseArgs } from "node:util";

const option = { type: "string" };
const { values: args } = parseArgs({
  options: {
    entry: option,
    wit: option,
    out: option,
    engine: option,
    esbuild: option,
    componentize: option,
    modules: option,
    alias: { ...option, multiple: true, default: [] },
  },
});
const entry = resolve(args.entry);
const sdk = dirname(fileURLToPath(import.meta.url));

/** An error in the files of the project, reported without a stack. */
class ProjectError extends Error {}

/** The exports of the npm package in `folder`. */
async function load(folder) {
  const { exports, main } = JSON.parse(await readFile(join(folder, "package.json"), "utf8"));
  const file = exports?.["."]?.import ?? exports?.import ?? main ?? "index.js";
  const module = await import(pathToFileURL(resolve(folder, file)));
  return { ...module.default, ...module };
}

const WORLD = "this-plugin";

/** The imports for the capability `trace`. */
const READERS = { traceReader: "trace-reader", sessionReader: "session-reader", runReader: "run-reader" };

// Features that QuickJS does not support in a synchronous component become generators.
const LOWERED = { "async-await": false, "async-generator": false, "for-await": false, "top-level-await": false };

async function bundle(esbuild, stdin, { lower }) {
  try {
    const built = await esbuild.build({
      stdin: { contents: stdin, resolveDir: dirname(entry), sourcefile: "perpend-entry.js", loader: "js" },
      bundle: true,
      write: false,
      format: "esm",
      platform: "neutral",
      target: "es2022",
      mainFields: ["module", "main"],
      conditions: ["import"],
      external: ["perpend:*"],
      alias: Object.fromEntries(args.alias.map((pair) => pair.split("=")).map(([name, file]) => [name, resolve(file)])),
      nodePaths: args.modules ? [resolve(args.modules)] : [],
      supported: lower ? LOWERED : {},
      define: { "process.env.NODE_ENV": '"production"' },
      legalComments: "none",
      logLevel: "silent",
    });
    return built.outputFiles[0].text;
  } catch (why) {
    if (!why.errors) throw why;
    const lines = why.errors.map(({ text, location }) =>
      location ? `${relative(".", location.file)}:${location.line}:${location.column + 1}: ${text}` : text,
    );
    throw new ProjectError(lines.join("\n"));
  }
}

const text = (path) => JSON.stringify(path);

/** The plug-in, from its module, which is executed here. */
async function loadPlugin(esbuild, work) {
  const source = `import * as module from ${text(entry)};\nexport const plugin = module["default"];`;
  const code = await bundle(esbuild, source, { lower: false });
  const file = join(work, "declared.mjs");
  await writeFile(file, code);
  const { plugin } = await import(pathToFileURL(file));
  if (!plugin?.uses) {
    throw new ProjectError(`${relative(".", entry)}: the default export must be a plug-in: export default definePlugin({ ... })`);
  }
  return plugin;
}

/** A world with the required imports only: each import is a capability that must be granted. */
async function world(uses, work) {
  const lines = ["import context;", "import log;", "export evaluator;"];
  if (uses.model) lines.push("import model;");
  if (uses.trace) lines.push(...Object.values(READERS).map((name) => `import ${name};`));
  if (uses.batch) lines.push("export batch;");
  if (uses.configCheck) lines.push("export config-check;");
  const wit = join(work, "wit");
  await cp(resolve(args.wit), wit, { recursive: true });
  await writeFile(join(wit, "this-plugin.wit"), `package perpend:evaluator@1.0.0;\nworld ${WORLD} {\n${lines.join("\n")}\n}\n`);
  return wit;
}

async function version() {
  const source = await readFile(join(resolve(args.wit), "world.wit"), "utf8");
  return /package perpend:evaluator@([0-9.]+);/.exec(source)[1];
}

/** The entry module of the component. */
async function main(uses) {
  const at = `@${await version()}`;
  const settle = args.engine === "quickjs" ? "settle-now.js" : "settle.js";
  const lines = [
    // First: it replaces Promise before anything else is loaded.
    `import { settle } from ${text(join(sdk, settle))};`,
    `import { component } from ${text(join(sdk, "guest.js"))};`,
    `import * as context from "perpend:evaluator/context${at}";`,
    `import * as log from "perpend:evaluator/log${at}";`,
  ];
  const bindings = ["context", "log", "u64: settle.u64"];
  if (uses.model) {
    lines.push(`import * as model from "perpend:evaluator/model${at}";`);
    bindings.push("model");
  }
  for (const [binding, name] of Object.entries(uses.trace ? READERS : {})) {
    lines.push(`import * as ${binding} from "perpend:evaluator/${name}${at}";`);
    bindings.push(binding);
  }
  lines.push(
    `import plugin from ${text(entry)};`,
    `const made = component(plugin, { ${bindings.join(", ")} }, settle);`,
    "export const evaluator = made.evaluator;",
  );
  if (uses.batch) lines.push("export const batch = made.batch;");
  if (uses.configCheck) lines.push("export const configCheck = made.configCheck;");
  return lines.join("\n");
}

async function componentized(code, wit) {
  const { componentize } = await load(args.componentize);
  if (args.engine === "quickjs") {
    const { component } = await componentize({ witPath: wit, world: WORLD, jsSource: code, sync: true });
    return component;
  }
  const { component } = await componentize(code, {
    witPath: wit,
    worldName: WORLD,
    disableFeatures: ["stdio", "http", "fetch-event"],
  });
  return component;
}

async function build() {
  const work = await mkdtemp(join(tmpdir(), "perpend-build-"));
  try {
    const esbuild = await load(args.esbuild);
    const { uses } = await loadPlugin(esbuild, work);
    const code = await bundle(esbuild, await main(uses), { lower: args.engine === "quickjs" });
    await writeFile(resolve(args.out), await componentized(code, await world(uses, work)));
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

try {
  await build();
} catch (why) {
  process.stderr.write(`${why instanceof ProjectError ? why.message : (why?.stack ?? why)}\n`);
  process.exitCode = 1;
}
