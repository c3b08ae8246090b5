import { useQuery } from "@tanstack/react-query";
import { Section } from "@/parts/Section";
import { workerTexts } from "@/texts/workers";
import { type Bar, bars, busyShare } from "./hours";
import { utilisationQuery } from "./queries";

const hour = new Intl.DateTimeFormat(undefined, { hour: "numeric", minute: "2-digit" });
const LABELED = 6;

/** Busy share of the worker in each of the last 24 hours. */
export function UtilisationChart({ id }: { id: string }) {
  const { data } = useQuery(utilisationQuery(id));
  const hours = data?.hours ?? [];
  const share = busyShare(hours);
  const shown = bars(hours, new Date());
  const summary = share === null ? workerTexts.neverOnline : workerTexts.busy(percent(share));
  return (
    <Section title={workerTexts.utilisation}>
      <div className="panel p-5">
        <p className="text-muted">{summary}</p>
        {share !== null && (
          <>
            <div
              role="img"
              aria-label={`${workerTexts.utilisation}. ${summary}`}
              className="mt-4 grid h-28 grid-cols-24 items-end gap-px sm:gap-1"
            >
              {shown.map((bar) => (
                <HourBar key={bar.at.getTime()} bar={bar} />
              ))}
            </div>
            <div aria-hidden className="num mt-1 flex justify-between text-xs text-muted">
              {shown
                .filter((_, index) => index % LABELED === 0)
                .map((bar) => (
                  <span key={bar.at.getTime()}>{hour.format(bar.at)}</span>
                ))}
              <span>{workerTexts.now}</span>
            </div>
          </>
        )}
      </div>
    </Section>
  );
}

function percent(share: number): string {
  return `${Math.round(share * 100)}\u00a0%`;
}

function HourBar({ bar }: { bar: Bar }) {
  const text = bar.share === null ? workerTexts.offline : percent(bar.share);
  return (
    <div
      title={`${hour.format(bar.at)}: ${text}`}
      className={`relative h-full overflow-hidden rounded-[2px] ${bar.share === null ? "" : "bg-hover"}`}
    >
      <div className="absolute inset-x-0 bottom-0 bg-run" style={{ height: `${(bar.share ?? 0) * 100}%` }} />
    </div>
  );
}
