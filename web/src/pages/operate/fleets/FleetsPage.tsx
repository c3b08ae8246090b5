import { useInfiniteQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Boxes, Plus } from "lucide-react";
import { useState } from "react";
import type { Schemas } from "@/api/types";
import { Button, type Column, Empty, PageHead, Table } from "@/design";
import { FleetBadge } from "@/parts/fleet/FleetBadge";
import { MoreButton } from "@/parts/MoreButton";
import { Pending } from "@/parts/Pending";
import { useRole } from "@/parts/useRole";
import { useTitle } from "@/parts/useTitle";
import { fleetsTexts } from "@/texts/fleets";
import { CreateFleetDialog } from "./CreateFleetDialog";
import { fleetsQuery } from "./queries";

type Fleet = Schemas["Fleet"];
const texts = fleetsTexts.columns;

export function FleetsPage() {
  useTitle(fleetsTexts.title);
  const query = useInfiniteQuery(fleetsQuery);
  const fleets = query.data?.pages.flatMap((page) => page.items) ?? [];
  const { mayOperate } = useRole();
  const [isNew, setNew] = useState(false);
  const create = mayOperate ? (
    <Button look="go" icon={<Plus size={16} />} onClick={() => setNew(true)}>
      {fleetsTexts.create}
    </Button>
  ) : undefined;
  return (
    <>
      <PageHead title={fleetsTexts.title} text={fleetsTexts.text} actions={create} />
      {isNew && <CreateFleetDialog onClose={() => setNew(false)} />}
      {!query.data ? (
        <Pending query={query} className="h-64" />
      ) : fleets.length === 0 ? (
        <Empty icon={<Boxes size={20} />} title={fleetsTexts.none} text={fleetsTexts.noneText} />
      ) : (
        <div className="grid gap-4">
          <Table stacks label={fleetsTexts.title} rows={fleets} columns={COLUMNS} rowKey={(fleet) => fleet.id} />
          <MoreButton query={query} />
        </div>
      )}
    </>
  );
}

const COLUMNS: readonly Column<Fleet>[] = [
  {
    name: texts.fleet,
    cell: (fleet) => (
      <>
        <Link
          to="/operate/fleets/$id"
          params={{ id: String(fleet.id) }}
          className="font-[550] [overflow-wrap:anywhere] hover:underline"
        >
          {fleet.name}
        </Link>
        <span className="block text-muted [overflow-wrap:anywhere]">
          {fleet.slug}, {fleet.stage}
        </span>
      </>
    ),
  },
  { name: texts.state, cell: (fleet) => <FleetBadge fleet={fleet} /> },
  {
    name: texts.live,
    right: true,
    cell: (fleet) => <span className="whitespace-nowrap">{fleetsTexts.liveOf(fleet.live_workers, fleet.workers)}</span>,
  },
  {
    name: texts.wanted,
    right: true,
    className: "sm:max-lg:hidden",
    cell: (fleet) => fleet.scaling?.wanted ?? fleet.desired_workers ?? "–",
  },
  {
    name: texts.waiting,
    right: true,
    className: "sm:max-lg:hidden",
    cell: (fleet) => fleet.scaling?.queued_jobs ?? "–",
  },
  {
    name: texts.workflows,
    className: "sm:max-lg:hidden",
    cell: (fleet) => (
      <span className="[overflow-wrap:anywhere]">{fleet.workflows.join(", ") || fleetsTexts.noWorkflow}</span>
    ),
  },
  {
    name: texts.why,
    className: "sm:max-xl:hidden",
    cell: (fleet) =>
      fleet.scaling ? (
        <span className="text-muted">
          {fleet.scaling.driver_error ?? fleet.scaling.reason ?? fleetsTexts.notScaled}
        </span>
      ) : (
        <span className="whitespace-nowrap text-muted">{fleetsTexts.notScaled}</span>
      ),
  },
];
