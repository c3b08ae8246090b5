import type { ReactNode } from "react";
import { Refusal } from "./Refusal";

interface Props {
  /** For screen readers. */
  label: string;
  /** The reason why the last attempt failed. */
  refusal: Error | string | null;
  warning?: string | false;
  children: ReactNode;
  actions: ReactNode;
}

/** The bar stays visible on the whole page while there are unsaved changes. */
export function SaveBar({ label, refusal, warning, children, actions }: Props) {
  return (
    <section
      aria-label={label}
      className="appear sticky bottom-[calc(4rem+env(safe-area-inset-bottom))] z-20 mt-6 grid gap-2 rounded-m border bg-panel/95 px-4 py-3 shadow-high backdrop-blur-md [overflow-wrap:anywhere] md:bottom-4"
    >
      <Refusal error={refusal} />
      {warning && <p className="text-s text-warn">{warning}</p>}
      <div className="flex flex-wrap items-center justify-between gap-3">
        <p className="min-w-0">{children}</p>
        <div className="flex gap-2">{actions}</div>
      </div>
    </section>
  );
}
