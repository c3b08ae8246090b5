import { useQuery } from "@tanstack/react-query";
import { activeJobsQuery } from "@/api/queries";
import { frameTexts } from "@/texts/frame";

const MAX_SHOWN = 99;

export function ActiveCount() {
  const { data } = useQuery(activeJobsQuery);
  if (!data) return null;
  return <span className="num text-xs font-medium text-muted">{frameTexts.active(data)}</span>;
}

/** On phones the count is at the icon. */
export function ActiveDot() {
  const { data } = useQuery(activeJobsQuery);
  if (!data) return null;
  return (
    <span className="num absolute -top-1 left-3 min-w-4 rounded-full bg-run px-1 text-center text-[10px] leading-4 font-semibold text-bg">
      {data > MAX_SHOWN ? `${MAX_SHOWN}+` : data}
      <span className="sr-only"> {frameTexts.activeWord}</span>
    </span>
  );
}
