import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { SlidersHorizontal } from "lucide-react";
import { useCallback } from "react";
import { Empty, PageHead, Segments } from "@/design";
import { Pending } from "@/parts/Pending";
import { SearchField } from "@/parts/SearchField";
import { useTitle } from "@/parts/useTitle";
import { settingsTexts as texts } from "@/texts/settings";
import { found, sections } from "./found";
import { settingsQuery } from "./queries";
import { SETTING_VIEWS } from "./route";
import { SettingRow } from "./SettingRow";

export function SettingsPage() {
  useTitle(texts.title);
  const { q = "", view = "all" } = useSearch({ from: "/framed/operator/operate/settings" });
  const navigate = useNavigate({ from: "/operate/settings" });
  const { data: settings, error, refetch } = useQuery(settingsQuery);
  const search = useCallback(
    (words: string) => void navigate({ search: (before) => ({ ...before, q: words || undefined }), replace: true }),
    [navigate],
  );
  const shown = found(settings ?? [], q, view);
  return (
    <div className="max-w-5xl">
      <PageHead title={texts.title} text={texts.text} />
      <div className="mb-6 flex flex-wrap items-center gap-3">
        <SearchField value={q} onChange={search} label={texts.search} className="min-w-52 grow basis-64 lg:max-w-md" />
        <Segments
          label={texts.viewLabel}
          value={view}
          choices={SETTING_VIEWS.map((value) => ({ value, label: texts.views[value] }))}
          onChange={(chosen) =>
            void navigate({
              search: (before) => ({ ...before, view: chosen === "all" ? undefined : chosen }),
              replace: true,
            })
          }
        />
        {settings && (
          <span role="status" className="num text-s text-muted">
            {texts.count(shown.length, settings.length)}
          </span>
        )}
      </div>
      {!settings ? (
        <Pending query={{ error, refetch }} className="h-64" />
      ) : shown.length === 0 ? (
        <Empty icon={<SlidersHorizontal size={20} />} title={texts.none} text={texts.noneText} />
      ) : (
        <div className="grid grid-cols-[minmax(0,1fr)] gap-8">
          {sections(shown).map(([section, items]) => (
            <section key={section} aria-labelledby={`section-${section}`}>
              <h2 id={`section-${section}`} className="mb-3">
                {section}
              </h2>
              <ul className="panel divide-y">
                {items.map((setting) => (
                  <SettingRow key={setting.name} setting={setting} />
                ))}
              </ul>
            </section>
          ))}
        </div>
      )}
    </div>
  );
}
