import { useQuery } from "@tanstack/react-query";
import { Input, Select, Textarea } from "@/design";
import { choiceLabel } from "@/parts/form/values";
import { isFileType } from "@/parts/media";
import { workflowsTexts } from "@/texts/workflows";
import type { Property } from "./draft";
import type { ExactNumber } from "./exact";
import { NumberInput } from "./NumberInput";
import { assetChoicesQuery } from "./queries";

const texts = workflowsTexts.property;
// A choice without a value cannot be selected.
const NONE = "none";
const LONG = 40;

interface Props {
  property: Property;
  value: Property["default"];
  isReadOnly: boolean;
  onChange: (value: Property["default"]) => void;
}

/** A value of a property, in the form of workflows and effects: a file is an asset. */
export function ValueControl({ property, value = null, isReadOnly, onChange }: Props) {
  if (isFileType(property.type))
    return <AssetSelect property={property} value={value} isReadOnly={isReadOnly} onChange={onChange} />;
  switch (property.type) {
    case "number":
      return (
        <NumberInput
          value={value as number | ExactNumber | null}
          onChange={(next) => onChange(next as number | null)}
        />
      );
    case "boolean":
      return (
        <Select
          value={String(value ?? false)}
          disabled={isReadOnly}
          choices={["true", "false"].map((each) => ({ value: each, label: texts.booleans[each as "true" | "false"] }))}
          onChange={(next) => onChange(next === "true")}
        />
      );
    case "choice": {
      const choices = property.limits?.choices ?? [];
      const chosen = choices.find((each) => JSON.stringify(each) === JSON.stringify(value));
      return (
        <Select
          value={chosen === undefined ? NONE : JSON.stringify(chosen)}
          disabled={isReadOnly}
          choices={[
            { value: NONE, label: texts.noDefault },
            ...choices.map((each) => ({ value: JSON.stringify(each), label: choiceLabel(each) })),
          ]}
          onChange={(next) => onChange(choices.find((each) => JSON.stringify(each) === next) ?? null)}
        />
      );
    }
    default: {
      const text = typeof value === "string" ? value : "";
      const change = (next: string) => onChange(next === "" ? null : next);
      return text.length > LONG || text.includes("\n") ? (
        <Textarea rows={2} value={text} onChange={(event) => change(event.target.value)} />
      ) : (
        <Input value={text} autoComplete="off" onChange={(event) => change(event.target.value)} />
      );
    }
  }
}

function AssetSelect({ property, value, isReadOnly, onChange }: Props) {
  const assets = useQuery(assetChoicesQuery);
  const fitting = (assets.data ?? []).filter((each) => each.mime_type.startsWith(`${property.type}/`));
  return (
    <Select
      value={typeof value === "string" && value !== "" ? value : NONE}
      disabled={isReadOnly}
      choices={[
        { value: NONE, label: texts.noAsset },
        ...fitting.map((each) => ({ value: each.id, label: each.name })),
      ]}
      onChange={(id) => onChange(id === NONE ? null : id)}
    />
  );
}
