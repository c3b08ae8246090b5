import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { Job } from "@/api/types";
import { Button, formatTokens } from "@/design";
import { ConfirmDialog } from "@/parts/ConfirmDialog";
import { jobTexts } from "@/texts/job";
import { effectOfJobQuery } from "./queries";
import { useCancelJob } from "./useJobActions";

export function CancelButton({ job, effectSlug }: { job: Job; effectSlug?: string | null }) {
  const [isConfirming, setConfirming] = useState(false);
  const effect = useQuery({ ...effectOfJobQuery(effectSlug ?? ""), enabled: Boolean(effectSlug) });
  const cancel = useCancelJob(job.id);
  const tokens = formatTokens(job.cost);
  // Only a run that has started can have spent tokens.
  const isPartial = job.status === "processing" && effect.data?.refund_on_cancel === "unspent";
  const text =
    job.cost === 0 ? jobTexts.cancelFree : isPartial ? jobTexts.cancelUnspent(tokens) : jobTexts.cancelAll(tokens);
  return (
    <>
      <Button look="danger" onClick={() => setConfirming(true)}>
        {job.cost === 0 || isPartial ? jobTexts.cancel : jobTexts.cancelAndRefund(tokens)}
      </Button>
      {isConfirming && (
        <ConfirmDialog
          danger
          title={jobTexts.cancelTitle}
          text={text}
          action={jobTexts.cancelNow}
          keep={jobTexts.keepRunning}
          busy={cancel.isPending}
          onConfirm={() => cancel.mutate(undefined, { onSettled: () => setConfirming(false) })}
          onClose={() => setConfirming(false)}
        />
      )}
    </>
  );
}
