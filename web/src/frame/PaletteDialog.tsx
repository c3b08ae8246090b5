import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { Command } from "cmdk";
import { Images, Keyboard, LogOut, SunMoon } from "lucide-react";
import { Dialog } from "radix-ui";
import { useState } from "react";
import { effectsQuery } from "@/api/queries";
import { setTheme, useTheme } from "@/parts/theme";
import { frameTexts, paletteTexts } from "@/texts/frame";
import type { PaletteProps } from "./CommandPalette";
import { ACCOUNT, ACCOUNT_SECTIONS } from "./navigation";
import { PaletteGroup, PaletteItem } from "./PaletteItem";
import { PaletteJobs } from "./PaletteJobs";
import { rankOf } from "./palette-rank";
import { usePlaces } from "./usePlaces";
import { useSignOut } from "./useSignOut";

const NEXT_THEME = { system: "dark", dark: "light", light: "system" } as const;

export default function PaletteDialog({ open, onOpenChange, onKeys }: PaletteProps) {
  const [typed, setTyped] = useState("");
  const places = usePlaces();
  const navigate = useNavigate();
  const effects = useQuery(effectsQuery());
  const theme = useTheme();
  const signOut = useSignOut();
  const run = (action: () => unknown) => () => {
    onOpenChange(false);
    action();
  };
  return (
    <Dialog.Root open={open} onOpenChange={onOpenChange}>
      <Dialog.Portal>
        <Dialog.Overlay className="fixed inset-0 z-40 bg-veil" />
        <Dialog.Content
          aria-describedby={undefined}
          className="appear fixed inset-x-4 top-[12vh] z-50 mx-auto max-w-xl overflow-hidden rounded-m border bg-panel shadow-high outline-none"
        >
          <Dialog.Title className="sr-only">{paletteTexts.title}</Dialog.Title>
          <Command label={paletteTexts.title} filter={rankOf} loop>
            <Command.Input
              value={typed}
              onValueChange={setTyped}
              placeholder={paletteTexts.placeholder}
              className="h-12 w-full border-b bg-transparent px-4 text-l outline-none"
            />
            <Command.List className="max-h-[min(24rem,60vh)] overflow-y-auto p-1.5">
              <Command.Empty className="px-3 py-8 text-center text-muted">{paletteTexts.nothing}</Command.Empty>
              <PaletteGroup heading={paletteTexts.pages}>
                {places.map((place) => (
                  <PaletteItem
                    key={place.to}
                    value={place.label}
                    icon={<place.icon size={16} />}
                    onSelect={run(() => navigate({ to: place.to }))}
                  >
                    {place.label}
                    {place.key && (
                      <span className="ml-auto flex gap-1 touch:hidden">
                        <kbd>G</kbd>
                        <kbd>{place.key.toUpperCase()}</kbd>
                      </span>
                    )}
                  </PaletteItem>
                ))}
                {ACCOUNT_SECTIONS.map(({ tab, label }) => (
                  <PaletteItem
                    key={tab}
                    value={`${ACCOUNT.label} ${label}`}
                    icon={<ACCOUNT.icon size={16} />}
                    onSelect={run(() => navigate({ to: "/account", search: { tab } }))}
                  >
                    {label}
                  </PaletteItem>
                ))}
              </PaletteGroup>
              {effects.data && effects.data.length > 0 && (
                <PaletteGroup heading={paletteTexts.effects}>
                  {effects.data.map((effect) => (
                    <PaletteItem
                      key={effect.slug}
                      value={`${effect.name} ${effect.slug}`}
                      icon={<Images size={16} />}
                      onSelect={run(() => navigate({ to: "/effects/$slug", params: { slug: effect.slug } }))}
                    >
                      <span className="min-w-0 truncate">{effect.name}</span>
                    </PaletteItem>
                  ))}
                </PaletteGroup>
              )}
              <PaletteJobs typed={typed} onChoose={run} />
              <PaletteGroup heading={paletteTexts.actions}>
                <PaletteItem
                  value={frameTexts.theme}
                  icon={<SunMoon size={16} />}
                  onSelect={run(() => setTheme(NEXT_THEME[theme]))}
                >
                  {frameTexts.theme}: {frameTexts.themes[NEXT_THEME[theme]]}
                </PaletteItem>
                <PaletteItem value={frameTexts.keys} icon={<Keyboard size={16} />} onSelect={run(onKeys)}>
                  {frameTexts.keys}
                </PaletteItem>
                <PaletteItem value={frameTexts.signOut} icon={<LogOut size={16} />} onSelect={run(signOut)}>
                  {frameTexts.signOut}
                </PaletteItem>
              </PaletteGroup>
            </Command.List>
          </Command>
        </Dialog.Content>
      </Dialog.Portal>
    </Dialog.Root>
  );
}
