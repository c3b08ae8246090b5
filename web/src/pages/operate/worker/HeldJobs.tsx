import { Link } from "@tanstack/react-router";
import type { Schemas } from "@/api/types";
import { Progress, Time } from "@/design";
import { JobsLink } from "@/parts/JobsLink";
import { Section } from "@/parts/Section";
import { percentText } from "@/parts/worker/state";
import { workersTexts, workerTexts } from "@/texts/workers";

type Lease = Schemas["WorkerLease"];

export function HeldJobs({ workerId, leases }: { workerId: string; leases: readonly Lease[] }) {
  return (
    <Section title={workerTexts.jobs} actions={<JobsLink size="s" search={{ worker: workerId }} />}>
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
  return (
    <li className="panel grid gap-2 p-4">
      <div className="flex flex-wrap items-baseline justify-between gap-x-4">
        <span className="font-[550] [overflow-wrap:anywhere]">{lease.workflow}</span>
        <span className="text-s text-muted">
          {lease.run_started_at ? workerTexts.runsSince : workerTexts.preparesSince}{" "}
          <Time at={lease.run_started_at ?? lease.leased_at} />
        </span>
      </div>
      <Progress percent={lease.percent ?? null} label={workersTexts.progressOf(lease.workflow)} />
      <div className="num flex flex-wrap justify-between gap-x-4 text-s text-muted">
        <Link
          to="/operate/jobs/$id"
          params={{ id: lease.job_id }}
          className="underline underline-offset-2 [overflow-wrap:anywhere]"
        >
          <code>{lease.job_id}</code>
        </Link>
        <span className="[overflow-wrap:anywhere]">
          {percentText(lease)}
          {lease.message && ` · ${lease.message}`}
        </span>
      </div>
    </li>
  );
}
