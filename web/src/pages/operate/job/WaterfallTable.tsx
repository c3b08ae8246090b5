import { classes } from "@/design";
import { operatorJobTexts as texts } from "@/texts/operator-job";
import { RequestId } from "./RequestId";
import { WaterfallBar } from "./WaterfallBar";
import { type Row, shortDuration, spentTime, type Tick } from "./waterfall";

/** A table for screen readers. Its bars show the same values to other readers. */
export function WaterfallTable({
  rows,
  ticks,
  start,
}: {
  rows: readonly Row[];
  ticks: readonly Tick[];
  start: number;
}) {
  return (
    <div className="overflow-x-auto" tabIndex={0} role="region" aria-label={texts.waterfall}>
      <table className="num w-full table-fixed border-collapse text-s">
        <thead>
          <tr className="text-muted">
            <th scope="col" className="pb-2 text-left font-medium lg:w-[34%] xl:w-[26%]">
              {texts.columns.what}
            </th>
            <th scope="col" className="pb-2 text-left font-medium max-lg:hidden">
              <span className="sr-only">{texts.columns.time}</span>
              <Axis ticks={ticks} />
            </th>
            <th scope="col" className="w-20 pb-2 text-right font-medium">
              {texts.columns.duration}
            </th>
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={row.span.id} className="border-t align-top">
              <th scope="row" className={classes("py-1.5 pr-4 text-left font-normal", row.isPart && "pl-5")}>
                <span className={classes("block truncate", !row.isPart && "font-[550]")} title={row.label}>
                  {row.label}
                </span>
                {row.note && (
                  <span className="block truncate text-xs text-muted" title={row.note}>
                    {row.note}
                  </span>
                )}
                {row.request && (
                  <span className="flex min-w-0 items-center gap-1 text-xs text-muted">
                    {texts.request} <RequestId id={row.request} />
                  </span>
                )}
                <span className={classes("mt-1 block lg:hidden", row.isPart && "-ml-5")}>
                  <WaterfallBar row={row} />
                </span>
              </th>
              <td className="py-1.5 max-lg:hidden">
                <span className="sr-only">{`${texts.columns.started} ${shortDuration(Math.max(0, Date.parse(row.span.started_at) - start))}`}</span>
                <span className="grid h-5 items-center">
                  <WaterfallBar row={row} ticks={ticks} />
                </span>
              </td>
              <td className="py-1.5 text-right whitespace-nowrap">
                {row.span.cached ? (
                  <span className="text-muted">{texts.cached}</span>
                ) : row.span.kind === "ended" || row.span.kind === "callback" ? (
                  ""
                ) : (
                  spentTime(row.span.duration_ms)
                )}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Axis({ ticks }: { ticks: readonly Tick[] }) {
  return (
    <div aria-hidden className="relative h-5 text-xs">
      {ticks.map((tick) => (
        // The last mark ends at the edge.
        <span
          key={tick.milliseconds}
          className="absolute"
          style={tick.left > 92 ? { right: `${100 - tick.left}%` } : { left: `${tick.left}%` }}
        >
          {shortDuration(tick.milliseconds)}
        </span>
      ))}
    </div>
  );
}
