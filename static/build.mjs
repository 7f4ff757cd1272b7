// Builds what the browser downloads into static/vendor: file names carry a hash of
// the content, manifest.json maps plain names to them, and each file has
// pre-compressed neighbours. Run it after "npm ci --ignore-scripts".
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, extname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const root = dirname(here);
const out = join(here, "vendor");
const require = createRequire(import.meta.url);
const manifest = {};

mkdirSync(out, { recursive: true });
for (const name of readdirSync(out)) {
  if (name !== ".keep") rmSync(join(out, name), { recursive: true });
}

function write(file, content) {
  const path = join(out, file);
  writeFileSync(path, content);
  writeFileSync(`${path}.gz`, gzipSync(content, { level: 9 }));
  writeFileSync(`${path}.br`, brotliCompressSync(content, { params: { [constants.BROTLI_PARAM_QUALITY]: 11 } }));
}

function put(name, content) {
  const hash = createHash("sha256").update(content).digest("hex").slice(0, 12);
  const extension = extname(name);
  const hashed = `${name.slice(0, -extension.length)}-${hash}${extension}`;
  write(hashed, content);
  manifest[name] = hashed;
  console.log(`${hashed}  ${(content.length / 1024).toFixed(1)} KiB`);
}

// Licence texts stay under the plain name that the comment in the file points to.
function licence(name, ...texts) {
  write(`${name}.LEGAL.txt`, Buffer.from(texts.join("\n\n") + "\n"));
}

const seeLicence = (name) => `/*! For license information please see ${name}.LEGAL.txt */\n`;

const textOf = (path) => readFileSync(join(root, path), "utf8").trim();

async function bundle(name, entry) {
  const result = await build({
    entryPoints: [join(here, "js", entry)],
    bundle: true,
    minify: true,
    write: false,
    outdir: out,
    format: "iife",
    target: ["es2022"],
    legalComments: "linked",
    logLevel: "warning",
  });
  for (const file of result.outputFiles) {
    if (file.path.endsWith(".js")) put(name, Buffer.from(file.contents));
  }
  return result.outputFiles.filter((f) => f.path.endsWith(".LEGAL.txt")).map((f) => f.text);
}

const htmx = readFileSync(require.resolve("htmx.org/dist/htmx.min.js"), "utf8").replace(/\n?\/\/# sourceMappingURL=.*\s*$/, "\n");
put("htmx.js", Buffer.from(htmx + seeLicence("htmx.js")));
licence("htmx.js", textOf("node_modules/htmx.org/LICENSE"));

const legal = await bundle("charts.js", "charts.js");
licence("charts.js", textOf("node_modules/echarts/LICENSE"), textOf("node_modules/echarts/NOTICE"), textOf("node_modules/zrender/LICENSE"), ...legal);
await bundle("app.js", "app.js");

const css = join(out, "app.css");
execFileSync(process.execPath, [join(root, "node_modules/@tailwindcss/cli/dist/index.mjs"), "--input", join(here, "css/app.css"), "--output", css, "--minify"], {
  cwd: root,
  stdio: ["ignore", "ignore", "inherit"],
});
const style = readFileSync(css);
rmSync(css);
put("app.css", Buffer.concat([style, Buffer.from(seeLicence("app.css"))]));
licence("app.css", textOf("node_modules/tailwindcss/LICENSE"), textOf("node_modules/daisyui/LICENSE"));
put("icon.svg", readFileSync(join(here, "icon.svg")));

writeFileSync(join(out, "manifest.json"), JSON.stringify(manifest, null, 2) + "\n");
