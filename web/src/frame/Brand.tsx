import { Link } from "@tanstack/react-router";
import icon from "@/icon.svg";
import { frameTexts } from "@/texts/frame";

export function Brand() {
  return (
    <Link
      to="/effects"
      className="flex touch:min-h-11 items-center gap-2.5 rounded-s px-2 py-1 text-l font-[650] tracking-tight"
    >
      <img src={icon} alt="" width={22} height={22} />
      {frameTexts.product}
    </Link>
  );
}
