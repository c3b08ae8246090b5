import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { isActive, type Job, type JobSummary } from "@/api/types";
import { CopyButton, formatTokens, Time } from "@/design";
import { jobTexts } from "@/texts/job";
import { Prompt } from "./Prompt";
import { effectOfJobQuery } from "./queries";
import { valuesOf } from "./values";

/** Request and cost of the job. */
export function JobDetails({ job, summary }: { job: Job; summary: JobSummary }) {
  const prompt = job.prompt ?? summary.prompt;
  const effect = useQuery({ ...effectOfJobQuery(summary.effect_slug ?? ""), enabled: Boolean(summary.effect_slug) });
  return (
    <section className="panel p-5">
      <h2 className="mb-3">{jobTexts.details}</h2>
      {prompt && <Prompt text={prompt} />}
      <dl className="num grid grid-cols-[auto_minmax(0,1fr)] items-baseline gap-x-6 gap-y-2 text-s">
        {summary.effect_slug ? (
          <Line name={jobTexts.effect}>
            <Link
              to="/effects/$slug"
              params={{ slug: summary.effect_slug }}
              className="underline decoration-line-strong underline-offset-3 hover:decoration-text"
            >
              {summary.title}
            </Link>
          </Line>
        ) : (
          <Line name={jobTexts.actor}>{summary.actor ?? summary.title}</Line>
        )}
        {summary.input_name && (
          <Line name={jobTexts.input}>
            <span className="line-clamp-3 [overflow-wrap:anywhere]" title={summary.input_name}>
              {summary.input_name}
            </span>
          </Line>
        )}
        {valuesOf(job.input_payload, effect.data?.properties, prompt).map(({ name, text }) => (
          <Line key={name} name={name}>
            <span className="break-words">{text}</span>
          </Line>
        ))}
        <Line name={isActive(job.status) ? jobTexts.tokensHeld : jobTexts.cost}>
          {formatTokens(isActive(job.status) || job.status === "completed" ? job.cost : 0)}
        </Line>
        <Line name={jobTexts.submitted}>
          <Time at={job.submitted_at} />
        </Line>
        {job.run_id && (
          <Line name={jobTexts.run}>
            <Link
              to="/jobs"
              search={{ run: job.run_id }}
              className="underline decoration-line-strong underline-offset-3 hover:decoration-text"
            >
              <code>…{job.run_id.slice(-6)}</code>
            </Link>
          </Line>
        )}
        {job.client_reference && (
          <Line name={jobTexts.reference}>
            <span className="[overflow-wrap:anywhere]">{job.client_reference}</span>
          </Line>
        )}
        {Object.entries(job.metadata ?? {}).map(([name, text]) => (
          <Line key={`metadata ${name}`} name={name}>
            <span className="[overflow-wrap:anywhere]">{text}</span>
          </Line>
        ))}
        {job.webhook_url && (
          <Line name={jobTexts.webhookUrl}>
            <span className="[overflow-wrap:anywhere]">{job.webhook_url}</span>
          </Line>
        )}
        {job.batch_id && (
          <Line name={jobTexts.batch}>
            <Link
              to="/batches/$id"
              params={{ id: job.batch_id }}
              className="underline decoration-line-strong underline-offset-3 hover:decoration-text"
            >
              {jobTexts.itemOfBatch(job.batch_item ?? 0)}
            </Link>
          </Line>
        )}
        <Line name={jobTexts.id}>
          <span className="-my-2 -mr-2.5 inline-flex items-center">
            <code className="text-muted">
              {job.id.slice(0, 8)}…{job.id.slice(-4)}
            </code>
            <CopyButton text={job.id} label={jobTexts.copyId} />
          </span>
        </Line>
      </dl>
    </section>
  );
}

function Line({ name, children }: { name: string; children: ReactNode }) {
  return (
    <>
      <dt className="text-muted">{name}</dt>
      <dd className="min-w-0 text-right">{children}</dd>
    </>
  );
}
