import { useSuspenseQuery } from "@tanstack/react-query";
import { useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { hasStatus } from "@/api/problems";
import { Tabs } from "@/design";
import { useTitle } from "@/parts/useTitle";
import { runTexts } from "@/texts/runs";
import { BudgetTab } from "./BudgetTab";
import { CompareTab } from "./compare/CompareTab";
import { GatesTab } from "./GatesTab";
import { GalleryTab } from "./gallery/GalleryTab";
import { runQuery } from "./queries";
import { RunHead } from "./RunHead";
import { RunNotFound } from "./RunNotFound";
import { RUN_TABS, type RunSearch, type RunTab } from "./search";
import { TreeTab } from "./tree/TreeTab";
import { useRunNews } from "./useRunNews";
import { WinnersTab } from "./WinnersTab";

export function RunPage() {
  const { id } = useParams({ from: "/framed/runs/$id" });
  const search = useSearch({ from: "/framed/runs/$id" });
  const navigate = useNavigate({ from: "/runs/$id" });
  const found = useSuspenseQuery(runQuery(id));
  const run = found.data;
  useTitle(run.name);
  useRunNews(run);
  if (hasStatus(found.error, 404)) return <RunNotFound />;
  const change = (next: RunSearch) => void navigate({ search: (before) => ({ ...before, ...next }), replace: true });
  const waiting = run.steps.filter((step) => step.step.requires_approval && !step.approved && step.active > 0).length;
  const content: Record<RunTab, React.ReactNode> = {
    tree: <TreeTab run={run} selected={search.candidate} onSelect={(candidate) => change({ candidate })} />,
    gallery: <GalleryTab run={run} search={search} onChange={change} />,
    compare: <CompareTab key={search.step} run={run} wanted={search.step} onStep={(step) => change({ step })} />,
    gates: <GatesTab run={run} />,
    winners: <WinnersTab run={run} />,
    budget: <BudgetTab run={run} />,
  };
  return (
    <>
      <RunHead run={run} />
      <Tabs
        label={runTexts.tabsLabel}
        value={search.tab ?? "tree"}
        onChange={(tab) => change({ tab: tab === "tree" ? undefined : tab })}
        tabs={RUN_TABS.map((value) => ({
          value,
          label: <TabLabel name={runTexts.tabs[value]} count={value === "gates" ? waiting : 0} />,
          content: content[value],
        }))}
      />
    </>
  );
}

function TabLabel({ name, count }: { name: string; count: number }) {
  if (count === 0) return name;
  return (
    <span className="inline-flex items-center gap-1.5">
      {name}
      <span className="num rounded-full bg-warn-soft px-1.5 text-xs font-medium text-warn">{count}</span>
    </span>
  );
}
