import type { ReactNode } from "react";

export function Stat({ label, value, hint }: { label: string; value: ReactNode; hint?: ReactNode }) {
  return (
    <div className="panel p-5">
      <div className="text-s text-muted">{label}</div>
      <div className="num mt-0.5 text-[24px] leading-tight font-semibold tracking-tight">{value}</div>
      {hint !== undefined && <div className="num mt-1 text-s text-muted">{hint}</div>}
    </div>
  );
}
