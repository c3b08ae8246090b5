import { useQuery } from "@tanstack/react-query";
import { walletQuery } from "@/api/queries";
import { formatNumber, formatTokens } from "@/design";
import { titled } from "@/parts/form/values";
import { runPanelTexts } from "@/texts/pipelines";
import type { RunPreview } from "./queries";

/** Size of the run, and its first job. */
export function DryRunResult({ preview, isStale }: { preview: RunPreview; isStale: boolean }) {
  const wallet = useQuery(walletQuery);
  const { cost, jobs, first_job: first } = preview;
  const missing = cost != null && wallet.data ? Math.max(0, cost - wallet.data.balance) : 0;
  return (
    <section aria-label={runPanelTexts.result} aria-busy={isStale} className="grid gap-4 border-t pt-4">
      <table className="num w-full text-s">
        <caption className="mb-1 text-left text-m font-[600]">{runPanelTexts.expected}</caption>
        <tbody>
          {preview.steps.map((step) => (
            <tr key={step.position} className="border-b last:border-0">
              <th scope="row" className="max-w-0 truncate py-1.5 text-left font-normal" title={step.name}>
                {step.name}
              </th>
              <td className="py-1.5 pl-3 text-right">{formatNumber(step.candidates)}</td>
              <td className="w-24 py-1.5 pl-3 text-right text-muted">
                {step.cost == null ? "" : runPanelTexts.each(formatTokens(step.cost))}
              </td>
            </tr>
          ))}
        </tbody>
        <tfoot>
          <tr className="border-t border-line-strong font-[600]">
            <th scope="row" className="py-1.5 text-left font-[600]">
              {runPanelTexts.jobs}
            </th>
            <td className="py-1.5 pl-3 text-right">{formatNumber(jobs)}</td>
            <td className="py-1.5 pl-3 text-right whitespace-nowrap">
              {cost == null ? runPanelTexts.costOpen : formatTokens(cost)}
            </td>
          </tr>
        </tfoot>
      </table>
      {missing > 0 && (
        <p className="rounded-s bg-warn-soft px-3 py-2 text-s text-warn">
          {runPanelTexts.tooFew(formatTokens(missing))}
        </p>
      )}
      {first && (
        <div className="grid gap-2">
          <h3>{runPanelTexts.first}</h3>
          <p className="num text-s break-words text-muted">{runPanelTexts.firstText(first.step, first.seed)}</p>
          {Object.keys(first.values).length > 0 && (
            <dl className="grid gap-1 text-s">
              {Object.entries(first.values).map(([key, value]) => (
                <div key={key} className="grid grid-cols-[minmax(0,7rem)_minmax(0,1fr)] gap-3">
                  <dt className="truncate text-muted">{titled(key)}</dt>
                  <dd className="break-words">{value === "" ? "–" : String(value)}</dd>
                </div>
              ))}
            </dl>
          )}
          {first.payload && <Code title={runPanelTexts.firstPayload} value={first.payload} isOpen />}
          {first.graph && <Code title={runPanelTexts.graph} value={first.graph} />}
        </div>
      )}
      <p className="text-s text-muted">{runPanelTexts.nothing}</p>
    </section>
  );
}

function Code({ title, value, isOpen = false }: { title: string; value: unknown; isOpen?: boolean }) {
  return (
    <details open={isOpen}>
      <summary className="min-h-8 text-s text-muted hover:text-text touch:min-h-11">{title}</summary>
      <pre tabIndex={0} aria-label={title} className="max-h-80 overflow-auto rounded-s border bg-bg p-3 text-xs">
        <code>{JSON.stringify(value, null, 2)}</code>
      </pre>
    </details>
  );
}
