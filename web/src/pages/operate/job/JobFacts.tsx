import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import type { Schemas } from "@/api/types";
import { CopyButton, formatTokens, Time } from "@/design";
import type { AdminJob } from "@/parts/job/queries";
import { operatorJobTexts as texts } from "@/texts/operator-job";

const LINK = "underline decoration-line-strong underline-offset-3 hover:decoration-text";

/** `listed`: the row of the job in the list of all jobs. It contains the names of tenant, user and workflow. */
export function JobFacts({ job, listed }: { job: AdminJob; listed: Schemas["OperatedJob"] | undefined }) {
  const dispatch = job.dispatch;
  const facts: readonly [string, ReactNode][] = [
    [
      texts.tenant,
      <Filter key="tenant" search={{ tenant: job.tenant_id }}>
        {listed?.tenant ?? dispatch?.tenant ?? <Id value={job.tenant_id} />}
      </Filter>,
    ],
    [
      texts.user,
      <Filter key="user" search={{ user: job.user_id }}>
        {listed?.user ?? <Id value={job.user_id} />}
      </Filter>,
    ],
    [
      texts.workflow,
      listed ? (
        <Filter key="workflow" search={{ workflow: listed.workflow }}>
          {listed.workflow}
        </Filter>
      ) : (
        (dispatch?.workflow ?? "–")
      ),
    ],
    [texts.kind, job.kind],
    [texts.provider, `${job.provider}, ${job.stage}`],
    [texts.cost, formatTokens(job.cost)],
    [texts.priority, job.priority],
    [texts.attempts, dispatch ? texts.attemptsOf(dispatch.attempts, job.max_attempts) : "–"],
    [texts.cycle, job.charge_cycle],
    [
      texts.worker,
      dispatch?.worker_id ? (
        <Link key="worker" to="/operate/workers/$id" params={{ id: dispatch.worker_id }} className={LINK}>
          {dispatch.worker_id}
        </Link>
      ) : (
        "–"
      ),
    ],
    [texts.deadline, <Time key="deadline" at={job.deadline_at} />],
  ];
  return (
    <section className="panel p-5" aria-label={texts.facts}>
      <dl className="num grid grid-cols-2 gap-x-6 gap-y-4 text-s md:grid-cols-3 lg:grid-cols-4 xl:grid-cols-6">
        {facts.map(([name, value]) => (
          <div key={name} className="min-w-0">
            <dt className="text-muted">{name}</dt>
            <dd className="mt-0.5 [overflow-wrap:anywhere]">{value}</dd>
          </div>
        ))}
        <div className="min-w-0">
          <dt className="text-muted">{texts.id}</dt>
          <dd className="-my-1.5 -ml-0.5 flex items-center">
            <code className="whitespace-nowrap">…{job.id.slice(-12)}</code>
            <CopyButton text={job.id} label={texts.copyId} />
          </dd>
        </div>
      </dl>
    </section>
  );
}

/** Link to all jobs with this value. */
function Filter({
  search,
  children,
}: {
  search: { tenant?: string; user?: string; workflow?: string };
  children: ReactNode;
}) {
  return (
    <Link to="/operate/jobs" search={search} className={LINK}>
      {children}
    </Link>
  );
}

function Id({ value }: { value: string }) {
  return (
    <code title={value} className="whitespace-nowrap">
      …{value.slice(-12)}
    </code>
  );
}
