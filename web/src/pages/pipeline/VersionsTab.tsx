import { useInfiniteQuery } from "@tanstack/react-query";
import { Badge, Button, classes, Time } from "@/design";
import { Pending } from "@/parts/Pending";
import { editorTexts, versionTexts } from "@/texts/pipelines";
import { changesBetween } from "./diff";
import type { StepWorkflow } from "./draft";
import { type Pipeline, type PipelineVersion, versionsQuery } from "./queries";
import { VersionComparison } from "./VersionComparison";

interface Props {
  pipeline: Pipeline;
  workflows: readonly StepWorkflow[];
  version?: number;
  other?: number;
  onVersion: (search: { version?: number; with?: number }) => void;
  onRestore: ((version: PipelineVersion) => void) | null;
}

/** All versions, and the changes of the selected one. The URL has the selection. */
export function VersionsTab({ pipeline, workflows, version, other, onVersion, onRestore }: Props) {
  const versions = useInfiniteQuery(versionsQuery(pipeline.slug));
  if (!versions.data) return <Pending query={versions} className="h-64 rounded-m!" />;
  const all = versions.data.pages.flatMap((page) => page.items);
  const chosen = all.find((each) => each.version === version) ?? all[0]!;
  const before = all.find((each) => each.version === (other ?? chosen.version - 1)) ?? null;
  return (
    <div className="grid items-start gap-6 lg:grid-cols-[18rem_minmax(0,1fr)]">
      <div>
        <p className="mb-3 text-s text-muted">{versionTexts.text}</p>
        <ul aria-label={versionTexts.list} className="grid gap-1">
          {all.map((each, index) => (
            <li key={each.version}>
              <button
                type="button"
                aria-current={each === chosen ? "true" : undefined}
                onClick={() => onVersion({ version: each.version })}
                className={classes(
                  "grid w-full gap-0.5 rounded-s border px-3 py-2 text-left",
                  each === chosen ? "border-accent bg-accent-soft" : "border-transparent hover:bg-hover",
                )}
              >
                <span className="flex items-center justify-between gap-2 font-[550]">
                  {editorTexts.version(each.version)}
                  {each.version === pipeline.version && <Badge tone="ok">{versionTexts.current}</Badge>}
                </span>
                <span className="text-s text-muted">
                  <Time at={each.created_at} /> · {summaryOf(all[index + 1], each)}
                </span>
              </button>
            </li>
          ))}
        </ul>
        {versions.hasNextPage && (
          <Button
            size="s"
            look="quiet"
            className="mt-2 w-full"
            busy={versions.isFetchingNextPage}
            onClick={() => void versions.fetchNextPage()}
          >
            {versionTexts.more}
          </Button>
        )}
      </div>
      <VersionComparison
        chosen={chosen}
        before={before}
        numbers={all.map((each) => each.version).filter((each) => each !== chosen.version)}
        workflows={workflows}
        onCompare={(number) => onVersion({ version: chosen.version, with: number })}
        onRestore={onRestore !== null && chosen.version !== pipeline.version ? () => onRestore(chosen) : null}
      />
    </div>
  );
}

function summaryOf(before: PipelineVersion | undefined, version: PipelineVersion): string {
  if (version.version === 1) return versionTexts.first;
  if (before === undefined) return "";
  const changes = changesBetween(before.steps, version.steps);
  return versionTexts.changes(
    changes.reduce((sum, each) => sum + (each.is === "changed" ? Math.max(1, each.fields.length) : 1), 0),
  );
}
