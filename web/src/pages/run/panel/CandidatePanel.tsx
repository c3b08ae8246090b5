import { useQuery } from "@tanstack/react-query";
import { X } from "lucide-react";
import { useEffect, useRef } from "react";
import { meQuery } from "@/api/queries";
import { Badge, Button, formatTokens, Skeleton } from "@/design";
import { CandidateThumb } from "@/parts/CandidateThumb";
import { LinkButton } from "@/parts/LinkButton";
import { Pending } from "@/parts/Pending";
import { panelTexts, runTexts } from "@/texts/runs";
import { type Candidate, candidateQuery, lineageQuery, type Run } from "../queries";
import { BranchButton } from "./BranchButton";
import { Lineage } from "./Lineage";

const narrow = window.matchMedia("(max-width: 1023px)");

interface Props {
  run: Run;
  id: string;
  onSelect: (id: string | undefined) => void;
}

export function CandidatePanel({ run, id, onSelect }: Props) {
  const { data: me } = useQuery(meQuery);
  const candidate = useQuery(candidateQuery(id));
  const lineage = useQuery(lineageQuery(id));
  const panel = useRef<HTMLElement>(null);
  // On a narrow screen the panel is below the tree, out of sight of a user who touched a node.
  useEffect(() => {
    if (narrow.matches) panel.current?.scrollIntoView({ block: "nearest" });
  }, []);
  return (
    <aside ref={panel} className="panel grid scroll-mt-20 scroll-mb-20 gap-4 p-5" aria-label={panelTexts.label}>
      {!candidate.data ? (
        <Pending query={candidate} className="h-64" />
      ) : (
        <>
          <Head candidate={candidate.data} onClose={() => onSelect(undefined)} />
          <Figures run={run} candidate={candidate.data} cost={lineage.data?.ancestors.at(-1)?.cost} />
          <div className="flex flex-wrap gap-2">
            <LinkButton size="s" to="/jobs/$id" params={{ id: candidate.data.job_id }}>
              {panelTexts.openJob}
            </LinkButton>
            {candidate.data.file?.url && (
              <Button size="s" asChild>
                <a href={candidate.data.file.url} target="_blank" rel="noreferrer">
                  {panelTexts.openImage}
                </a>
              </Button>
            )}
            {me && me.role !== "viewer" && <BranchButton run={run} candidate={candidate.data} />}
          </div>
          {candidate.data.rejection === "killed_with_ancestor" && (
            <p className="text-s text-muted">{panelTexts.withAncestor}</p>
          )}
          {candidate.data.rejection === "surplus" && <p className="text-s text-muted">{panelTexts.notWanted}</p>}
          {lineage.data ? (
            <Lineage ancestors={lineage.data.ancestors} onSelect={onSelect} />
          ) : (
            <Skeleton className="h-32" />
          )}
        </>
      )}
    </aside>
  );
}

function Head({ candidate, onClose }: { candidate: Candidate; onClose: () => void }) {
  return (
    <>
      <div className="flex items-center justify-between gap-2">
        <h2>{runTexts.candidateName(candidate.number)}</h2>
        <Button
          look="quiet"
          size="icon"
          className="-my-1 -mr-2"
          aria-label={panelTexts.close}
          icon={<X size={18} />}
          onClick={onClose}
        />
      </div>
      <CandidateThumb
        candidate={candidate}
        alt={runTexts.image(candidate.number)}
        isDim={candidate.status === "rejected"}
        className="aspect-[3/2] w-full rounded-s border"
      />
    </>
  );
}

function Figures({ run, candidate, cost }: { run: Run; candidate: Candidate; cost: number | undefined }) {
  const step = run.steps.find((each) => each.step.id === candidate.step_id)?.step.name ?? "";
  const state =
    candidate.status === "active"
      ? "active"
      : candidate.rejection === "surplus" || candidate.rejection === "killed_with_ancestor"
        ? candidate.rejection
        : "rejected";
  const rows: [string, React.ReactNode][] = [
    [
      panelTexts.state,
      <Badge key="state" tone={candidate.status === "active" ? "ok" : "plain"}>
        {panelTexts.states[state]}
      </Badge>,
    ],
    [panelTexts.step, step],
    [panelTexts.rating, candidate.elo],
    [panelTexts.votes, candidate.votes],
    [panelTexts.cost, cost === undefined ? "…" : formatTokens(cost)],
  ];
  return (
    <dl className="num grid grid-cols-[auto_1fr] gap-x-6 gap-y-1.5 text-s">
      {rows.map(([name, value]) => (
        <div key={name} className="contents">
          <dt className="text-muted">{name}</dt>
          <dd className="min-w-0 truncate text-right">{value}</dd>
        </div>
      ))}
    </dl>
  );
}
