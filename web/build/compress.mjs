// A compressed form beside each file that gains from it, so that the server compresses nothing.
import { readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { brotliCompress, constants, gzip } from "node:zlib";

const TEXTS = /\.(js|css|html|svg)$/;
const LEAST_BYTES = 500;

export async function compressAll(folder) {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile() && TEXTS.test(entry.name));
  await Promise.all(files.map((entry) => compress(join(entry.parentPath, entry.name))));
}

async function compress(path) {
  const content = await readFile(path);
  if (content.length < LEAST_BYTES) return;
  const parameters = {
    [constants.BROTLI_PARAM_MODE]: constants.BROTLI_MODE_TEXT,
    [constants.BROTLI_PARAM_QUALITY]: 11,
    [constants.BROTLI_PARAM_SIZE_HINT]: content.length,
  };
  await writeFile(`${path}.gz`, await promisify(gzip)(content, { level: 9 }));
  await writeFile(`${path}.br`, await promisify(brotliCompress)(content, { params: parameters }));
}
