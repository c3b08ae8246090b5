// Forms from JSON Schema, for the parts of it that actors use. Pure.
export interface Schema {
  type?: string | string[];
  title?: string;
  description?: string;
  default?: unknown;
  const?: unknown;
  enum?: unknown[];
  format?: string;
  minLength?: number;
  maxLength?: number;
  minimum?: number;
  maximum?: number;
  multipleOf?: number;
  properties?: Record<string, Schema>;
  required?: string[];
  items?: Schema;
  anyOf?: Schema[];
  oneOf?: Schema[];
  allOf?: Schema[];
  $ref?: string;
  $defs?: Record<string, Schema>;
}

export type Json = string | number | boolean | null | Json[] | { [name: string]: Json };
export type Path = readonly string[];

export type FieldKind = "text" | "number" | "boolean" | "choice" | "list" | "object" | "json";

export interface SchemaField {
  name: string;
  path: Path;
  schema: Schema;
  kind: FieldKind;
  required: boolean;
}

/** Resolves references and removes "or null", because an empty field means null. */
export function resolved(schema: Schema, root: Schema): Schema {
  let found = schema;
  if (found.$ref !== undefined) {
    const name = found.$ref.split("/").pop() ?? "";
    const { $ref: _reference, ...beside } = found;
    found = { ...resolved(root.$defs?.[name] ?? {}, root), ...beside };
  }
  const choices = found.anyOf?.filter((each) => each.type !== "null");
  if (choices?.length === 1) {
    const { anyOf: _choices, ...beside } = found;
    found = { ...resolved(choices[0]!, root), ...beside };
  }
  if (found.allOf?.length === 1) {
    const { allOf: _all, ...beside } = found;
    found = { ...resolved(found.allOf[0]!, root), ...beside };
  }
  return found;
}

export function kindOf(schema: Schema): FieldKind {
  const type = Array.isArray(schema.type) ? schema.type.find((each) => each !== "null") : schema.type;
  if (schema.enum !== undefined || schema.const !== undefined) return "choice";
  if (type === "string") return "text";
  if (type === "number" || type === "integer") return "number";
  if (type === "boolean") return "boolean";
  if (type === "array" && kindOf(schema.items ?? {}) === "text") return "list";
  if (type === "object" && schema.properties !== undefined) return "object";
  return "json";
}

/** Required fields come first; the others keep their order. Constants have no field. */
export function fieldsOf(schema: Schema, root: Schema, path: Path = []): SchemaField[] {
  const required = new Set(schema.required ?? []);
  const fields = Object.entries(schema.properties ?? {}).map(([name, each]): SchemaField => {
    const own = resolved(each, root);
    return { name, path: [...path, name], schema: own, kind: kindOf(own), required: required.has(name) };
  });
  return [...fields.filter((field) => field.required), ...fields.filter((field) => !field.required)];
}

export function initialOf(schema: Schema, root: Schema): { [name: string]: Json } {
  const values: { [name: string]: Json } = {};
  for (const { name, schema: own, kind } of fieldsOf(schema, root)) {
    // An optional object is sent only if the user changes something in it.
    if (kind === "object") values[name] = (own.default as Json | undefined) ?? initialOf(own, root);
    else if (own.const !== undefined) values[name] = own.const as Json;
    else if (own.default !== undefined) values[name] = own.default as Json;
  }
  return values;
}

export function valueAt(value: Json | undefined, path: Path): Json | undefined {
  return path.reduce<Json | undefined>((now, name) => (isObject(now) ? now[name] : undefined), value);
}

export function withValue(value: Json | undefined, [name, ...rest]: Path, next: Json | undefined): Json {
  if (name === undefined) return next ?? null;
  const copy: { [name: string]: Json } = isObject(value) ? { ...value } : {};
  if (rest.length > 0) copy[name] = withValue(copy[name], rest, next);
  else if (next === undefined) delete copy[name];
  else copy[name] = next;
  return copy;
}

/** The value in the form of the API. Empty fields and empty objects are left out. */
export function payloadOf(schema: Schema, root: Schema, value: Json | undefined): { [name: string]: Json } {
  const payload: { [name: string]: Json } = {};
  for (const { name, schema: own, kind, required } of fieldsOf(schema, root)) {
    const given = isObject(value) ? value[name] : undefined;
    if (kind === "object") {
      const inner = payloadOf(own, root, given);
      if (required || hasOwnWords(own, root, given)) payload[name] = inner;
    } else if (!isEmpty(given)) {
      payload[name] = kind === "list" ? (given as Json[]).filter((item) => item !== "") : given!;
    }
  }
  return payload;
}

/** Whether the user filled in a part of an optional object. Its defaults do not count. */
function hasOwnWords(schema: Schema, root: Schema, value: Json | undefined): boolean {
  return fieldsOf(schema, root).some(({ name, schema: own, kind }) => {
    const given = isObject(value) ? value[name] : undefined;
    return kind === "object"
      ? hasOwnWords(own, root, given)
      : !isEmpty(given) && JSON.stringify(given) !== JSON.stringify(own.default);
  });
}

export type Problem =
  | { is: "required" }
  | { is: "tooLong"; most: number }
  | { is: "atLeast"; least: number }
  | { is: "atMost"; most: number }
  | { is: "whole" };

/** Problems that the server would refuse, by path, joined with points. */
export function problemsOf(
  schema: Schema,
  root: Schema,
  value: Json | undefined,
  path: Path = [],
): Record<string, Problem> {
  const found: Record<string, Problem> = {};
  for (const field of fieldsOf(schema, root, path)) {
    const given = isObject(value) ? value[field.name] : undefined;
    if (field.kind === "object") {
      if (field.required || hasOwnWords(field.schema, root, given))
        Object.assign(found, problemsOf(field.schema, root, given, field.path));
      continue;
    }
    const problem = problemOf(field, given);
    if (problem !== null) found[field.path.join(".")] = problem;
  }
  return found;
}

function problemOf({ schema, required }: SchemaField, given: Json | undefined): Problem | null {
  if (isEmpty(given)) return required ? { is: "required" } : null;
  if (typeof given === "string" && schema.maxLength !== undefined && [...given].length > schema.maxLength)
    return { is: "tooLong", most: schema.maxLength };
  if (typeof given === "number") {
    if (schema.minimum !== undefined && given < schema.minimum) return { is: "atLeast", least: schema.minimum };
    if (schema.maximum !== undefined && given > schema.maximum) return { is: "atMost", most: schema.maximum };
    if (schema.type === "integer" && !Number.isInteger(given)) return { is: "whole" };
  }
  return null;
}

function isEmpty(value: Json | undefined): boolean {
  return (
    value === undefined ||
    value === null ||
    (typeof value === "string" && value.trim() === "") ||
    (Array.isArray(value) && value.every((item) => item === ""))
  );
}

function isObject(value: Json | undefined): value is { [name: string]: Json } {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
