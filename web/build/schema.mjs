import { readFile, writeFile } from "node:fs/promises";
import openapiTS, { astToString } from "openapi-typescript";

const RULES = ["default", "minimum", "maximum", "minLength", "maxLength"];

/** Writes the types of the API, and the defaults and limits of its fields. */
export async function writeSchema(source, types, fields) {
  const document = JSON.parse(await readFile(source, "utf8"));
  await writeFile(fields, fieldsOf(document));
  const nodes = await openapiTS(document, { alphabetize: true, defaultNonNullable: false });
  await writeFile(types, astToString(nodes));
}

/** Writes the types that a client names, with those that they contain. */
export async function writeModels(source, names, types) {
  const document = JSON.parse(await readFile(source, "utf8"));
  const { schemas } = document.components;
  const kept = new Set([...(await readFile(names, "utf8")).matchAll(/Schemas\["(\w+)"\]/g)].map(([, name]) => name));
  // A set that grows while it is read is read to its new end.
  for (const name of kept) {
    for (const [, other] of JSON.stringify(schemas[name]).matchAll(/#\/components\/schemas\/(\w+)"/g)) kept.add(other);
  }
  const chosen = Object.fromEntries(Object.entries(schemas).filter(([name]) => kept.has(name)));
  const part = { ...document, paths: {}, components: { schemas: chosen } };
  const nodes = await openapiTS(part, { alphabetize: true, defaultNonNullable: false });
  await writeFile(types, `// Generated.\n${astToString(nodes)}`);
}

/** One constant per type, so a page contains only those that it uses. */
function fieldsOf(document) {
  const constants = Object.entries(document.components.schemas).map(([name, schema]) => {
    const fields = Object.entries(schema.properties ?? {})
      .map(([field, own]) => [field, rulesOf(own)])
      .filter(([, rules]) => rules !== "");
    const lines = fields.map(([field, rules]) => `  ${field}: { ${rules} },\n`);
    return lines.length === 0 ? "" : `export const ${name} = {\n${lines.join("")}};\n`;
  });
  return `// Defaults and limits of the API's fields. Generated.\n${constants.join("")}`;
}

function rulesOf(schema) {
  // A value that may be null has the limits beside the null.
  const choices = schema.anyOf?.filter((each) => each.type !== "null") ?? [];
  const own = { ...(choices.length === 1 ? choices[0] : {}), ...schema };
  return RULES.filter((name) => own[name] != null)
    .map(
      (name) =>
        `${name}: ${JSON.stringify(own[name])}${name === "default" && (own.$ref || own.enum) ? " as const" : ""}`,
    )
    .join(", ");
}
