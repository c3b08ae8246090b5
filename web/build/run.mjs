// Builds the application: types from our own OpenAPI document, then the type check beside the bundle, then compression.
import { spawn } from "node:child_process";
import { build } from "vite";
import { compressAll } from "./compress.mjs";
import { writeSchema } from "./schema.mjs";

// The native compiler, which is four times as fast; openapi-typescript needs the one in JavaScript. With one checker it takes half
// the processor time of four, which look at the same types again.
function typeCheck() {
  return new Promise((resolve, reject) => {
    const compiler = spawn(
      process.execPath,
      ["node_modules/typescript-native/bin/tsc", "--noEmit", "--checkers", "1"],
      { stdio: "inherit" },
    );
    compiler.on("exit", (code) =>
      code === 0 ? resolve() : reject(new Error("The types of the web application do not fit.")),
    );
  });
}

try {
  await writeSchema("src/api/openapi.json", "src/api/schema.ts", "src/api/fields.ts");
  await Promise.all([typeCheck(), build({ logLevel: "warn" })]);
  await compressAll("../src/callsheet/web/static");
} catch (error) {
  console.error(String(error instanceof Error ? error.message : error));
  process.exit(1);
}
