// Selects the shown settings, groups them by section, and writes their values in words. Pure.
import type { Schemas } from "@/api/types";
import { formatBytes } from "@/parts/bytes";
import { settingsTexts as texts } from "@/texts/settings";
import type { SettingView } from "./route";

export type Setting = Schemas["Setting"];
const LARGE = 10_000;

/** The name, the variable or the description must contain every word. */
export function found(settings: readonly Setting[], q: string, view: SettingView): Setting[] {
  const words = q.toLowerCase().split(/\s+/).filter(Boolean);
  return settings.filter((setting) => {
    const text = `${setting.name} ${setting.variable} ${setting.description}`.toLowerCase();
    return (view === "all" || setting.source != null) && words.every((word) => text.includes(word));
  });
}

/** The default in words, unless the description contains it. */
export function defaultText(setting: Setting): string | null {
  if (setting.source == null || setting.is_secret || setting.description.includes("Default:")) return null;
  return texts.defaultIs(valueText(setting.default, setting));
}

/** Sections are named by the first part of the setting's name, in the order of the list. */
export function sections(settings: readonly Setting[]): [string, Setting[]][] {
  const grouped = new Map<string, Setting[]>();
  for (const setting of settings) {
    const section = setting.name.includes(".") ? setting.name.split(".", 1)[0]! : texts.general;
    grouped.set(section, [...(grouped.get(section) ?? []), setting]);
  }
  return [...grouped];
}

/** Formats a value: `30 seconds`, `1,048,576 bytes (1 MB)`, `yes`. */
export function valueText(value: unknown, setting: Setting): string {
  if (setting.is_secret) return value == null ? texts.unset : texts.secretSet;
  if (value == null) return texts.unset;
  if (typeof value === "boolean") return value ? texts.yes : texts.no;
  if (typeof value === "number") {
    // A port is 8400, not 8,400.
    const number = value.toLocaleString("en", {
      maximumFractionDigits: 6,
      useGrouping: !setting.name.endsWith("port"),
    });
    const unit = setting.unit ? ` ${setting.unit}` : "";
    return setting.unit === "bytes" && value >= LARGE ? `${number}${unit} (${formatBytes(value)})` : `${number}${unit}`;
  }
  if (
    value === "" ||
    (Array.isArray(value) && value.length === 0) ||
    (typeof value === "object" && Object.keys(value).length === 0)
  )
    return texts.empty;
  if (Array.isArray(value) && value.every((each) => typeof each === "string")) return value.join(", ");
  return typeof value === "string" ? value : JSON.stringify(value);
}
