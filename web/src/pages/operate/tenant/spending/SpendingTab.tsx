import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { ChartNoAxesColumn, Download } from "lucide-react";
import type { Schemas } from "@/api/types";
import { Button, Empty, formatTokens, Segments } from "@/design";
import { Pending } from "@/parts/Pending";
import { Section } from "@/parts/Section";
import { spendingTexts as texts } from "@/texts/budgets";
import { reportOf, spendingQuery } from "./queries";
import { RANGES, type Range } from "./ranges";
import { SpendingChart } from "./SpendingChart";
import { SpendingTable } from "./SpendingTable";

const BYS = ["effect", "key", "provider", "user"] as const satisfies readonly Schemas["SpendingBy"][];

/** Where the tokens of a tenant went, by day. */
export function SpendingTab({ tenant }: { tenant: string }) {
  const { by = "effect", days = 30 } = useSearch({ from: "/framed/operator/operate/tenants/$id" });
  const navigate = useNavigate({ from: "/operate/tenants/$id" });
  const query = useQuery(spendingQuery(tenant, by, days));
  const change = (next: { by?: Schemas["SpendingBy"]; days?: Range }) =>
    void navigate({ search: (before) => ({ ...before, ...next }), replace: true, resetScroll: false });
  const report = query.data;
  return (
    <Section
      title={texts.title}
      actions={
        <Button asChild size="s">
          <a href={csvOf(tenant, by, days)} download>
            <Download size={14} aria-hidden />
            {texts.csv}
          </a>
        </Button>
      }
    >
      <p className="mb-4 text-muted">{texts.text}</p>
      <div className="mb-4 flex flex-wrap items-center gap-3">
        <Segments
          label={texts.by}
          value={by}
          choices={BYS.map((value) => ({ value, label: texts.bys[value] }))}
          onChange={(next) => change({ by: next })}
        />
        <Segments
          label={texts.days}
          value={String(days)}
          choices={RANGES.map((value) => ({ value: String(value), label: texts.ranges[value] }))}
          onChange={(next) => change({ days: Number(next) as Range })}
        />
      </div>
      {report === undefined ? (
        <Pending query={query} className="h-64" />
      ) : report.rows.length === 0 ? (
        <div className="panel">
          <Empty icon={<ChartNoAxesColumn size={20} />} title={texts.none} text={texts.noneText} />
        </div>
      ) : (
        <div className="grid grid-cols-[minmax(0,1fr)] gap-4" aria-busy={query.isPlaceholderData}>
          <div className="panel grid grid-cols-[minmax(0,1fr)] gap-3 p-4">
            <p className="num flex flex-wrap items-baseline justify-between gap-x-4 text-s">
              <span className="text-m font-[550]">{texts.total(formatTokens(report.tokens))}</span>
              <span className="text-muted">{texts.zone(report.time_zone)}</span>
            </p>
            <SpendingChart report={report} />
          </div>
          {!report.is_complete && <p className="text-s text-warn">{texts.incomplete}</p>}
          <SpendingTable report={report} />
        </div>
      )}
    </Section>
  );
}

function csvOf(tenant: string, by: Schemas["SpendingBy"], days: Range): string {
  const query = new URLSearchParams(reportOf(by, days, new Date()));
  return `/api/admin/tenants/${tenant}/spending.csv?${query.toString()}`;
}
