// Programs that submit what a form has. Keys are never part of them: they are read from the environment. Pure.
import type { Effect } from "@/api/types";
import { type FormValue, type FormValues, isFile, payloadOf } from "@/parts/form/values";
import type { FileValue } from "@/parts/UploadField";

export interface Snippets {
  curl: string;
  python: string;
  typescript: string;
}

// A call in Python takes these names itself, or cannot have them as names of arguments.
const TAKEN_IN_PYTHON = new Set(
  (
    "effect file values idempotency_key client_reference metadata webhook_url on_upload on_progress timeout self " +
    "and as assert async await break class continue def del elif else except finally for from global if import in is " +
    "lambda nonlocal not or pass raise return try while with yield"
  ).split(" "),
);
const NAME = /^[A-Za-z_][A-Za-z0-9_]*$/;
const EXAMPLES = { video: "in.mp4", image: "in.png", audio: "in.mp3" };

/** A value of a call: the text of a literal in a language, or the name of a file. */
interface Argument {
  key: string;
  value: FormValue;
  file: string | null;
}

export function snippetsOf(effect: Effect, input: FileValue | null, values: FormValues, url: string): Snippets {
  const given = argumentsOf(effect, input, values);
  return {
    curl: curlOf(effect, input, values, url),
    python: pythonOf(effect, given, url),
    typescript: typescriptOf(effect, given, url),
  };
}

/** The file that the effect works on comes first, under the name of its type. */
function argumentsOf(effect: Effect, input: FileValue | null, values: FormValues): Argument[] {
  const sent = payloadOf(effect.properties, values);
  const given = effect.properties
    .filter(({ key }) => key in sent)
    .map(({ key }): Argument => {
      const value = values[key] ?? null;
      return isFile(value) ? { key, value: null, file: value.name } : { key, value: sent[key] ?? null, file: null };
    });
  if (!effect.input) return given;
  const { type } = effect.input;
  const key = effect.properties.some((each) => each.key === type) ? "file" : type;
  return [{ key, value: null, file: input?.name ?? EXAMPLES[type as keyof typeof EXAMPLES] ?? "in.mp4" }, ...given];
}

function curlOf(effect: Effect, input: FileValue | null, values: FormValues, url: string): string {
  const body = {
    effect_id: effect.slug,
    ...(effect.input ? { input_file_id: input?.id ?? "FILE_ID" } : {}),
    input_payload: payloadOf(effect.properties, values),
  };
  const quoted = JSON.stringify(body, null, 2).replaceAll("'", "'\\''");
  return [
    `curl -sS --fail-with-body ${url}/api/ai-jobs \\`,
    '  -H "Authorization: Bearer $CALLSHEET_CLIENT__API_KEY" \\',
    '  -H "Content-Type: application/json" \\',
    `  -d '${quoted}'`,
  ].join("\n");
}

function pythonOf(effect: Effect, given: readonly Argument[], url: string): string {
  const text = ({ value, file }: Argument) => (file === null ? pythonLiteral(value) : `Path(${JSON.stringify(file)})`);
  const isFree = ({ key }: Argument) => NAME.test(key) && (key === "file" || !TAKEN_IN_PYTHON.has(key));
  const others = given.filter((each) => !isFree(each)).map((each) => `${JSON.stringify(each.key)}: ${text(each)}`);
  const lines = [
    JSON.stringify(effect.slug),
    ...given.filter(isFree).map((each) => `${each.key}=${text(each)}`),
    ...(others.length === 0 ? [] : [`values={${others.join(", ")}}`]),
  ];
  return [
    ...(given.some(({ file }) => file !== null) ? ["from pathlib import Path", ""] : []),
    "from callsheet.client import Callsheet",
    "",
    `callsheet = Callsheet(${JSON.stringify(url)})`,
    "result = callsheet.run(",
    ...lines.map((line) => `    ${line},`),
    ")",
    "print(result.save(result.name))",
  ].join("\n");
}

function typescriptOf(effect: Effect, given: readonly Argument[], url: string): string {
  const lines = given.map(({ key, value, file }) => {
    const name = NAME.test(key) ? key : JSON.stringify(key);
    return `  ${name}: ${file === null ? JSON.stringify(value) : `await fileAt(${JSON.stringify(file)})`},`;
  });
  const fromNode = given.some(({ file }) => file !== null) ? "fileAt, save" : "save";
  return [
    'import { Callsheet } from "callsheet";',
    `import { ${fromNode} } from "callsheet/node";`,
    "",
    `const callsheet = new Callsheet(${JSON.stringify(url)});`,
    `const result = await callsheet.run(${JSON.stringify(effect.slug)}, {`,
    ...lines,
    "});",
    "console.log(await save(result, result.name));",
  ].join("\n");
}

/** Strings and numbers of JSON are those of Python, too. */
function pythonLiteral(value: FormValue): string {
  if (typeof value === "boolean") return value ? "True" : "False";
  return JSON.stringify(value);
}
