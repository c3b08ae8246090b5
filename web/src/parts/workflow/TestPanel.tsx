import { useQuery } from "@tanstack/react-query";
import { FlaskConical } from "lucide-react";
import { lazy, type ReactNode, Suspense } from "react";
import { Button, Empty, Skeleton } from "@/design";
import { workflowsTexts } from "@/texts/workflows";
import type { Draft, Property } from "./draft";
import { fleetChoicesQuery } from "./queries";
import { TestForm } from "./TestForm";

// The players load with the first run.
const TestResult = lazy(async () => ({ default: (await import("./TestResult")).TestResult }));

interface Props {
  slug: string;
  isActive: boolean;
  properties: readonly Property[];
  /** Values that an effect sets, by key. */
  overrides?: Record<string, unknown>;
  /** The unsaved state; null if everything is saved. */
  draft: Draft | null;
  mayRun: boolean;
  /** The shown test run. */
  job: string | undefined;
  onJob: (id: string) => void;
  /** Opens the choice of fleets. */
  onFleets?: () => void;
  /** Actions for a result. */
  action?: (jobId: string) => ReactNode;
}

/** The form of a workflow that runs it as a test, with the result beside it. */
export function TestPanel({
  slug,
  isActive,
  properties,
  overrides,
  draft,
  mayRun,
  job,
  onJob,
  onFleets,
  action,
}: Props) {
  const fleets = useQuery({ ...fleetChoicesQuery, enabled: mayRun });
  const serving = fleets.data?.filter((each) => each.is_active && each.workflows.includes(slug));
  const stage = serving?.find((each) => each.stage === "production")?.stage ?? serving?.[0]?.stage;
  return (
    <section className="panel grid min-w-0 gap-4 p-4 sm:p-5 lg:sticky lg:top-16" aria-label={workflowsTexts.form}>
      <div>
        <h2>{workflowsTexts.form}</h2>
        <p className="mt-0.5 text-s text-muted">{workflowsTexts.formText}</p>
      </div>
      {job !== undefined && (
        <Suspense fallback={<Skeleton className="h-40 rounded-m!" />}>
          <TestResult key={job} id={job} action={action} />
        </Suspense>
      )}
      {properties.length === 0 && !mayRun && (
        <Empty icon={<FlaskConical size={20} />} title={workflowsTexts.noFields} />
      )}
      <TestForm
        key={slug}
        slug={slug}
        properties={properties}
        overrides={overrides}
        draft={draft}
        mayRun={mayRun && isActive}
        stage={stage}
        onJob={onJob}
      />
      {mayRun && !isActive && (
        <p className="rounded-s bg-warn-soft px-3 py-2 text-s text-warn">{workflowsTexts.inactiveTest}</p>
      )}
      {mayRun && isActive && serving?.length === 0 && (
        <div className="flex flex-wrap items-center justify-between gap-2 rounded-s bg-warn-soft px-3 py-2 text-s text-warn">
          {workflowsTexts.noFleet}
          {onFleets && (
            <Button size="s" onClick={onFleets}>
              {workflowsTexts.noFleetLink}
            </Button>
          )}
        </div>
      )}
    </section>
  );
}
