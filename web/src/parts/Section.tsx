import type { ReactNode } from "react";

interface Props {
  title: string;
  /** A table is a region of its own with the same name. */
  hasTable?: boolean;
  /** Buttons beside the title. */
  actions?: ReactNode;
  children: ReactNode;
}

export function Section({ title, hasTable = false, actions, children }: Props) {
  const Outer = hasTable ? "div" : "section";
  return (
    <Outer aria-label={hasTable ? undefined : title}>
      <div className="mb-3 flex flex-wrap items-center justify-between gap-x-4 gap-y-2">
        <h2>{title}</h2>
        {actions && <div className="flex flex-wrap gap-2">{actions}</div>}
      </div>
      {children}
    </Outer>
  );
}
