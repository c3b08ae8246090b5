import { RefreshCw } from "lucide-react";
import { ApiError, explain } from "@/api/problems";
import { Button } from "@/design/Button";
import { CopyButton } from "@/design/CopyButton";
import { problemTexts } from "@/texts/problems";

/** An error in the place of what it concerns: what happened, what to do, and the request id to quote. */
export function ProblemPanel({ error, onRetry }: { error: unknown; onRetry?: () => void }) {
  const problem = error instanceof ApiError ? error.problem : null;
  return (
    <div role="alert" className="panel grid gap-3 border-l-4 border-l-bad p-5">
      <div>
        <h2>{problem?.title ?? problemTexts.somethingFailed}</h2>
        {(problem === null || problem.detail) && <p className="mt-1 text-muted">{problem?.detail ?? explain(error)}</p>}
      </div>
      <div className="flex flex-wrap items-center gap-2">
        {onRetry && (
          <Button size="s" onClick={onRetry} icon={<RefreshCw size={14} />}>
            {problemTexts.tryAgain}
          </Button>
        )}
        {problem?.request_id && <CopyButton text={problem.request_id} label={problemTexts.copyRequestId} word={problemTexts.copyRequestId} />}
      </div>
    </div>
  );
}
