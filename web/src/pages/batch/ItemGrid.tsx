import type { JobSummary } from "@/api/types";
import { batchTexts } from "@/texts/batch";
import { ItemCard } from "./ItemCard";
import type { Layout } from "./layout";

interface Props {
  layout: Layout;
  jobs: ReadonlyMap<number, JobSummary>;
}

/** The results side by side, with the values that made them as headings. */
export function ItemGrid({ layout, jobs }: Props) {
  return (
    <div className="overflow-x-auto pb-2" tabIndex={0} role="region" aria-label={batchTexts.grid}>
      <table data-scrolls className="border-separate border-spacing-2">
        <thead>
          <tr>
            <td />
            {layout.columns.map((column) => (
              <th key={column.key} scope="col" className="max-w-36 px-1 text-left text-s font-[550] sm:max-w-44">
                <span className="line-clamp-2" title={column.text}>
                  {column.text}
                </span>
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {layout.rows.map((row, index) => (
            <tr key={row.key}>
              <th scope="row" className="sticky left-0 z-[1] bg-bg pr-2 text-left align-top text-s font-[550]">
                <span className="line-clamp-4 w-22 pt-1 sm:w-42" title={row.text}>
                  {row.text}
                </span>
              </th>
              {layout.columns.map((column, at) => {
                const job = jobs.get(layout.items[index]?.[at] ?? 0);
                return (
                  <td key={column.key} className="align-top">
                    {/* A cell would be as wide as the longest prompt. */}
                    <div className="w-36 sm:w-44">{job && <ItemCard job={job} />}</div>
                  </td>
                );
              })}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
