import { Skeleton } from "@/design";
import { type Failing, ProblemPanel, useReason } from "./ProblemPanel";

interface Props {
  /** A query without data. */
  query: Failing & { refetch: () => unknown };
  /** Size of the skeleton. */
  className: string;
}

/** Replaces the content of a query that has no data: a skeleton, or the reason why it failed. */
export function Pending({ query, className }: Props) {
  const reason = useReason(query);
  if (reason) return <ProblemPanel error={reason} onRetry={() => void query.refetch()} isRetrying={!query.error} />;
  return <Skeleton className={className} />;
}
