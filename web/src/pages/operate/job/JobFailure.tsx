import { Link } from "@tanstack/react-router";
import { CopyButton } from "@/design";
import type { AdminJob } from "@/parts/job/queries";
import { failureHints, unknownHint } from "@/texts/failure-hints";
import { operatorJobTexts as texts } from "@/texts/operator-job";
import { failedNodeOf } from "./node-marks";

/** The cause of the failure, the next step, and the traceback for roles that may see it. */
export function JobFailure({ job }: { job: AdminJob }) {
  const error = job.full_error ?? job.error;
  if (!error) return null;
  const details = job.full_error?.details;
  const node = failedNodeOf(details);
  const traceback = job.full_error?.traceback;
  return (
    <section className="panel grid gap-3 border-l-4 border-l-bad p-5" aria-label={texts.error}>
      <div className="min-w-0">
        <h2>
          {texts.error} <code className="text-muted">{error.type}</code>
        </h2>
        <p className="mt-1 [overflow-wrap:anywhere] whitespace-pre-line">{error.message}</p>
        {node !== null && (
          <p className="mt-1 text-s text-muted">
            {texts.atNode(`#${node}`)}.{" "}
            <Link
              from="/operate/jobs/$id"
              to="."
              search={(before: object) => ({ ...before, tab: undefined, node })}
              className="underline underline-offset-3 hover:text-text"
              resetScroll={false}
            >
              {texts.showNode}
            </Link>
          </p>
        )}
      </div>
      <p className="text-s">
        <span className="font-[550]">{texts.whatToDo}:</span> {hintOf(error.type, details)}
      </p>
      {traceback && <Text title={texts.traceback} text={traceback} copy={texts.copyTraceback} />}
      {hasMore(details) && <Text title={texts.details} text={JSON.stringify(details, null, 2)} />}
    </section>
  );
}

function Text({ title, text, copy }: { title: string; text: string; copy?: string }) {
  return (
    <details className="text-s">
      <summary className="w-fit py-1 font-[550]">{title}</summary>
      <div className="relative mt-2">
        <pre
          tabIndex={0}
          className="max-h-96 overflow-auto rounded-s border bg-bg p-3 pr-12 font-mono text-xs whitespace-pre-wrap [overflow-wrap:anywhere]"
        >
          {text}
        </pre>
        {copy && (
          <div className="absolute top-1 right-1">
            <CopyButton text={text} label={copy} />
          </div>
        )}
      </div>
    </details>
  );
}

/** Advice of the engine comes first, for example which file to install. */
function hintOf(type: string, details: unknown): string {
  const advice =
    typeof details === "object" && details !== null ? (details as Record<string, unknown>).advice : undefined;
  return typeof advice === "string" && advice ? advice : (failureHints[type] ?? unknownHint);
}

function hasMore(details: unknown): boolean {
  return typeof details === "object" && details !== null && Object.keys(details).length > 0;
}
