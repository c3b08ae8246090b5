import { Table } from "@/design";
import { labelOf, type ReadableResult, type Table as Rows } from "@/parts/job/results";
import { jobTexts } from "@/texts/job";
import { Reading } from "./Reading";

const LONG_TEXT = 80;

/** Result of a task: a text, a table, or named values. */
export function ResultView({ result, isTop = true }: { result: ReadableResult; isTop?: boolean }) {
  switch (result.form) {
    case "text":
      return isTop || result.text.length > LONG_TEXT || result.text.includes("\n") ? (
        <Reading text={result.text} />
      ) : (
        <span className="break-words">{result.text}</span>
      );
    case "list":
      return (
        <ul className="grid list-disc gap-1 pl-5">
          {result.items.map((item, index) => (
            <li key={index} className="break-words">
              {item}
            </li>
          ))}
        </ul>
      );
    case "table":
      return <ResultTable rows={result.table} />;
    case "fields":
      return (
        <dl className={isTop ? "panel divide-y" : "grid gap-3 border-l pl-4"}>
          {result.fields.map(({ name, result: inner }) => (
            <div key={name} className={isTop ? "grid gap-1.5 px-5 py-4" : "grid gap-1"}>
              <dt className="text-s text-muted">{labelOf(name)}</dt>
              <dd className="min-w-0">
                <ResultView result={inner} isTop={false} />
              </dd>
            </div>
          ))}
        </dl>
      );
  }
}

interface NumberedRow {
  row: Rows["rows"][number];
  index: number;
}

function ResultTable({ rows }: { rows: Rows }) {
  const numbered: NumberedRow[] = rows.rows.map((row, index) => ({ row, index }));
  return (
    <Table<NumberedRow>
      label={jobTexts.result}
      rows={numbered}
      rowKey={({ index }) => index}
      columns={rows.columns.map((name) => ({
        name: labelOf(name),
        right: rows.rows.every((row) => row[name] === null || typeof row[name] === "number"),
        className: "max-w-96 break-words",
        cell: ({ row }) => (row[name] === null || row[name] === undefined ? "–" : String(row[name])),
      }))}
    />
  );
}
