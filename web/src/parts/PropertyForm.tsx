import { BooleanField, ChoiceField, NumberField, TextField } from "./form/fields";
import { Templatable } from "./form/Templatable";
import { type FormValue, type FormValues, labelOf, type Property } from "./form/values";
import { type FileValue, UploadField } from "./UploadField";
import { acceptanceOf, type InstallationLimits } from "./upload/acceptance";

interface Props {
  /** Prefix of ids. It must differ from that of every other form. */
  name: string;
  properties: readonly Property[];
  values: FormValues;
  onChange: (key: string, value: FormValue) => void;
  /** Problems by key, found by the page or the server. */
  problems: Record<string, string>;
  /** Limits of this installation for any file. */
  limits?: InstallationLimits;
  onPending: (key: string, uploading: Promise<FileValue> | null) => void;
}

/** A form for the properties of a workflow. */
export function PropertyForm({ name, properties, values, onChange, problems, limits, onPending }: Props) {
  return properties.map((property) => {
    const { key, type } = property;
    const shared = {
      label: labelOf(property),
      hint: property.description || undefined,
      required: property.required,
      error: problems[key],
    };
    const value = values[key] ?? null;
    const change = (next: FormValue) => onChange(key, next);
    switch (type) {
      case "text":
        return (
          <TextField
            key={key}
            {...shared}
            value={typeof value === "string" ? value : ""}
            maxLength={property.limits.max_length}
            onChange={change}
          />
        );
      case "number":
        return (
          <Templatable key={key} name={key} shared={shared} value={value} onChange={(next) => change(next ?? null)}>
            <NumberField
              {...shared}
              value={typeof value === "number" ? value : null}
              limits={property.limits}
              onChange={change}
            />
          </Templatable>
        );
      case "boolean":
        return (
          <Templatable key={key} name={key} shared={shared} value={value} onChange={(next) => change(next ?? null)}>
            <BooleanField {...shared} value={value === true} onChange={change} />
          </Templatable>
        );
      case "choice":
        return (
          <Templatable key={key} name={key} shared={shared} value={value} onChange={(next) => change(next ?? null)}>
            <ChoiceField
              {...shared}
              value={value as string | number | boolean | null}
              choices={property.limits.choices ?? []}
              onChange={change}
            />
          </Templatable>
        );
      default:
        return (
          <UploadField
            key={key}
            {...shared}
            name={`${name}:${key}`}
            value={value as FileValue | null}
            accepts={acceptanceOf(type, { ...property.limits, accept: property.accept }, limits)}
            onChange={change}
            onPending={(uploading) => onPending(key, uploading)}
          />
        );
    }
  });
}
