import { useMemo } from "react";
import type { Schemas } from "@/api/types";
import { formatNumber } from "@/design";
import { Chart, type ChartLine } from "@/design/Chart";
import { spendingTexts as texts } from "@/texts/budgets";
import { daysOf, linesOf, secondsOf, subjectsOf } from "./series";

const TONES = ["run", "ok", "warn"] as const;
const count = (value: number) => formatNumber(Math.round(value));

export function SpendingChart({ report }: { report: Schemas["TenantSpending"] }) {
  const { by, rows, since, until } = report;
  const period = report.period === "week" ? "week" : "day";
  const { times, lines } = useMemo(() => {
    const days = daysOf(new Date(since), new Date(until), period);
    const shown = linesOf(rows, subjectsOf(rows, by), days).map(
      ({ name, isRest, values }, index): ChartLine => ({
        label: name,
        values,
        tone: isRest ? "plain" : (TONES[index] ?? "plain"),
        isDashed: isRest,
      }),
    );
    return { times: days.map(secondsOf), lines: shown };
  }, [rows, by, since, until, period]);
  return <Chart label={texts.chart[period]} times={times} lines={lines} format={count} height={220} />;
}
