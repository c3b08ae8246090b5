import { RefreshCw } from "lucide-react";
import { ApiError, explain } from "@/api/problems";
import { Button } from "@/design/Button";
import { CopyButton } from "@/design/CopyButton";
import { problemTexts } from "@/texts/problems";

interface Props {
  error: unknown;
  onRetry?: () => void;
  /** The page shows nothing else, so this title is the title of the page. */
  isPage?: boolean;
}

/** Shows an error in the place of the missing content: the cause, the next step, and the request id. */
export function ProblemPanel({ error, onRetry, isPage = false }: Props) {
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
          <Button size="s" onClick={onRetry} icon={<RefreshCw size={14} />}>
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
