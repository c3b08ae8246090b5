import type { ReactNode } from "react";
import { classes } from "./classes";

interface Props {
  title: ReactNode;
  text?: ReactNode;
  /** Content above the title: a badge, or a link back. */
  above?: ReactNode;
  actions?: ReactNode;
  /** The actions are few and short, so they are beside the title on a phone too. */
  isTight?: boolean;
}

export function PageHead({ title, text, above, actions, isTight = false }: Props) {
  return (
    <div
      className={classes(
        "mb-6 flex gap-4",
        isTight ? "items-start justify-between md:items-end" : "flex-col lg:flex-row lg:items-end lg:justify-between",
      )}
    >
      <div className="min-w-0">
        {above !== undefined && <div className="mb-2">{above}</div>}
        {/* A long name is cut here. The tooltip and the title of the tab show it whole. */}
        <h1 className="line-clamp-3 break-words md:line-clamp-2" title={typeof title === "string" ? title : undefined}>
          {title}
        </h1>
        {text !== undefined && <p className="mt-1 text-muted">{text}</p>}
      </div>
      {actions !== undefined && (
        <div className={classes("flex shrink-0 gap-2", isTight ? "justify-end" : "flex-wrap")}>{actions}</div>
      )}
    </div>
  );
}
