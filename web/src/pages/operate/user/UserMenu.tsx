import { Ellipsis, KeyRound, ShieldHalf, Undo2, UserRoundCheck, UserRoundX } from "lucide-react";
import type { Schemas } from "@/api/types";
import { Button, Menu, MenuItem, MenuLine } from "@/design";
import { userTexts as texts } from "@/texts/users";
import type { UserQuestion } from "./UserHead";
import { useSwitchUser } from "./useSwitchUser";

interface Props {
  user: Schemas["User"];
  mayMove: boolean;
  mayChange: boolean;
  onQuestion: (question: UserQuestion) => void;
}

export function UserMenu({ user, mayMove, mayChange, onQuestion }: Props) {
  const change = useSwitchUser(user);
  return (
    <Menu
      trigger={<Button size="icon" busy={change.isPending} aria-label={texts.actions} icon={<Ellipsis size={18} />} />}
    >
      {mayMove && (
        <MenuItem icon={<Undo2 size={16} />} onSelect={() => onQuestion("debit")}>
          {texts.debit}
        </MenuItem>
      )}
      {mayChange && mayMove && <MenuLine />}
      {mayChange && (
        <>
          <MenuItem icon={<ShieldHalf size={16} />} onSelect={() => onQuestion("role")}>
            {texts.role}
          </MenuItem>
          <MenuItem icon={<KeyRound size={16} />} onSelect={() => onQuestion("reset")}>
            {texts.reset}
          </MenuItem>
          <MenuLine />
          {user.disabled_at ? (
            <MenuItem icon={<UserRoundCheck size={16} />} onSelect={() => change.mutate("enable")}>
              {texts.enable}
            </MenuItem>
          ) : (
            <MenuItem danger icon={<UserRoundX size={16} />} onSelect={() => onQuestion("disable")}>
              {texts.disable}
            </MenuItem>
          )}
        </>
      )}
    </Menu>
  );
}
