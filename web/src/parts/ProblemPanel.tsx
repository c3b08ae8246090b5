import { RefreshCw } from "lucide-react";
import { useState } from "react";
import { ApiError, explain } from "@/api/problems";
import { Button } from "@/design/Button";
import { CopyButton } from "@/design/CopyButton";
import { problemTexts } from "@/texts/problems";

interface Props {
  error: unknown;
  onRetry?: () => void;
  isRetrying?: boolean;
  /** The page shows nothing else, so this title is the title of the page. */
  isPage?: boolean;
}

/** Shows an error in the place of the missing content: the cause, the next step, and the request id. */
export function ProblemPanel({ error, onRetry, isRetrying = false, isPage = false }: Props) {
  const problem = error instanceof ApiError ? error.problem : null;
  const title = problem?.title ?? problemTexts.somethingFailed;
  return (
    <div role="alert" className="panel grid gap-3 border-l-4 border-l-bad p-5">
      <div>
        {isPage ? <h1 className="text-l">{title}</h1> : <h2>{title}</h2>}
        {(problem === null || problem.detail) && <p className="mt-1 text-muted">{problem?.detail ?? explain(error)}</p>}
      </div>
      {problem?.request_id && (
        <p className="text-s text-muted">
          {problemTexts.requestId} <code className="font-mono break-all text-text">{problem.request_id}</code>
        </p>
      )}
      <div className="flex flex-wrap items-center gap-2">
        {onRetry && (
          <Button size="s" busy={isRetrying} onClick={onRetry} icon={<RefreshCw size={14} />}>
            {problemTexts.tryAgain}
          </Button>
        )}
        {problem?.request_id && (
          <CopyButton text={problem.request_id} label={problemTexts.copyRequestId} word={problemTexts.copyRequestId} />
        )}
      </div>
    </div>
  );
}

export interface Failing {
  error: Error | null;
  /** How often this query failed. Without it the reason is hidden while the query is sent again. */
  errorUpdateCount?: number;
}

/** Why a query has no data. A query that is sent again has no error until it fails again; the reason stays meanwhile. */
export function useReason({ error, errorUpdateCount = 0 }: Failing): Error | null {
  const [last, setLast] = useState(error);
  const reason = error ?? (errorUpdateCount > 0 ? last : null);
  if (reason !== last) setLast(reason);
  return reason;
}
