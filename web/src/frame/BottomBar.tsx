import { Link } from "@tanstack/react-router";
import { frameTexts } from "@/texts/frame";
import { operateTexts } from "@/texts/operate";
import { ActiveDot } from "./ActiveCount";
import { ACCOUNT, PLACES } from "./navigation";
import { useOperatePlaces } from "./usePlaces";

/** Navigation at the bottom on phones, within reach of a thumb. */
export function BottomBar() {
  // This entry opens the operator pages. A row at the top of each page links to the others.
  const operate = useOperatePlaces()
    .slice(0, 1)
    .map((place) => ({ ...place, label: operateTexts.area }));
  // Six entries fit on a small phone. The account also has a button at the top.
  const inBar = PLACES.filter((place) => !place.isNotInBar);
  const places = operate.length > 0 ? [...inBar.filter((place) => place !== ACCOUNT), ...operate] : inBar;
  return (
    <nav
      aria-label={frameTexts.navigation}
      className="fixed inset-x-0 bottom-0 z-20 grid auto-cols-fr grid-flow-col border-t bg-bg/92 pb-[env(safe-area-inset-bottom)] backdrop-blur-md md:hidden"
    >
      {places.map((place) => (
        <Link
          key={place.to}
          to={place.to}
          className="grid min-h-14 content-center justify-items-center gap-0.5 text-xs text-muted"
          activeProps={{ className: "text-accent! font-[550]", "aria-current": "page" }}
        >
          <span className="relative">
            <place.icon size={20} strokeWidth={1.8} aria-hidden />
            {place.to === "/jobs" && <ActiveDot />}
          </span>
          {place.label}
        </Link>
      ))}
    </nav>
  );
}
