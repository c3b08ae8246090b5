import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { Pause, Play, Trash2 } from "lucide-react";
import { useState } from "react";
import { meQuery } from "@/api/queries";
import { Badge, Button, formatTokens, PageHead, Progress } from "@/design";
import { BackLink } from "@/parts/BackLink";
import { ConfirmDialog } from "@/parts/ConfirmDialog";
import { needsUser, percentOf, toneOf } from "@/parts/run/state";
import { runsTexts, runTexts } from "@/texts/runs";
import { MakeMoreButton } from "./MakeMoreButton";
import type { Run } from "./queries";
import { useRunAction, useRunDeletion } from "./useRunActions";

export function RunHead({ run }: { run: Run }) {
  const { data: me } = useQuery(meQuery);
  return (
    <>
      <PageHead
        above={
          <BackLink to="/runs" label={runTexts.back}>
            <Badge tone={toneOf(run)}>{needsUser(run) ? runTexts.waits : runTexts.status[run.status]}</Badge>
          </BackLink>
        }
        title={run.name}
        text={<ReasonText run={run} />}
        actions={me && me.role !== "viewer" ? <Actions run={run} /> : undefined}
      />
      <div className="num mb-6 flex flex-wrap items-end gap-x-8 gap-y-2 text-s text-muted max-md:gap-x-5">
        <div className="grid w-80 gap-1.5 max-lg:w-full">
          {runsTexts.finished(run.leaves, run.target_leaves)}
          <Progress percent={percentOf(run)} label={runsTexts.progressOf(run.name)} />
        </div>
        <span>{runsTexts.candidates(run.candidates)}</span>
        <span title={formatTokens(run.spent)}>
          {runsTexts.spent(run.spent.toLocaleString("en"), run.budget.toLocaleString("en"))}
        </span>
        <span className="truncate md:ml-auto">{runTexts.startedFrom(run.pipeline_name, run.pipeline_version)}</span>
      </div>
    </>
  );
}

/** The reason why the run waits, or its prompt. */
function ReasonText({ run }: { run: Run }) {
  if (run.reason) return <>{run.reason_detail ?? runTexts.reasons[run.reason]}</>;
  return run.prompt ? <span className="line-clamp-2">{run.prompt}</span> : null;
}

function Actions({ run }: { run: Run }) {
  const [isConfirming, setConfirming] = useState(false);
  const action = useRunAction(run.id);
  const isOpen = run.status === "active" || run.status === "paused";
  return (
    <>
      {run.status !== "canceled" && <MakeMoreButton run={run} />}
      {run.status === "active" ? (
        <Button icon={<Pause size={16} />} busy={action.isPending} onClick={() => action.mutate("pause")}>
          {runTexts.pause}
        </Button>
      ) : (
        run.status !== "canceled" && (
          <Button icon={<Play size={16} />} busy={action.isPending} onClick={() => action.mutate("resume")}>
            {runTexts.resume}
          </Button>
        )
      )}
      {isOpen && (
        <Button look="danger" onClick={() => setConfirming(true)}>
          {runTexts.cancel}
        </Button>
      )}
      {!isOpen && <DeleteButton run={run} />}
      {isConfirming && (
        <ConfirmDialog
          danger
          title={runTexts.cancelTitle}
          text={runTexts.cancelText}
          action={runTexts.cancel}
          keep={runTexts.keep}
          busy={action.isPending}
          onConfirm={() => action.mutate("cancel", { onSettled: () => setConfirming(false) })}
          onClose={() => setConfirming(false)}
        />
      )}
    </>
  );
}

function DeleteButton({ run }: { run: Run }) {
  const [isConfirming, setConfirming] = useState(false);
  const navigate = useNavigate();
  const deletion = useRunDeletion(run.id, () => void navigate({ to: "/runs" }));
  return (
    <>
      <Button look="danger" icon={<Trash2 size={16} />} onClick={() => setConfirming(true)}>
        {runTexts.delete}
      </Button>
      {isConfirming && (
        <ConfirmDialog
          danger
          title={runTexts.deleteTitle}
          text={runTexts.deleteText(run.candidates)}
          action={runTexts.delete}
          keep={runTexts.keep}
          busy={deletion.isPending}
          error={deletion.error}
          onConfirm={() => deletion.mutate()}
          onClose={() => setConfirming(false)}
        />
      )}
    </>
  );
}
