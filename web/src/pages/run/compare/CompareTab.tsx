import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Trophy } from "lucide-react";
import { type ReactNode, useEffect, useRef } from "react";
import { meQuery } from "@/api/queries";
import { Button, Empty, Progress, Segments, Skeleton } from "@/design";
import { ProblemPanel } from "@/parts/ProblemPanel";
import { compareTexts } from "@/texts/runs";
import type { Run } from "../queries";
import { comparedStep } from "../search";
import { CompareButtons } from "./CompareButtons";
import { PairView } from "./PairView";
import { actionOf } from "./pair-queue";
import { type Pairs, usePairs } from "./usePairs";

// These elements use the same keys.
const OTHERS =
  "input, textarea, select, [contenteditable], [role=dialog], [role=menu], [role=listbox], [role=tablist], [role=radiogroup], [role=group]";

interface Props {
  run: Run;
  wanted: string | undefined;
  onStep: (step: string) => void;
}

export function CompareTab({ run, wanted, onStep }: Props) {
  // The step stays while a user compares, even if a later step gets its second candidate.
  const kept = useRef<string>(undefined);
  const isKept = (run.steps.find((each) => each.step.slug === kept.current)?.active ?? 0) > 1;
  if (wanted !== undefined || !isKept) kept.current = comparedStep(run.steps, wanted);
  const step = kept.current;
  return (
    <Comparison key={step} run={run} step={step}>
      {run.steps.length > 1 && (
        <Segments
          label={compareTexts.stepLabel}
          value={step ?? ""}
          choices={run.steps.map((each) => ({ value: each.step.slug, label: each.step.name }))}
          onChange={onStep}
        />
      )}
    </Comparison>
  );
}

function Comparison({ run, step, children }: { run: Run; step: string | undefined; children: ReactNode }) {
  const { data: me } = useQuery(meQuery);
  const pairs = usePairs(run, step);
  const isReader = me?.role === "viewer";
  useVoteKeys(pairs, !isReader);
  if (pairs.error && pairs.waiting.length === 0) return <ProblemPanel error={pairs.error} onRetry={pairs.retry} />;
  if (pairs.isLoading) return <Skeleton className="h-[50dvh]" />;
  const { judged, total } = pairs.progress;
  return (
    <div className="grid gap-4">
      <div className="flex flex-wrap items-center gap-4">
        {children}
        <div className="min-w-40 grow">
          <Progress percent={total === 0 ? 0 : (100 * judged) / total} label={compareTexts.progressLabel} />
        </div>
        <span className="num text-s text-muted" role="status">
          {compareTexts.progress(judged, total)}
        </span>
      </div>
      {pairs.waiting.length > 0 ? (
        <PairView pairs={pairs.waiting} onChoose={pairs.judge} isDisabled={isReader} />
      ) : total === 0 ? (
        <Empty title={compareTexts.tooFew} text={compareTexts.tooFewText} />
      ) : (
        <Empty
          icon={<Trophy size={20} />}
          title={compareTexts.done}
          text={compareTexts.doneText}
          action={
            <Button look="go" asChild>
              <Link to="/runs/$id" params={{ id: run.id }} search={{ tab: "winners" }} replace>
                {compareTexts.toWinners}
              </Link>
            </Button>
          }
        />
      )}
      {!isReader && <CompareButtons pairs={pairs} />}
    </div>
  );
}

function useVoteKeys({ judge, undo }: Pairs, isOn: boolean): void {
  useEffect(() => {
    if (!isOn) return;
    const onKeyDown = (event: KeyboardEvent) => {
      const action = actionOf(event.key);
      if (action === undefined || event.metaKey || event.ctrlKey || event.altKey || event.shiftKey || event.repeat)
        return;
      if (event.target instanceof HTMLElement && event.target.closest(OTHERS)) return;
      event.preventDefault();
      if (action === "undo") undo();
      else judge(action);
    };
    document.addEventListener("keydown", onKeyDown);
    return () => document.removeEventListener("keydown", onKeyDown);
  }, [judge, undo, isOn]);
}
