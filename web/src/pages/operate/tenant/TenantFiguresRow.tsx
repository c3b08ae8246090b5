import { useQuery } from "@tanstack/react-query";
import { formatNumber, Skeleton, Stat } from "@/design";
import { formatBytes } from "@/parts/bytes";
import { FigureLink } from "@/parts/FigureLink";
import { figuresQuery } from "@/parts/tenant/queries";
import { useRole } from "@/parts/useRole";
import { commonTexts } from "@/texts/common";
import { tenantTexts } from "@/texts/tenants";
import { quotasQuery, weightQuery } from "./queries";

const texts = tenantTexts.figures;

export function TenantFiguresRow({ id }: { id: string }) {
  const { data } = useQuery(figuresQuery([id]));
  const quotas = useQuery(quotasQuery(id));
  const weight = useQuery(weightQuery(id));
  const { me } = useRole();
  const [figures] = data ?? [];
  const show = (value: number | null | undefined, format = (each: number) => formatNumber(each)) =>
    figures === undefined ? <Skeleton className="my-1 h-6 w-16" /> : value == null ? commonTexts.none : format(value);
  const limits = quotas.data && texts.of(formatBytes(quotas.data.limits.tenant_storage_bytes));
  const inDatabase = quotas.data?.database_bytes;
  const stored = limits && inDatabase ? `${limits}, ${texts.inDatabase(formatBytes(inDatabase))}` : (limits ?? " ");
  const active = figures?.active_jobs;
  const activeJobs =
    active != null && me && me.role !== "tenant_admin" ? (
      <FigureLink isWhole to="/operate/jobs" search={{ tenant: id, status: "active" }} label={texts.showJobs}>
        {formatNumber(active)}
      </FigureLink>
    ) : (
      show(active)
    );
  const isAway = figures !== undefined && figures.balance == null;
  return (
    <div className="mb-6 grid grid-cols-2 gap-4 lg:grid-cols-4">
      <Stat label={texts.users} value={show(figures?.users)} hint={isAway ? tenantTexts.poolAway : undefined} />
      <Stat label={texts.balance} value={show(figures?.balance)} hint={texts.held(formatNumber(figures?.held ?? 0))} />
      <Stat label={texts.storage} value={show(figures?.storage_bytes, formatBytes)} hint={stored} />
      <Stat label={texts.jobs} value={activeJobs} hint={weight.data ? texts.running(weight.data.running) : " "} />
    </div>
  );
}
