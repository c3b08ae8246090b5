import type { ReactNode } from "react";

interface Props {
  title: ReactNode;
  text?: ReactNode;
  /** Above the title: a badge, or where one comes from. */
  above?: ReactNode;
  actions?: ReactNode;
}

export function PageHead({ title, text, above, actions }: Props) {
  return (
    <div className="mb-6 flex flex-col gap-4 md:flex-row md:items-end md:justify-between">
      <div className="min-w-0">
        {above !== undefined && <div className="mb-2">{above}</div>}
        <h1 className="break-words">{title}</h1>
        {text !== undefined && <p className="mt-1 text-muted">{text}</p>}
      </div>
      {actions !== undefined && <div className="flex flex-wrap gap-2">{actions}</div>}
    </div>
  );
}
