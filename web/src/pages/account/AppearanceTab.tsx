import { Segments } from "@/design";
import { setTheme, type Theme, useTheme } from "@/parts/theme";
import { appearanceTexts } from "@/texts/account";
import { frameTexts } from "@/texts/frame";

const THEMES = (["system", "light", "dark"] as const).map((value) => ({ value, label: frameTexts.themes[value] }));

export function AppearanceTab() {
  return (
    <section className="max-w-3xl">
      <h2>{appearanceTexts.theme}</h2>
      <p className="mb-4 text-muted">{appearanceTexts.themeText}</p>
      <Segments<Theme> label={appearanceTexts.theme} value={useTheme()} choices={THEMES} onChange={setTheme} />
    </section>
  );
}
