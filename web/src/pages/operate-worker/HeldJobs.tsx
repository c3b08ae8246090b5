import { useQuery } from "@tanstack/react-query";
import type { Schemas } from "@/api/types";
import { Progress, Time } from "@/design";
import { workerTexts } from "@/texts/workers";
import { heldJobQuery } from "./queries";
import { Section } from "./Section";

type Lease = Schemas["WorkerLease"];

export function HeldJobs({ leases }: { leases: readonly Lease[] }) {
  return (
    <Section title={workerTexts.jobs}>
      {leases.length === 0 ? (
        <p className="text-muted">{workerTexts.noJobs}</p>
      ) : (
        <ul className="grid gap-3 md:grid-cols-2">
          {leases.map((lease) => (
            <HeldJob key={lease.dispatch_id} lease={lease} />
          ))}
        </ul>
      )}
    </Section>
  );
}

function HeldJob({ lease }: { lease: Lease }) {
  const { data: job } = useQuery(heldJobQuery(lease.job_id));
  return (
    <li className="panel grid gap-2 p-4">
      <div className="flex flex-wrap items-baseline justify-between gap-x-4">
        <span className="font-[550] [overflow-wrap:anywhere]">{lease.workflow}</span>
        <span className="text-s text-muted">
          {lease.run_started_at ? workerTexts.runsSince : workerTexts.preparesSince} <Time at={lease.run_started_at ?? lease.leased_at} />
        </span>
      </div>
      <Progress percent={job?.progress?.percent ?? null} label={workerTexts.progressOf(lease.workflow)} />
      <a href={`/operate/jobs/${lease.job_id}`} className="w-fit text-s text-muted underline underline-offset-2">
        <code>{lease.job_id}</code>
      </a>
    </li>
  );
}
