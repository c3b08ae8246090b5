/** What a change will do, in sentences, before it is saved. A screen reader says it when it changes. */
export function PlanText({ label, sentences }: { label: string; sentences: readonly string[] }) {
  return (
    <p role="status" aria-label={label} className="rounded-s bg-hover px-3 py-2 text-s [overflow-wrap:anywhere]">
      {sentences.join(" ")}
    </p>
  );
}
