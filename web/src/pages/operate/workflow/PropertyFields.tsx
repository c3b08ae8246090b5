import { Field, Select, Textarea } from "@/design";
import { BooleanField } from "@/parts/form/BooleanField";
import { FormField } from "@/parts/form/FormField";
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
  const form = { values: property, set: change, reasonOf: (name: string) => problems.get(name) ?? null };
  const text = { form, autoComplete: "off" };
  return (
    <>
      <div className="grid items-start gap-4 sm:grid-cols-2">
        <FormField {...text} name="label" label={texts.label} maxLength={200} />
        <FormField {...text} name="key" label={texts.key} hint={texts.keyHint} maxLength={63} spellCheck={false} />
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
          <BooleanField
            label={texts.primary}
            hint={texts.primaryHint}
            value={property.is_primary_input ?? false}
            error={problems.get("is_primary_input")}
            disabled={isReadOnly}
            onChange={(value) => change({ is_primary_input: value, ...(value ? { default: null } : {}) })}
          />
        )}
        {!property.is_primary_input && (
          <BooleanField
            label={texts.users}
            hint={texts.usersHint}
            value={property.user_configurable ?? false}
            disabled={isReadOnly}
            onChange={(value) => change({ user_configurable: value })}
          />
        )}
        {!property.is_primary_input && (
          <BooleanField
            label={texts.required}
            value={property.required ?? false}
            disabled={isReadOnly}
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
