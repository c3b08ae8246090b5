/** Describes in sentences what a change will do, before it is saved. A screen reader announces changes. */
export function PlanText({ label, sentences }: { label: string; sentences: readonly string[] }) {
  return (
    <p role="status" aria-label={label} className="rounded-s bg-hover px-3 py-2 text-s [overflow-wrap:anywhere]">
      {sentences.join(" ")}
    </p>
  );
}
