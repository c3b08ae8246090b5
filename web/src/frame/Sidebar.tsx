import { Link, useLocation } from "@tanstack/react-router";
import { useEffect, useRef } from "react";
import { reveal } from "@/design/reveal";
import { frameTexts } from "@/texts/frame";
import { operateTexts } from "@/texts/operate";
import { AccountButton } from "./AccountButton";
import { ActiveCount } from "./ActiveCount";
import { Brand } from "./Brand";
import { Connection } from "./Connection";
import { ACCOUNT, CREATE, LIBRARY, type Place } from "./navigation";
import { useOperatePlaces } from "./usePlaces";
import { WalletBox } from "./WalletBox";

export function Sidebar({ onKeys }: { onKeys: () => void }) {
  const operate = useOperatePlaces();
  const { pathname } = useLocation();
  const list = useRef<HTMLDivElement>(null);
  useEffect(() => {
    reveal(list.current, "[aria-current]");
  }, [pathname, operate.length]);
  return (
    <nav
      aria-label={frameTexts.navigation}
      className="sticky top-0 hidden h-dvh flex-col gap-0.5 border-r px-3 py-4 md:flex"
    >
      <Brand />
      {/* Operators have more pages than fit into a low window. */}
      <div ref={list} className="-mx-3 min-h-0 grow overflow-y-auto px-3 pb-2">
        <Group title={frameTexts.create} places={CREATE} />
        <Group title={frameTexts.library} places={LIBRARY} />
        {operate.length > 0 && <Group title={operateTexts.area} places={operate} />}
        <div className="mt-4 grid gap-0.5 [@media(max-height:62rem)]:mt-0.5">
          <Entry place={ACCOUNT} />
        </div>
      </div>
      <div className="mt-auto grid gap-2 pt-1">
        <WalletBox />
        <div className="flex items-center justify-between gap-1">
          <Connection />
          <AccountButton onKeys={onKeys} />
        </div>
      </div>
    </nav>
  );
}

function Group({ title, places }: { title: string; places: readonly Place[] }) {
  return (
    <div className="grid gap-0.5">
      <div className="px-2 pt-3.5 pb-1.5 text-xs [@media(max-height:62rem)]:pt-1.5 text-muted">{title}</div>
      {places.map((place) => (
        <Entry key={place.to} place={place} />
      ))}
    </div>
  );
}

function Entry({ place }: { place: Place }) {
  return (
    <Link
      to={place.to}
      // The overview is above the other operator pages.
      activeOptions={{ exact: place.to === "/operate" }}
      className="flex min-h-8.5 [@media(max-height:62rem)]:min-h-7 touch:min-h-11 items-center gap-2.5 rounded-s px-2 text-muted transition-colors duration-100 hover:bg-hover hover:text-text"
      activeProps={{ className: "bg-hover text-text! font-[550]", "aria-current": "page" }}
    >
      <place.icon size={16} strokeWidth={1.8} aria-hidden />
      <span className="grow">{place.label}</span>
      {place.to === "/jobs" && <ActiveCount />}
    </Link>
  );
}
