import { useQuery } from "@tanstack/react-query";
import { DoorOpen } from "lucide-react";
import { meQuery } from "@/api/queries";
import type { Schemas } from "@/api/types";
import { Badge, Button, Empty, formatTokens, Time } from "@/design";
import { Pending } from "@/parts/Pending";
import { gateTexts } from "@/texts/runs";
import { gatesQuery, type Run } from "./queries";
import { useApproval } from "./useRunActions";

export function GatesTab({ run }: { run: Run }) {
  const { data: me } = useQuery(meQuery);
  const gates = useQuery(gatesQuery(run.id));
  if (!gates.data) return <Pending query={gates} className="h-40" />;
  if (gates.data.length === 0)
    return <Empty icon={<DoorOpen size={20} />} title={gateTexts.none} text={gateTexts.noneText} />;
  return (
    <div className="grid max-w-3xl gap-4">
      {gates.data.map((gate) => (
        <GateCard key={gate.step.id} runId={run.id} gate={gate} mayApprove={me !== undefined && me.role !== "viewer"} />
      ))}
    </div>
  );
}

function GateCard({ runId, gate, mayApprove }: { runId: string; gate: Schemas["Gate"]; mayApprove: boolean }) {
  const approval = useApproval(runId);
  const { step, next_step: next } = gate;
  const isWaiting = !gate.approved_at && gate.parents > 0;
  return (
    <section
      className="panel flex flex-wrap items-center justify-between gap-4 p-5"
      aria-label={gateTexts.title(step.name, next.name)}
    >
      <div className="grid min-w-0 gap-1.5">
        <div className="flex flex-wrap items-center gap-3">
          <h2>{gateTexts.title(step.name, next.name)}</h2>
          <Badge tone={gate.approved_at ? "ok" : isWaiting ? "warn" : "plain"}>
            {gate.approved_at ? gateTexts.approved : isWaiting ? gateTexts.waiting : gateTexts.nothing}
          </Badge>
        </div>
        {gate.approved_at ? (
          <p className="text-muted">
            <Time at={gate.approved_at} />
          </p>
        ) : (
          <>
            <p className="text-muted">{gateTexts.parents(gate.parents)}</p>
            {gate.children > 0 && <p className="text-muted">{gateTexts.children(gate.children, next.name)}</p>}
            {gate.children > 0 && (
              <p className="text-muted">
                {gate.cost != null && gate.price != null
                  ? gateTexts.cost(formatTokens(gate.cost), formatTokens(gate.price))
                  : gateTexts.noPrice}
              </p>
            )}
          </>
        )}
      </div>
      {!gate.approved_at && mayApprove && (
        <Button
          look="go"
          busy={approval.isPending}
          onClick={() => approval.mutate({ slug: step.slug, name: step.name })}
        >
          {gate.cost != null && gate.children > 0 ? gateTexts.approveCost(formatTokens(gate.cost)) : gateTexts.approve}
        </Button>
      )}
    </section>
  );
}
