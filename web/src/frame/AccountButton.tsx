import { CircleUserRound } from "lucide-react";
import { lazy, Suspense, useState } from "react";
import { Button } from "@/design/Button";
import { frameTexts } from "@/texts/frame";

const load = () => import("./AccountMenu");
const AccountMenu = lazy(load);

export interface AccountMenuProps {
  onKeys?: () => void;
  /** On phones, where the sidebar's foot is not there. */
  withConnection?: boolean;
}

/** The menu's code, a sixth of the first page otherwise, is loaded when a user is about to open it. */
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
