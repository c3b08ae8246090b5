import { useState } from "react";
import { Field, formatNumber, formatTokens, Input } from "@/design";
import { ConfirmDialog } from "@/parts/ConfirmDialog";
import type { Wanted } from "@/parts/job/all-jobs-filters";
import { allJobsTexts } from "@/texts/all-jobs";
import type { ActionKind, Scope } from "./actions";
import { useStartAction } from "./useBulkAction";

interface Props {
  kind: ActionKind;
  scope: Scope;
  /** Some of the selected jobs have a status that does not fit. */
  hasRest: boolean;
  filter: () => Wanted;
  onClose: () => void;
  onStarted: () => void;
}

const WHOLE = /^[+-]?\d{1,9}$/;

/** Shows the number of jobs and the effect on tokens before the action starts. */
export function BulkDialog({ kind, scope, hasRest, filter, onClose, onStarted }: Props) {
  const [reason, setReason] = useState("");
  const [priority, setPriority] = useState("10");
  const start = useStartAction(onStarted);
  const count = scope.isPartial ? allJobsTexts.partial(formatNumber(scope.jobs)) : formatNumber(scope.jobs);
  const tokens = scope.isPartial ? allJobsTexts.partial(formatTokens(scope.tokens)) : formatTokens(scope.tokens);
  const isWrong = kind === "set_priority" && !WHOLE.test(priority.trim());
  const submit = () => {
    if (isWrong) return;
    start.mutate({
      action: kind,
      filter: filter(),
      priority: kind === "set_priority" ? Number(priority) : null,
      reason: reason.trim() || null,
    });
  };
  return (
    <ConfirmDialog
      danger={kind === "cancel"}
      title={allJobsTexts.questions[kind](count)}
      text={allJobsTexts.effects[kind](tokens)}
      action={allJobsTexts.actions[kind]}
      keep={allJobsTexts.keep}
      busy={start.isPending}
      disabled={isWrong}
      error={start.error}
      onConfirm={submit}
      onClose={onClose}
    >
      <div className="grid gap-4">
        {kind === "set_priority" && (
          <Field
            label={allJobsTexts.priorityField}
            hint={allJobsTexts.priorityHint}
            error={isWrong ? allJobsTexts.priorityWrong : null}
            required
          >
            <Input
              inputMode="numeric"
              value={priority}
              onChange={(event) => setPriority(event.target.value)}
              className="num"
            />
          </Field>
        )}
        <Field label={allJobsTexts.reason} hint={allJobsTexts.reasonHint}>
          <Input value={reason} maxLength={200} onChange={(event) => setReason(event.target.value)} />
        </Field>
        <p className="text-s text-muted">
          {hasRest && `${allJobsTexts.rest} `}
          {allJobsTexts.frozen}
        </p>
      </div>
    </ConfirmDialog>
  );
}
