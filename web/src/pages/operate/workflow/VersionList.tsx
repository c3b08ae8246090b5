import { useQuery } from "@tanstack/react-query";
import { meQuery } from "@/api/queries";
import type { Schemas } from "@/api/types";
import { Badge, classes, Time } from "@/design";
import { workflowsTexts } from "@/texts/workflows";

type Version = Schemas["WorkflowVersion"];

interface Props {
  versions: readonly Version[];
  shown: number;
  onShow: (version: number) => void;
}

export function VersionList({ versions, shown, onShow }: Props) {
  const { data: me } = useQuery(meQuery);
  return (
    <nav aria-label={workflowsTexts.versions} className="panel max-h-[36rem] overflow-y-auto p-1">
      <ol>
        {versions.map((each, index) => (
          <li key={each.version}>
            <button
              type="button"
              aria-current={each.version === shown ? "true" : undefined}
              onClick={() => onShow(each.version)}
              className={classes(
                "grid min-h-12 w-full gap-0.5 rounded-s px-3 py-2 text-left hover:bg-hover",
                each.version === shown && "bg-hover",
              )}
            >
              <span className="flex items-center justify-between gap-2">
                <span className="font-[550]">{workflowsTexts.version(each.version)}</span>
                {index === 0 && <Badge tone="ok">{workflowsTexts.current}</Badge>}
              </span>
              <span className="text-s text-muted [overflow-wrap:anywhere]">
                <Time at={each.created_at} /> {author(each, me?.user_id)}
              </span>
            </button>
          </li>
        ))}
      </ol>
    </nav>
  );
}

function author({ actor, actor_email }: Version, me: string | undefined): string {
  if (!actor) return workflowsTexts.earlier;
  if (actor === `admin:${me}`) return workflowsTexts.byYou;
  if (actor_email) return workflowsTexts.by(actor_email);
  return actor.startsWith("admin:") ? workflowsTexts.byOperator : workflowsTexts.byCommand;
}
