import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import type { Schemas } from "@/api/types";
import { Time } from "@/design";
import { formatBytes } from "@/parts/bytes";
import { Section } from "@/parts/Section";
import { versionsOf } from "@/parts/worker/state";
import { workersTexts, workerTexts } from "@/texts/workers";
import { agentOf, customNodesOf, otherFactsOf } from "./capabilities";

const UNKNOWN = "–";

export function WorkerFacts({ worker }: { worker: Schemas["WorkerDetails"] }) {
  const texts = workerTexts.facts;
  const customNodes = customNodesOf(worker.capabilities);
  const others = otherFactsOf(worker.capabilities);
  // A worker that left has the values of its last session, and the session does not keep all of them.
  const none = worker.is_registered ? texts.none : UNKNOWN;
  return (
    <Section title={texts.title}>
      <dl className="panel grid gap-x-8 gap-y-4 p-5 sm:grid-cols-2 xl:grid-cols-3">
        <Fact name={texts.id}>
          <code className="[overflow-wrap:anywhere]">{worker.worker_id}</code>
        </Fact>
        <Fact name={texts.fleet}>
          {worker.fleet_id ? (
            <Link
              to="/operate/fleets/$id"
              params={{ id: String(worker.fleet_id) }}
              className="underline underline-offset-2"
            >
              {worker.fleet_slug}, {worker.stage}
            </Link>
          ) : (
            `${worker.fleet_slug ?? workersTexts.noFleet}, ${worker.stage}`
          )}
        </Fact>
        <Fact name={texts.slots}>{worker.is_registered ? worker.max_concurrency : UNKNOWN}</Fact>
        <Fact name={texts.agent}>{agentOf(worker.capabilities) ?? texts.unknown}</Fact>
        <Fact name={texts.engines}>{versionsOf(worker) || texts.unknown}</Fact>
        <Fact name={texts.machine}>
          {[worker.instance_type, worker.capacity_type].filter(Boolean).join(", ") || texts.unknown}
        </Fact>
        {worker.disk && (
          <Fact name={texts.disk}>
            {texts.diskFree(formatBytes(worker.disk.free_bytes), formatBytes(worker.disk.size_bytes))}{" "}
            <Time at={worker.disk.reported_at} className="text-muted" />
          </Fact>
        )}
        <Fact name={texts.workflows}>{worker.workflows.join(", ") || none}</Fact>
        <Fact name={texts.customNodes}>
          {customNodes.length === 0
            ? none
            : customNodes.map(({ name, version }) => (
                <span key={name} className="block">
                  {name} <span className="text-muted">{version ?? texts.unknownVersion}</span>
                </span>
              ))}
        </Fact>
        {others.length > 0 && (
          <Fact name={texts.reported}>
            {others.map(({ name, value }) => (
              <span key={name} className="block">
                <span className="text-muted">{name}</span> {value}
              </span>
            ))}
          </Fact>
        )}
        {worker.is_registered && !worker.revoked_at && (
          <Fact name={texts.token}>{worker.rotation_pending ? texts.tokenPending : texts.tokenUsed}</Fact>
        )}
        <Fact name={texts.registered}>
          <Time at={worker.registered_at} />
          {worker.fleet_token_id
            ? ` ${texts.withToken(worker.fleet_token_id)}`
            : worker.is_registered && ` ${texts.withSecret}`}
        </Fact>
      </dl>
    </Section>
  );
}

function Fact({ name, children }: { name: string; children: ReactNode }) {
  return (
    <div className="min-w-0">
      <dt className="text-s text-muted">{name}</dt>
      <dd className="num [overflow-wrap:anywhere]">{children}</dd>
    </div>
  );
}
