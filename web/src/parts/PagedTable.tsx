import type { InfiniteData, UseInfiniteQueryResult } from "@tanstack/react-query";
import type { Key, ReactNode } from "react";
import { type Column, Table } from "@/design";
import { MoreButton } from "@/parts/MoreButton";
import { Pending } from "@/parts/Pending";

interface Props<Row> {
  query: UseInfiniteQueryResult<InfiniteData<{ items: Row[] }>>;
  columns: readonly Column<Row>[];
  rowKey: (row: Row) => Key;
  label: string;
  /** Replaces the table while there are no rows. */
  empty: ReactNode;
}

/** A table of a paged query: its rows, or the reason why there are none. */
export function PagedTable<Row>({ query, columns, rowKey, label, empty }: Props<Row>) {
  const rows = query.data?.pages.flatMap((page) => page.items) ?? [];
  if (!query.data) return <Pending query={query} className="h-64" />;
  if (rows.length === 0) return <div className="panel">{empty}</div>;
  return (
    <div className="grid grid-cols-[minmax(0,1fr)] gap-4">
      <Table label={label} rows={rows} columns={columns} rowKey={rowKey} />
      <MoreButton query={query} />
    </div>
  );
}
