import { ChevronRight } from "lucide-react";
import { formTexts } from "@/texts/form";
import { BooleanField, ChoiceField, NumberField, TextField } from "./form/fields";
import { JsonField } from "./form/JsonField";
import { ListField } from "./form/ListField";
import { fieldsOf, type Json, type Path, type Schema, type SchemaField, valueAt } from "./form/schema";
import { Templatable } from "./form/Templatable";
import { type PlainValue, titled } from "./form/values";

interface Props {
  schema: Schema;
  /** Schema that contains the targets of references. */
  root?: Schema;
  path?: Path;
  value: Json;
  onChange: (path: Path, value: Json | undefined) => void;
  /** Problems by path, joined with points. */
  problems: Record<string, string>;
}

// A form with more fields than this hides its optional fields until the user opens them.
const MAX_AT_ONCE = 5;

/** A form from a JSON schema. */
export function SchemaForm({ schema, root = schema, path = [], value, onChange, problems }: Props) {
  const fields = fieldsOf(schema, root, path).filter((field) => field.schema.const === undefined);
  const needed = fields.filter((field) => field.required).length;
  const count = fields.length <= MAX_AT_ONCE ? fields.length : Math.max(needed, MAX_AT_ONCE - 1);
  const shown = fields.slice(0, count);
  const rest = fields.slice(count);
  const isProblemHidden = rest.some((field) =>
    Object.keys(problems).some((name) => name.startsWith(field.path.join("."))),
  );
  const draw = (field: SchemaField) => (
    <One key={field.path.join(".")} field={field} root={root} value={value} onChange={onChange} problems={problems} />
  );
  return (
    <>
      {shown.map(draw)}
      {rest.length > 0 && (
        <details className="group" open={isProblemHidden || undefined}>
          <summary className="flex min-h-8 touch:min-h-11 list-none items-center gap-1 text-s text-muted hover:text-text">
            <ChevronRight size={14} aria-hidden className="transition-transform duration-100 group-open:rotate-90" />
            {formTexts.more}
          </summary>
          <div className="grid gap-5 pt-3">{rest.map(draw)}</div>
        </details>
      )}
    </>
  );
}

/** The title, unless it is the name of a class. */
function labelOf({ name, schema }: SchemaField): string {
  return schema.title && !/[a-z][A-Z]/.test(schema.title) ? titled(schema.title) : titled(name);
}

/** Kinds of fields whose value may also be a variable. */
const PLAIN: readonly string[] = ["number", "boolean", "choice"];

function One(props: { field: SchemaField } & Omit<Required<Props>, "schema" | "path">) {
  const { field, value, onChange, problems } = props;
  if (!PLAIN.includes(field.kind)) return <Own {...props} />;
  const shared = sharedOf(field, problems);
  return (
    <Templatable
      name={field.name}
      shared={shared}
      value={valueAt(value, field.path)}
      onChange={(next) => onChange(field.path, next)}
    >
      <Own {...props} />
    </Templatable>
  );
}

function sharedOf(field: SchemaField, problems: Record<string, string>) {
  return {
    label: labelOf(field),
    hint: field.schema.description?.replaceAll("`", ""),
    required: field.required,
    error: problems[field.path.join(".")],
  };
}

function Own({
  field,
  root,
  value,
  onChange,
  problems,
}: { field: SchemaField } & Omit<Required<Props>, "schema" | "path">) {
  const { schema, kind, path } = field;
  const shared = sharedOf(field, problems);
  const given = valueAt(value, path);
  const change = (next: Json | undefined) => onChange(path, next);
  switch (kind) {
    case "text": {
      const isAddress = schema.format === "uri";
      return (
        <TextField
          {...shared}
          value={typeof given === "string" ? given : ""}
          maxLength={isAddress ? undefined : schema.maxLength}
          isLine={isAddress || (schema.maxLength ?? 200) <= 300}
          type={isAddress ? "url" : "text"}
          placeholder={isAddress ? "https://" : undefined}
          onChange={change}
        />
      );
    }
    case "number": {
      const limits = {
        min: schema.minimum,
        max: schema.maximum,
        step: schema.multipleOf,
        integer: schema.type === "integer",
      };
      return (
        <NumberField
          {...shared}
          value={typeof given === "number" ? given : null}
          limits={limits}
          onChange={(next) => change(next ?? undefined)}
        />
      );
    }
    case "boolean":
      return <BooleanField {...shared} value={given === true} onChange={change} />;
    case "choice":
      return (
        <ChoiceField
          {...shared}
          value={(given ?? null) as PlainValue | null}
          choices={(schema.enum ?? [schema.const]) as PlainValue[]}
          onChange={change}
        />
      );
    case "list":
      return <ListField {...shared} value={Array.isArray(given) ? given.map(String) : []} onChange={change} />;
    case "object":
      return (
        <fieldset className="grid min-w-0 gap-5 rounded-m border p-4">
          <legend className="-ml-1 px-1 text-s font-[550]">{shared.label}</legend>
          <SchemaForm schema={schema} root={root} path={path} value={value} onChange={onChange} problems={problems} />
        </fieldset>
      );
    default:
      return <JsonField {...shared} value={given} onChange={change} />;
  }
}
