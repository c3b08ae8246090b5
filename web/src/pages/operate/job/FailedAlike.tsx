import { useQuery } from "@tanstack/react-query";
import { formatNumber, Time } from "@/design";
import { LinkButton } from "@/parts/LinkButton";
import { operatorJobTexts as texts } from "@/texts/operator-job";
import { errorGroupQuery } from "./queries";

/** Jobs of all tenants with the same error: one cause and one repair. */
export function FailedAlike({ fingerprint }: { fingerprint: string }) {
  const { data } = useQuery(errorGroupQuery(fingerprint));
  if (data === undefined || data.jobs < 2) return null;
  const count = formatNumber(data.jobs) + (data.is_partial ? "+" : "");
  return (
    <section className="panel flex flex-wrap items-center justify-between gap-x-6 gap-y-3 p-5" aria-label={texts.alike}>
      <div className="min-w-0">
        <h2>{texts.alike}</h2>
        <p className="num mt-1 flex flex-wrap gap-x-4 text-s text-muted">
          <span>{texts.alikeText(texts.jobs(data.jobs, count), texts.tenants(data.tenants))}</span>
          <span>
            {texts.firstSeen} <Time at={data.first_seen_at} />
          </span>
          <span>
            {texts.lastSeen} <Time at={data.last_seen_at} />
          </span>
        </p>
      </div>
      <LinkButton to="/operate/jobs" search={{ error: fingerprint }}>
        {texts.showAlike}
      </LinkButton>
    </section>
  );
}
