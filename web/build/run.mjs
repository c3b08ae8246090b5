// Builds the application: types from our own OpenAPI document, then the type check beside the bundle, then compression.
// With it the TypeScript client, whose core the application uses.
import { spawn } from "node:child_process";
import { rm } from "node:fs/promises";
import { build } from "vite";
import { compressAll } from "./compress.mjs";
import { writeModels, writeSchema } from "./schema.mjs";

// The native compiler, which is four times as fast; openapi-typescript needs the one in JavaScript. With one checker it takes half
// the processor time of four, which look at the same types again.
function compile(what, ...options) {
  return new Promise((resolve, reject) => {
    const compiler = spawn(
      process.execPath,
      ["node_modules/typescript-native/bin/tsc", "--checkers", "1", ...options],
      { stdio: "inherit" },
    );
    compiler.on("exit", (code) => (code === 0 ? resolve() : reject(new Error(`The types of ${what} do not fit.`))));
  });
}

const CLIENT = "../clients/typescript";

try {
  await writeSchema("src/api/openapi.json", "src/api/schema.ts", "src/api/fields.ts");
  await writeModels("src/api/openapi.json", `${CLIENT}/src/models.ts`, `${CLIENT}/src/schema.ts`);
  await rm(`${CLIENT}/dist`, { recursive: true, force: true });
  await Promise.all([
    compile("the TypeScript client", "--project", CLIENT),
    compile("the web application", "--noEmit"),
    build({ logLevel: "warn" }),
  ]);
  await compressAll("../src/callsheet/web/static");
} catch (error) {
  console.error(String(error instanceof Error ? error.message : error));
  process.exit(1);
}
