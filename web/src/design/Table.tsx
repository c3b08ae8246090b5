import type { Key, ReactNode } from "react";
import { classes } from "./classes";

export interface Column<Row> {
  name: string;
  /** Content of the head cell; by default the name of the column. */
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
  /** On a phone each row becomes a block with the names of its columns, so no column has to be hidden. */
  stacks?: boolean;
}

// Beside the sidebar the first column needs a minimum width, or its words would break letter by letter. Phones hide
// columns instead.
const FIRST = "md:max-xl:min-w-40";

const STACKED = {
  table: "max-sm:block",
  head: "max-sm:sr-only",
  row: "max-sm:flex max-sm:flex-wrap max-sm:items-baseline max-sm:gap-x-5 max-sm:gap-y-1 max-sm:px-4 max-sm:py-3",
  first: "max-sm:basis-full max-sm:p-0!",
  cell: "max-sm:flex max-sm:flex-wrap max-sm:gap-x-1.5 max-sm:p-0! max-sm:text-left max-sm:before:text-muted max-sm:before:content-[attr(data-name)]",
};

export function Table<Row>({ rows, columns, rowKey, label, stacks = false }: Props<Row>) {
  const stacked = (part: keyof typeof STACKED) => stacks && STACKED[part];
  // Relative, because texts for screen readers in hidden columns would make the page wider.
  return (
    <div className="panel relative overflow-x-auto" tabIndex={0} role="region" aria-label={label}>
      <table className={classes("w-full border-collapse text-s", stacked("table"))}>
        <thead className={classes(stacked("head"))}>
          <tr>
            {columns.map((column, index) => (
              <th
                key={column.name}
                scope="col"
                className={classes(
                  "border-b px-4 py-2.5 max-sm:px-3 font-medium whitespace-nowrap text-muted",
                  column.right ? "text-right" : "text-left",
                  index === 0 && FIRST,
                  column.className,
                )}
              >
                {column.head ?? column.name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody className={classes("num", stacked("table"))}>
          {rows.map((row) => (
            <tr
              key={rowKey(row)}
              className={classes(
                "border-b transition-colors duration-100 last:border-0 hover:bg-hover",
                stacked("row"),
              )}
            >
              {columns.map((column, index) => (
                <td
                  key={column.name}
                  data-name={stacks ? column.name : undefined}
                  className={classes(
                    "px-4 py-2.5 max-sm:px-3",
                    column.right && "text-right",
                    column.className,
                    stacked(index === 0 ? "first" : "cell"),
                  )}
                >
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
