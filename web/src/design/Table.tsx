import type { Key, ReactNode } from "react";
import { classes } from "./classes";

export interface Column<Row> {
  name: string;
  /** What the head shows; the name where it is left out. */
  head?: ReactNode;
  cell: (row: Row) => ReactNode;
  /** Numbers are aligned to the right. */
  right?: boolean;
  className?: string;
}

interface Props<Row> {
  rows: readonly Row[];
  columns: readonly Column<Row>[];
  rowKey: (row: Row) => Key;
  label: string;
}

// Beside the sidebar, what a row is about would be broken letter by letter without a width of its own. Phones hide columns instead.
const FIRST = "md:max-xl:min-w-40";

export function Table<Row>({ rows, columns, rowKey, label }: Props<Row>) {
  // Relative: texts for screen readers in columns out of sight would make the page wider.
  return (
    <div className="panel relative overflow-x-auto" tabIndex={0} role="region" aria-label={label}>
      <table className="w-full border-collapse text-s">
        <thead>
          <tr>
            {columns.map((column, index) => (
              <th key={column.name} scope="col" className={classes("border-b px-4 py-2.5 max-sm:px-3 font-medium whitespace-nowrap text-muted", column.right ? "text-right" : "text-left", index === 0 && FIRST, column.className)}>
                {column.head ?? column.name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody className="num">
          {rows.map((row) => (
            <tr key={rowKey(row)} className="border-b transition-colors duration-100 last:border-0 hover:bg-hover">
              {columns.map((column) => (
                <td key={column.name} className={classes("px-4 py-2.5 max-sm:px-3", column.right && "text-right", column.className)}>
                  {column.cell(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
