import { useQuery } from "@tanstack/react-query";
import { Link, Outlet } from "@tanstack/react-router";
import { ShieldAlert } from "lucide-react";
import { meQuery } from "@/api/queries";
import { Empty } from "@/design";
import { operateTexts } from "@/texts/operate";
import { OPERATE, seesOperate } from "./navigation";

export function OperatorArea() {
  const { data } = useQuery(meQuery);
  if (data && !seesOperate(data.role)) {
    return <Empty isPage icon={<ShieldAlert size={20} />} title={operateTexts.notAllowed} text={operateTexts.notAllowedText} />;
  }
  return (
    <>
      <OperatorBar />
      <Outlet />
    </>
  );
}

/** The pages of operators on phones, where the bar at the bottom has room for one of them. */
function OperatorBar() {
  return (
    <nav aria-label={operateTexts.area} className="mb-4 flex gap-1 overflow-x-auto md:hidden">
      {OPERATE.map((place) => (
        <Link
          key={place.to}
          to={place.to}
          activeOptions={{ exact: true }}
          className="flex min-h-9 touch:min-h-11 items-center rounded-s px-3 text-s whitespace-nowrap text-muted"
          activeProps={{ className: "bg-hover text-text! font-[550]", "aria-current": "page" }}
        >
          {place.label}
        </Link>
      ))}
    </nav>
  );
}
