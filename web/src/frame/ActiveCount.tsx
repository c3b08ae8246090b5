import { useQuery } from "@tanstack/react-query";
import { activeJobsQuery } from "@/api/queries";
import { frameTexts } from "@/texts/frame";

export function ActiveCount() {
  const { data } = useQuery(activeJobsQuery);
  if (!data) return null;
  return <span className="num text-xs font-medium text-muted">{frameTexts.active(data)}</span>;
}
