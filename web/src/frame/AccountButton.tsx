import { CircleUserRound } from "lucide-react";
import { lazy, Suspense, useState } from "react";
import { Button } from "@/design/Button";
import { frameTexts } from "@/texts/frame";

const load = () => import("./AccountMenu");
const AccountMenu = lazy(load);

export interface AccountMenuProps {
  onKeys?: () => void;
  /** Phones have no sidebar, so this button replaces its foot. */
  withConnection?: boolean;
}

/** The code of the menu would be a sixth of the first page. It loads when the user is about to open the menu. */
export function AccountButton(props: AccountMenuProps) {
  const [isWanted, setWanted] = useState(false);
  const button = (
    <Button
      look="quiet"
      size="icon"
      aria-label={frameTexts.account}
      aria-haspopup="menu"
      aria-expanded={false}
      icon={<CircleUserRound size={18} />}
      onPointerEnter={load}
      onFocus={load}
      onClick={() => setWanted(true)}
    />
  );
  if (!isWanted) return button;
  return (
    <Suspense fallback={button}>
      <AccountMenu {...props} />
    </Suspense>
  );
}
