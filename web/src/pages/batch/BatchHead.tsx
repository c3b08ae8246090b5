import { Link } from "@tanstack/react-router";
import { ArrowLeft, Ban, Download, RotateCw } from "lucide-react";
import { useState } from "react";
import type { Schemas } from "@/api/types";
import { Button, formatTokens, PageHead, Progress, Time } from "@/design";
import { ConfirmDialog } from "@/parts/ConfirmDialog";
import { batchTexts } from "@/texts/batch";
import { useBatchActions } from "./useBatchActions";

type Batch = Schemas["Batch"];

const COUNTS = ["active", "completed", "failed", "canceled", "expired"] as const;

/** Name, progress and actions of a batch. */
export function BatchHead({ batch, name }: { batch: Batch; name: string }) {
  const { counts } = batch;
  const ended = batch.items - counts.active;
  return (
    <>
      <PageHead
        above={
          <Link
            to="/batches"
            className="inline-flex min-h-8 items-center gap-1.5 text-s text-muted hover:text-text touch:min-h-11"
          >
            <ArrowLeft size={14} aria-hidden />
            {batchTexts.back}
          </Link>
        }
        title={name}
        text={batch.client_reference ?? undefined}
        actions={<Actions batch={batch} />}
      />
      <section className="panel mb-6 grid gap-3 p-4 sm:p-5">
        <div className="flex flex-wrap items-baseline justify-between gap-x-6 gap-y-1">
          <p className="num font-[550]" role="status">
            {batchTexts.progress(ended, batch.items)}
          </p>
          <p className="num flex flex-wrap gap-x-4 text-s text-muted">
            <span>{batchTexts.held(formatTokens(batch.cost))}</span>
            <span>
              {batch.finished_at ? batchTexts.finished : batchTexts.submitted}{" "}
              <Time at={batch.finished_at ?? batch.created_at} />
            </span>
          </p>
        </div>
        <Progress percent={(ended / batch.items) * 100} label={batchTexts.progress(ended, batch.items)} />
        <dl className="num flex flex-wrap gap-x-6 gap-y-1 text-s">
          {COUNTS.filter((each) => counts[each] > 0).map((each) => (
            <div key={each} className="flex gap-1.5">
              <dt className="text-muted">{batchTexts.names[each]}</dt>
              <dd className="font-[550]">{counts[each]}</dd>
            </div>
          ))}
        </dl>
      </section>
    </>
  );
}

function Actions({ batch }: { batch: Batch }) {
  const [isAsking, setAsking] = useState(false);
  const { cancel, retry } = useBatchActions(batch.id);
  const { active, completed, failed, expired } = batch.counts;
  return (
    <>
      {failed + expired > 0 && (
        <Button busy={retry.isPending} onClick={() => retry.mutate()} icon={<RotateCw size={16} aria-hidden />}>
          {batchTexts.retry(failed + expired)}
        </Button>
      )}
      {active > 0 && (
        <Button onClick={() => setAsking(true)} icon={<Ban size={16} aria-hidden />}>
          {batchTexts.cancel}
        </Button>
      )}
      {completed > 0 && (
        <Button asChild look={active > 0 ? undefined : "go"}>
          <a href={`/api/batches/${batch.id}/download`} download>
            <Download size={16} aria-hidden />
            {batchTexts.download}
          </a>
        </Button>
      )}
      {isAsking && active > 0 && (
        <ConfirmDialog
          title={batchTexts.cancelTitle(active)}
          text={batchTexts.cancelText}
          action={batchTexts.cancel}
          keep={batchTexts.keep}
          danger
          busy={cancel.isPending}
          onConfirm={() => cancel.mutate(undefined, { onSettled: () => setAsking(false) })}
          onClose={() => setAsking(false)}
        />
      )}
    </>
  );
}
