import { readFile, writeFile } from "node:fs/promises";
import openapiTS, { astToString } from "openapi-typescript";

export async function writeSchema(document, target) {
  const nodes = await openapiTS(JSON.parse(await readFile(document, "utf8")), {
    alphabetize: true,
    defaultNonNullable: false,
  });
  await writeFile(target, astToString(nodes));
}
