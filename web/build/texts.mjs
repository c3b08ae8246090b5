// Prints texts of the application, for tests in a browser. A line of standard input has the path of a text (file, constant without
// "Texts", names) and its arguments; a line of standard output has the text. Node removes the types of the modules.
import { registerHooks } from "node:module";
import { createInterface } from "node:readline";

const source = new URL("../src/", import.meta.url);

// The modules import each other as Vite resolves them: without an extension, and with @ for the source directory.
registerHooks({
  resolve(specifier, context, next) {
    if (specifier.startsWith("@/")) return next(new URL(`${specifier.slice(2)}.ts`, source).href, context);
    if (specifier.startsWith("./") && !specifier.endsWith(".ts")) return next(`${specifier}.ts`, context);
    return next(specifier, context);
  },
});

for await (const line of createInterface({ input: process.stdin })) {
  const { path, args } = JSON.parse(line);
  const [file, constant, ...names] = path.split(".");
  const module = await import(new URL(`texts/${file}.ts`, source).href).catch((error) => {
    console.error(error);
    return {};
  });
  const found = names.reduce((group, name) => group?.[name], module[`${constant}Texts`] ?? module[constant]);
  const text = typeof found === "function" ? found(...args) : found;
  console.log(JSON.stringify(typeof text === "string" ? text : null));
}
