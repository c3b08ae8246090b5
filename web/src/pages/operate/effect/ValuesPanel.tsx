import { useQuery } from "@tanstack/react-query";
import { ApiError } from "@/api/problems";
import { Badge, Field, Skeleton, Switch } from "@/design";
import { labelOf } from "@/parts/form/values";
import { isFileType } from "@/parts/media";
import type { Property } from "@/parts/workflow/draft";
import { shownValue } from "@/parts/workflow/exact";
import { assetChoicesQuery, workflowQuery } from "@/parts/workflow/queries";
import { ValueControl } from "@/parts/workflow/ValueControl";
import { catalogEffectsTexts as texts } from "@/texts/catalog-effects";
import type { EffectEditing } from "./useEffectDraft";

/** The values that this effect sets in its workflow: hidden from users, or as defaults. */
export function ValuesPanel({
  editing: { values: draft, set, error },
  mayChange,
}: {
  editing: EffectEditing;
  mayChange: boolean;
}) {
  const workflow = useQuery(workflowQuery(draft.workflow));
  const properties = workflow.data?.properties ?? [];
  const primary = properties.find((each) => each.is_primary_input);
  const settable = properties.filter((each) => !each.is_primary_input);
  const overrides = draft.overrides as Record<string, Property["default"]>;
  const change = (key: string, value: Property["default"] | undefined) => {
    const { [key]: _, ...rest } = overrides;
    // An emptied field stays in the draft, and the server names what is missing.
    set({ overrides: value === undefined ? rest : { ...rest, [key]: value ?? "" } });
  };
  return (
    <section className="panel grid min-w-0 gap-4 p-4 sm:p-5">
      <div>
        <h2>{texts.values}</h2>
        <p className="mt-0.5 text-s text-muted">{texts.valuesText}</p>
      </div>
      {workflow.data === undefined ? (
        <Skeleton className="h-24" />
      ) : (
        <>
          <p className="text-s">
            <span className="text-muted">{texts.input}: </span>
            {primary && isFileType(primary.type) ? texts.inputOf[primary.type] : texts.noInput}
          </p>
          {settable.length === 0 && <p className="text-muted">{texts.noValues}</p>}
          <ul className="divide-y">
            {settable.map((property) => (
              <Value
                key={property.key}
                property={property}
                value={overrides[property.key]}
                error={reasonOf(error, property.key)}
                mayChange={mayChange}
                onChange={(value) => change(property.key, value)}
              />
            ))}
          </ul>
        </>
      )}
    </section>
  );
}

interface ValueProps {
  property: Property;
  /** undefined: the effect does not set the value. */
  value: Property["default"] | undefined;
  error: string | undefined;
  mayChange: boolean;
  onChange: (value: Property["default"] | undefined) => void;
}

function Value({ property, value, error, mayChange, onChange }: ValueProps) {
  const label = labelOf({ key: property.key, label: property.label ?? "" });
  const isSet = value !== undefined;
  const assets = useQuery({ ...assetChoicesQuery, enabled: isFileType(property.type) && !isSet });
  const asset = assets.data?.find((each) => each.id === property.default)?.name ?? texts.asset;
  const mustSet = !property.user_configurable && property.required && property.default == null;
  return (
    <li className="grid gap-2 py-3">
      <div className="flex items-center justify-between gap-3">
        <div className="min-w-0">
          <p className="font-[550] [overflow-wrap:anywhere]">{label}</p>
          <Badge shape={false} tone={property.user_configurable ? "run" : "plain"}>
            {property.user_configurable ? texts.byUsers : texts.byEffect}
          </Badge>
        </div>
        <Switch
          label={texts.sets(label)}
          checked={isSet}
          disabled={!mayChange}
          onChange={(next) => onChange(next ? startOf(property) : undefined)}
        />
      </div>
      {isSet ? (
        <fieldset disabled={!mayChange} className="contents">
          <Field label={<span className="sr-only">{label}</span>} error={error}>
            <ValueControl property={property} value={value} isReadOnly={!mayChange} onChange={onChange} />
          </Field>
        </fieldset>
      ) : (
        <p className={error || mustSet ? "text-s text-bad" : "line-clamp-2 text-s text-muted [overflow-wrap:anywhere]"}>
          {error ??
            (mustSet
              ? texts.mustSet
              : property.default == null
                ? texts.noDefault
                : texts.usesDefault(isFileType(property.type) ? asset : shownValue(property.default)))}
        </p>
      )}
    </li>
  );
}

/** First value of a property when the effect starts to set it. */
function startOf(property: Property): Property["default"] {
  if (property.default != null) return property.default;
  switch (property.type) {
    case "boolean":
      return false;
    case "number":
      return property.limits?.min ?? 0;
    case "choice":
      return property.limits?.choices?.[0] ?? "";
    default:
      return "";
  }
}

function reasonOf(error: unknown, key: string): string | undefined {
  if (!(error instanceof ApiError)) return undefined;
  return error.problem.errors?.find((each) => each.field === `overrides.${key}`)?.reason;
}
