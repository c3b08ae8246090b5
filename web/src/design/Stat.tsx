import type { ReactNode } from "react";

export function Stat({ label, value, hint }: { label: string; value: ReactNode; hint?: ReactNode }) {
  return (
    <div className="panel relative p-5 has-[a]:transition-colors has-[a]:duration-100 has-[a:hover]:border-line-strong">
      <div className="text-s text-muted">{label}</div>
      <div className="num mt-0.5 text-[24px] leading-tight font-semibold tracking-tight">{value}</div>
      {hint !== undefined && <div className="num mt-1 text-s text-muted">{hint}</div>}
    </div>
  );
}
