import { useInfiniteQuery } from "@tanstack/react-query";
import { Gauge } from "lucide-react";
import { useState } from "react";
import { Badge, Button, type Column, Empty } from "@/design";
import { PagedTable } from "@/parts/PagedTable";
import { useRole } from "@/parts/useRole";
import { limitTexts as texts } from "@/texts/providers";
import { LimitDialog } from "./LimitDialog";
import { type ConcurrencyLimit, limitsQuery } from "./queries";

const COLUMNS: readonly Column<ConcurrencyLimit>[] = [
  {
    name: texts.columns.identifier,
    className: "w-full",
    cell: (limit) => (
      <>
        <code className="[overflow-wrap:anywhere]">{limit.identifier}</code>
        <span className="block text-muted sm:hidden">{texts.running(limit.in_use)}</span>
      </>
    ),
  },
  { name: texts.columns.inUse, right: true, className: "max-sm:hidden", cell: (limit) => limit.in_use },
  {
    name: texts.columns.limit,
    right: true,
    cell: (limit) =>
      limit.max_concurrent === 0 ? (
        <Badge tone="warn">{texts.paused}</Badge>
      ) : (
        (limit.max_concurrent ?? <span className="whitespace-nowrap text-muted">{texts.unlimited}</span>)
      ),
  },
];

export function LimitList() {
  // null: a new limit.
  const [edited, setEdited] = useState<ConcurrencyLimit | null | undefined>();
  const { mayOperate } = useRole();
  const query = useInfiniteQuery(limitsQuery);
  const menu: Column<ConcurrencyLimit> = {
    name: texts.edit,
    head: <span className="sr-only">{texts.edit}</span>,
    right: true,
    cell: (limit) => (
      <Button size="s" aria-label={texts.editOf(limit.identifier)} onClick={() => setEdited(limit)}>
        {texts.edit}
      </Button>
    ),
  };
  return (
    <section>
      <div className="mb-4 flex flex-wrap items-end justify-between gap-4">
        <div>
          <h2>{texts.title}</h2>
          <p className="text-muted">{texts.text}</p>
        </div>
        {mayOperate && <Button onClick={() => setEdited(null)}>{texts.add}</Button>}
      </div>
      <PagedTable
        query={query}
        columns={mayOperate ? [...COLUMNS, menu] : COLUMNS}
        rowKey={(limit) => limit.identifier}
        label={texts.list}
        empty={<Empty icon={<Gauge size={20} />} title={texts.none} text={texts.noneText} />}
      />
      {edited !== undefined && <LimitDialog limit={edited} onClose={() => setEdited(undefined)} />}
    </section>
  );
}
