import { Link } from "@tanstack/react-router";
import { memo } from "react";
import type { Schemas } from "@/api/types";
import { Badge, formatTokens, Progress, Time } from "@/design";
import { batchTexts } from "@/texts/batch";
import { batchesTexts } from "@/texts/batches";
import { endsOf, outcomeOf } from "./outcomes";

/** A batch: its progress, and how its items ended. */
export const BatchRow = memo(function BatchRow({ batch }: { batch: Schemas["Batch"] }) {
  const ended = batch.items - batch.counts.active;
  const { tone, word } = outcomeOf(batch);
  return (
    <li className="transition-colors duration-100 hover:bg-hover">
      <Link
        to="/batches/$id"
        params={{ id: batch.id }}
        preload={false}
        className="grid grid-cols-[minmax(0,1fr)_auto] items-center gap-x-6 gap-y-3 px-4 py-3.5 focus-visible:outline-offset-[-2px] lg:grid-cols-[minmax(0,1.2fr)_minmax(220px,1fr)_minmax(130px,auto)]"
      >
        <span className="min-w-0 max-lg:col-span-2">
          <span className="block truncate font-[550]">{batch.title}</span>
          <span className="num block truncate text-s text-muted">
            {formatTokens(batch.cost)}
            {batch.client_reference ? ` · ${batch.client_reference}` : ""}
          </span>
        </span>
        <span className="grid min-w-0 gap-1.5 max-lg:col-span-2">
          <span className="num flex flex-wrap justify-between gap-x-3 text-s">
            <span>{batchTexts.progress(ended, batch.items)}</span>
            <span className="text-muted">{endsOf(batch)}</span>
          </span>
          <Progress percent={(ended / batch.items) * 100} label={batchesTexts.progressOf(batch.title)} />
        </span>
        <span className="grid justify-items-start gap-1 max-lg:col-span-2 max-lg:flex max-lg:items-center max-lg:justify-between lg:justify-items-end">
          <Badge tone={tone}>{word}</Badge>
          <Time at={batch.created_at} className="text-xs whitespace-nowrap text-muted" />
        </span>
      </Link>
    </li>
  );
});
