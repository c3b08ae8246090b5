import { useInfiniteQuery } from "@tanstack/react-query";
import { Link, useSearch } from "@tanstack/react-router";
import { Plus, Webhook } from "lucide-react";
import { useState } from "react";
import { Button, type Column, Empty } from "@/design";
import { PagedTable } from "@/parts/PagedTable";
import { webhookTexts as texts } from "@/texts/webhooks";
import { CreateEndpointDialog } from "./CreateEndpointDialog";
import { type Endpoint, EndpointState } from "./EndpointState";
import { EndpointView } from "./EndpointView";
import { endpointsQuery } from "./queries";

export function WebhooksTab() {
  const { endpoint } = useSearch({ from: "/framed/account" });
  return endpoint ? <EndpointView id={endpoint} /> : <EndpointList />;
}

function EndpointList() {
  const [isCreating, setCreating] = useState(false);
  const query = useInfiniteQuery(endpointsQuery);
  const create = (
    <Button look="go" onClick={() => setCreating(true)} icon={<Plus size={16} aria-hidden />}>
      {texts.create}
    </Button>
  );
  return (
    <div className="grid grid-cols-[minmax(0,1fr)] gap-4">
      {query.data?.pages.some((page) => page.items.length > 0) && (
        <div className="flex flex-wrap items-center justify-between gap-4">
          <p className="max-w-prose text-muted">{texts.text}</p>
          {create}
        </div>
      )}
      <PagedTable
        query={query}
        columns={COLUMNS}
        rowKey={(row) => row.id}
        label={texts.list}
        empty={<Empty icon={<Webhook size={20} />} title={texts.none} text={texts.noneText} action={create} />}
      />
      {isCreating && <CreateEndpointDialog onClose={() => setCreating(false)} />}
    </div>
  );
}

const COLUMNS: readonly Column<Endpoint>[] = [
  {
    name: texts.url,
    className: "w-full",
    cell: (row) => (
      <>
        <Link
          to="/account"
          search={{ tab: "webhooks", endpoint: row.id }}
          className="font-[550] [overflow-wrap:anywhere] hover:underline"
        >
          {row.url}
        </Link>
        {row.description && <span className="block text-muted">{row.description}</span>}
        <span className="block text-muted [overflow-wrap:anywhere]">{row.events.join(", ")}</span>
      </>
    ),
  },
  { name: texts.state, cell: (row) => <EndpointState endpoint={row} /> },
];
