import { useQuery } from "@tanstack/react-query";
import { CircleUserRound, Keyboard, LogOut, Monitor, Moon, Sun } from "lucide-react";
import { meQuery } from "@/api/queries";
import { Button } from "@/design/Button";
import { Menu, MenuItem, MenuLine } from "@/design/Menu";
import { setTheme, type Theme, useTheme } from "@/parts/theme";
import { commonTexts } from "@/texts/common";
import { frameTexts } from "@/texts/frame";
import type { AccountMenuProps } from "./AccountButton";
import { Connection } from "./Connection";
import { useSignOut } from "./useSignOut";

const ICONS: Record<Theme, typeof Sun> = { system: Monitor, light: Sun, dark: Moon };

/** The menu is open when it first appears: see AccountButton. */
export default function AccountMenu({ onKeys, withConnection = false }: AccountMenuProps) {
  const me = useQuery(meQuery);
  const theme = useTheme();
  const signOut = useSignOut();
  return (
    <Menu
      defaultOpen
      trigger={<Button look="quiet" size="icon" aria-label={frameTexts.account} icon={<CircleUserRound size={18} />} />}
    >
      {withConnection && <Connection />}
      {me.data && (
        <div className="max-w-64 px-2.5 py-1.5">
          {me.data.name && <div className="truncate font-[550]">{me.data.name}</div>}
          <div className="truncate text-s text-muted">{me.data.email}</div>
        </div>
      )}
      <MenuLine />
      {(Object.keys(ICONS) as Theme[]).map((each) => {
        const Icon = ICONS[each];
        return (
          <MenuItem key={each} onSelect={() => setTheme(each)} icon={<Icon size={15} aria-hidden />}>
            <span className="grow">{frameTexts.themes[each]}</span>
            {theme === each && (
              <span className="size-1.5 rounded-full bg-accent" role="img" aria-label={commonTexts.chosen} />
            )}
          </MenuItem>
        );
      })}
      <MenuLine />
      {onKeys && (
        <MenuItem onSelect={onKeys} icon={<Keyboard size={15} aria-hidden />}>
          {frameTexts.keys}
        </MenuItem>
      )}
      <MenuItem onSelect={signOut} icon={<LogOut size={15} aria-hidden />}>
        {frameTexts.signOut}
      </MenuItem>
    </Menu>
  );
}
