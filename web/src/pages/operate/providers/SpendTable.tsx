import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { ChartNoAxesColumn } from "lucide-react";
import { type Column, Empty, formatNumber, Segments, Table } from "@/design";
import { Pending } from "@/parts/Pending";
import { spendTexts as texts } from "@/texts/providers";
import { type ProviderSpend, spendQuery } from "./queries";
import { type SpendWindow, WINDOWS } from "./route";
import { hasPrices, money } from "./spend";

/** Calls of each provider, the charges of its users, and its cost if the price of a call is known. */
export function SpendTable() {
  const { range = "24h" } = useSearch({ from: "/framed/operator/operate/providers" });
  const navigate = useNavigate({ from: "/operate/providers" });
  const { data: spend, error, refetch } = useQuery(spendQuery);
  return (
    // The table is a region of its own with the same name.
    <div>
      <div className="mb-4 flex flex-wrap items-end justify-between gap-4">
        <div>
          <h2>{texts.title}</h2>
          <p className="text-muted">{texts.text}</p>
        </div>
        <Segments
          label={texts.range}
          value={range}
          choices={WINDOWS.map((value) => ({ value, label: texts.ranges[value] }))}
          onChange={(chosen) =>
            void navigate({ search: (before) => ({ ...before, range: chosen }), replace: true, resetScroll: false })
          }
        />
      </div>
      {spend ? (
        <>
          {spend.providers.length === 0 ? (
            <div className="panel">
              <Empty icon={<ChartNoAxesColumn size={20} />} title={texts.none} text={texts.noneText} />
            </div>
          ) : (
            <Table
              label={texts.title}
              rows={spend.providers}
              columns={columns(range, hasPrices(spend) ? spend.currency : null)}
              rowKey={(row) => row.provider}
            />
          )}
          {(spend.unavailable_pools ?? []).length > 0 && (
            <p className="mt-3 text-s text-warn">{texts.missing((spend.unavailable_pools ?? []).join(", "))}</p>
          )}
        </>
      ) : (
        <Pending query={{ error, refetch }} className="h-32" />
      )}
    </div>
  );
}

function columns(range: SpendWindow, currency: string | null): Column<ProviderSpend>[] {
  const of = (row: ProviderSpend) => (range === "24h" ? row.last_24h : row.last_30d);
  const shown: Column<ProviderSpend>[] = [
    {
      name: texts.columns.provider,
      className: "w-full",
      cell: (row) => <span className="font-[550] [overflow-wrap:anywhere]">{row.provider}</span>,
    },
    { name: texts.columns.calls, right: true, cell: (row) => formatNumber(of(row).calls) },
    {
      name: texts.columns.completed,
      right: true,
      className: "max-sm:hidden",
      cell: (row) => formatNumber(of(row).completed),
    },
    { name: texts.columns.failed, right: true, cell: (row) => formatNumber(of(row).failed) },
    { name: texts.columns.tokens, right: true, cell: (row) => formatNumber(of(row).tokens) },
  ];
  if (currency === null) return shown;
  const cost = (row: ProviderSpend) =>
    money(of(row).estimated_money, currency) ?? <span className="text-muted">{texts.noPrice}</span>;
  return [...shown, { name: texts.columns.cost, right: true, className: "whitespace-nowrap", cell: cost }];
}
