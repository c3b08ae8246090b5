import { Badge, CopyButton } from "@/design";
import { settingsTexts as texts } from "@/texts/settings";
import { defaultText, type Setting, valueText } from "./found";

/** Name and value of a setting, then its source and its meaning. */
export function SettingRow({ setting }: { setting: Setting }) {
  const isChanged = setting.source != null;
  const standard = defaultText(setting);
  return (
    <li className="grid grid-cols-[minmax(0,1fr)_auto] gap-x-4 px-5 py-3.5">
      <div className="min-w-0">
        <div className="flex flex-wrap items-baseline gap-x-4 gap-y-1">
          <code className="text-[13px] font-[600] [overflow-wrap:anywhere]">{setting.name}</code>
          <span className={`num [overflow-wrap:anywhere] ${isChanged ? "font-[550]" : ""}`}>
            {valueText(setting.value, setting)}
          </span>
          {isChanged && <Badge shape={false}>{texts.from(setting.source ?? "")}</Badge>}
        </div>
        <p className="mt-1 text-s text-muted">
          {setting.description}
          {standard && ` ${standard}`}
        </p>
      </div>
      <CopyButton text={setting.variable} label={texts.copyVariable(setting.variable)} />
    </li>
  );
}
