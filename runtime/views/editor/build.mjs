// Bundles the code editor into one script. Next to it are its compressed form and the licences of the bundled packages.
// Arguments: --esbuild FOLDER --modules FOLDER --out FILE.
import { readFile, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { parseArgs } from "node:util";
import { brotliCompressSync } from "node:zlib";

/** Largest compressed script, in bytes. */
const MAX_BYTES = 160_000;

const option = { type: "string" };
const { values } = parseArgs({ options: { esbuild: option, modules: option, out: option } });
const esbuild = await import(pathToFileURL(resolve(values.esbuild, "lib/main.js")));
const [modules, out] = [resolve(values.modules), resolve(values.out)];
const here = fileURLToPath(new URL(".", import.meta.url));

const built = await esbuild.build({
  absWorkingDir: here,
  entryPoints: [join(here, "editor.js")],
  nodePaths: [modules],
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  charset: "utf8",
  legalComments: "none",
  metafile: true,
  outfile: out,
});

// At the highest level, which is the default.
const packed = brotliCompressSync(await readFile(out));
if (packed.length > MAX_BYTES) throw new Error(`the code editor has ${packed.length} compressed bytes, more than ${MAX_BYTES}`);
await writeFile(`${out}.br`, packed);

const PACKAGE = /.*node_modules\/((?:@[^/]+\/)?[^/]+)\//;
const inputs = Object.entries(Object.values(built.metafile.outputs)[0].inputs);
const used = inputs.filter(([, { bytesInOutput }]) => bytesInOutput > 0).map(([file]) => PACKAGE.exec(file)?.[1]);
const packages = [...new Set(used.filter(Boolean))].sort();
const texts = packages.map(async (name) => {
  const { version } = JSON.parse(await readFile(join(modules, name, "package.json"), "utf8"));
  const licence = await readFile(join(modules, name, "LICENSE"), "utf8");
  return `${name} ${version}\n\n${licence.trim()}\n`;
});
const head = "The code editor of Perpend contains these packages.\n";
const all = [head, ...await Promise.all(texts)].join(`\n${"-".repeat(72)}\n\n`);
await writeFile(`${out}.LICENSE.txt`, all);
