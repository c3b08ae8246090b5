import { Skeleton } from "@/design";
import { ProblemPanel } from "./ProblemPanel";

interface Props {
  /** A query without data. */
  query: { error: Error | null; refetch: () => unknown };
  /** Size of the skeleton. */
  className: string;
}

/** Replaces the content of a query that has no data: a skeleton, or the reason why it failed. */
export function Pending({ query, className }: Props) {
  if (query.error) return <ProblemPanel error={query.error} onRetry={() => void query.refetch()} />;
  return <Skeleton className={className} />;
}
