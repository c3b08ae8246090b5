import type { ReactNode } from "react";

interface Props {
  icon?: ReactNode;
  title: string;
  /** The first action that the user can take. */
  text?: ReactNode;
  action?: ReactNode;
  /** The page shows nothing else, so this title is the title of the page. */
  isPage?: boolean;
}

export function Empty({ icon, title, text, action, isPage = false }: Props) {
  return (
    <div className="appear mx-auto grid max-w-md justify-items-center gap-2 px-6 py-16 text-center">
      {icon !== undefined && (
        <div className="mb-2 grid size-12 place-items-center rounded-m border bg-panel text-muted shadow-panel">
          {icon}
        </div>
      )}
      {isPage ? <h1 className="text-xl">{title}</h1> : <h2>{title}</h2>}
      {text !== undefined && <p className="text-balance text-muted">{text}</p>}
      {action !== undefined && <div className="mt-3">{action}</div>}
    </div>
  );
}
