import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useSearch } from "@tanstack/react-router";
import { Scale } from "lucide-react";
import { api, data } from "@/api/client";
import { keys } from "@/api/keys";
import { Button, Empty, PageHead, Skeleton } from "@/design";
import { notifyDone } from "@/parts/notify";
import { Pending } from "@/parts/Pending";
import { ProblemPanel } from "@/parts/ProblemPanel";
import { useAction } from "@/parts/useAction";
import { useRole } from "@/parts/useRole";
import { useTitle } from "@/parts/useTitle";
import { ledgerTexts as texts } from "@/texts/ledger";
import { AuditHistory } from "./AuditHistory";
import { AuditResult } from "./AuditResult";
import { Findings } from "./Findings";
import { PoolTable } from "./PoolTable";
import { ledgerAuditQuery, ledgerAuditsQuery } from "./queries";
import { Totals } from "./Totals";

export function LedgerPage() {
  useTitle(texts.title);
  const { audit: chosen } = useSearch({ from: "/framed/operator/operate/ledger" });
  const { mayOperate } = useRole();
  const query = useInfiniteQuery(ledgerAuditsQuery);
  const audits = query.data?.pages.flatMap((page) => page.items) ?? [];
  const run = useRun();
  const isRunning = audits[0]?.state === "running";
  return (
    <>
      <PageHead
        title={texts.title}
        text={texts.text}
        actions={
          mayOperate && (
            <Button look="go" busy={run.isPending || isRunning} onClick={() => run.mutate()}>
              {isRunning ? texts.running : texts.run}
            </Button>
          )
        }
      />
      {!query.data ? (
        <Pending query={query} className="h-64" />
      ) : audits[0] === undefined ? (
        <div className="panel">
          <Empty icon={<Scale size={20} />} title={texts.never} text={texts.neverText} />
        </div>
      ) : (
        <div className="grid grid-cols-[minmax(0,1fr)] gap-6">
          <Audit id={chosen ?? audits[0].id} />
          <AuditHistory audits={audits} query={query} chosen={chosen ?? audits[0].id} />
        </div>
      )}
    </>
  );
}

function Audit({ id }: { id: number }) {
  const { data: audit, error } = useQuery(ledgerAuditQuery(id));
  if (error) return <ProblemPanel error={error} />;
  if (!audit) return <Skeleton className="h-64" />;
  return (
    <>
      <AuditResult audit={audit} />
      <Totals audit={audit} />
      <Findings audit={audit} />
      <PoolTable audit={audit} />
    </>
  );
}

function useRun() {
  return useAction({
    mutationFn: () => data(api.POST("/api/admin/ledger-audits")),
    onSuccess: () => notifyDone(texts.started),
    changes: [keys.ledgerAudits],
  });
}
