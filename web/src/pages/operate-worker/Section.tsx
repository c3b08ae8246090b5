import type { ReactNode } from "react";

interface Props {
  title: string;
  /** A table is a region of its own, with the same name. */
  hasTable?: boolean;
  children: ReactNode;
}

export function Section({ title, hasTable = false, children }: Props) {
  const Outer = hasTable ? "div" : "section";
  return (
    <Outer aria-label={hasTable ? undefined : title}>
      <h2 className="mb-3">{title}</h2>
      {children}
    </Outer>
  );
}
