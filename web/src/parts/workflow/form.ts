// The form of a workflow's properties, as users of its effects see it. Pure.
import type { Property as FormProperty } from "@/parts/form/values";
import { isFileType } from "@/parts/media";
import type { Property } from "./draft";
import { ExactNumber } from "./exact";

/** The property in the API's form for users. `override`: the value that an effect sets. */
export function formProperty(property: Property, override?: unknown): FormProperty {
  const value = override ?? property.default ?? null;
  const isFile = isFileType(property.type);
  return {
    key: property.key,
    type: property.type,
    label: property.label || property.key,
    description: property.description ?? "",
    required: (property.required ?? false) && value === null,
    default: isFile ? null : (plain(value) as FormProperty["default"]),
    accept: isFile ? [`${property.type}/*`] : [],
    limits: Object.fromEntries(
      Object.entries(property.limits ?? {}).map(([name, each]) => [
        name,
        Array.isArray(each) ? each.map(plain) : plain(each),
      ]),
    ),
  };
}

/** A form field shows JavaScript numbers. */
function plain(value: unknown): unknown {
  return value instanceof ExactNumber ? Number(value.text) : value;
}
