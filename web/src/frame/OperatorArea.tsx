import { useQuery } from "@tanstack/react-query";
import { Link, Outlet, useLocation } from "@tanstack/react-router";
import { ShieldAlert } from "lucide-react";
import { meQuery } from "@/api/queries";
import { Empty } from "@/design";
import { useRevealed } from "@/design/useRevealed";
import { operateTexts } from "@/texts/operate";
import { mayOpen } from "./navigation";
import { useOperatePlaces } from "./usePlaces";

export function OperatorArea() {
  const { data } = useQuery(meQuery);
  const { pathname } = useLocation();
  if (data && !mayOpen(data.role, pathname)) {
    return (
      <Empty
        isPage
        icon={<ShieldAlert size={20} />}
        title={operateTexts.notAllowed}
        text={operateTexts.notAllowedText}
      />
    );
  }
  return (
    <>
      <OperatorBar />
      <Outlet />
    </>
  );
}

/** Row of links to the operator pages on phones, because the bottom bar has room for only one of them. */
function OperatorBar() {
  const places = useOperatePlaces();
  const { pathname } = useLocation();
  const bar = useRevealed<HTMLElement>("[aria-current]", pathname);
  return (
    <nav ref={bar} aria-label={operateTexts.area} className="mb-4 flex gap-1 overflow-x-auto md:hidden">
      {places.map((place) => (
        <Link
          key={place.to}
          to={place.to}
          activeOptions={{ exact: place.to === "/operate", includeSearch: false }}
          className="flex min-h-9 touch:min-h-11 items-center rounded-s px-3 text-s whitespace-nowrap text-muted"
          activeProps={{ className: "bg-hover text-text! font-[550]", "aria-current": "page" }}
        >
          {place.label}
        </Link>
      ))}
    </nav>
  );
}
