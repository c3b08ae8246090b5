import { Field, Input, Select, Switch, Textarea } from "@/design";
import { isFileType } from "@/parts/media";
import { type Property, type PropertyType, retyped } from "@/parts/workflow/draft";
import { ValueControl } from "@/parts/workflow/ValueControl";
import { workflowsTexts } from "@/texts/workflows";
import { LimitFields } from "./LimitFields";

const texts = workflowsTexts.property;

interface Props {
  property: Property;
  problems: ReadonlyMap<string, string>;
  change: (values: Partial<Property>) => void;
  isReadOnly: boolean;
}

export function PropertyFields({ property, problems, change, isReadOnly }: Props) {
  return (
    <>
      <div className="grid items-start gap-4 sm:grid-cols-2">
        <Field label={texts.label} error={problems.get("label")}>
          <Input
            value={property.label ?? ""}
            maxLength={200}
            autoComplete="off"
            onChange={(event) => change({ label: event.target.value })}
          />
        </Field>
        <Field label={texts.key} hint={texts.keyHint} error={problems.get("key")}>
          <Input
            value={property.key}
            maxLength={63}
            autoComplete="off"
            spellCheck={false}
            onChange={(event) => change({ key: event.target.value })}
          />
        </Field>
        <Field label={texts.type} error={problems.get("type")}>
          <Select
            value={property.type}
            disabled={isReadOnly}
            choices={typesFor(property).map((value) => ({ value, label: workflowsTexts.types[value] }))}
            onChange={(type) => change(retyped(property, type))}
          />
        </Field>
        {!property.is_primary_input && (
          <Field label={isFileType(property.type) ? texts.asset : texts.default} error={problems.get("default")}>
            <ValueControl
              property={property}
              value={property.default}
              isReadOnly={isReadOnly}
              onChange={(value) => change({ default: value })}
            />
          </Field>
        )}
      </div>
      <Field label={texts.description} error={problems.get("description")}>
        <Textarea
          rows={2}
          value={property.description ?? ""}
          maxLength={2000}
          onChange={(event) => change({ description: event.target.value })}
        />
      </Field>
      <div className="grid items-start gap-x-4 gap-y-3 sm:grid-cols-2">
        {isFileType(property.type) && (
          <Flag
            label={texts.primary}
            hint={texts.primaryHint}
            value={property.is_primary_input ?? false}
            error={problems.get("is_primary_input")}
            isReadOnly={isReadOnly}
            onChange={(value) => change({ is_primary_input: value, ...(value ? { default: null } : {}) })}
          />
        )}
        {!property.is_primary_input && (
          <Flag
            label={texts.users}
            hint={texts.usersHint}
            value={property.user_configurable ?? false}
            isReadOnly={isReadOnly}
            onChange={(value) => change({ user_configurable: value })}
          />
        )}
        {!property.is_primary_input && (
          <Flag
            label={texts.required}
            value={property.required ?? false}
            isReadOnly={isReadOnly}
            onChange={(value) => change({ required: value })}
          />
        )}
      </div>
      <LimitFields
        property={property}
        problems={problems}
        isReadOnly={isReadOnly}
        onChange={(limits) => change({ limits: { ...property.limits, ...limits } })}
      />
    </>
  );
}

const FILES: readonly PropertyType[] = ["image", "video", "audio"];

/** A file property stays a file. A value can also be one of a list. */
function typesFor({ type, default: value }: Property): readonly PropertyType[] {
  if (isFileType(type)) return FILES;
  if (typeof value === "boolean" || type === "boolean") return ["boolean"];
  const plain: PropertyType = type !== "choice" ? type : typeof value === "string" || value == null ? "text" : "number";
  return [plain, "choice"];
}

interface FlagProps {
  label: string;
  hint?: string;
  error?: string;
  value: boolean;
  isReadOnly: boolean;
  onChange: (value: boolean) => void;
}

export function Flag({ label, hint, error, value, isReadOnly, onChange }: FlagProps) {
  return (
    <Field label={label} hint={hint} error={error}>
      <div className="flex min-h-9 items-center touch:min-h-11">
        <Switch checked={value} disabled={isReadOnly} onChange={onChange} />
      </div>
    </Field>
  );
}
