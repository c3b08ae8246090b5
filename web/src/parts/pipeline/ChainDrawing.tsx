import { CircleCheckBig, Trophy } from "lucide-react";
import { classes } from "@/design/classes";
import { pipelinesTexts } from "@/texts/pipelines";
import { formatNumber } from "@/texts/plurals";
import { drawChain } from "./chain";

export interface ChainLink {
  name: string;
  count: number;
  /** Candidates wait for a user before the next step. */
  hasGate?: boolean;
  /** Only this many candidates continue. */
  best?: number | null;
}

interface Props {
  links: readonly ChainLink[];
  /** Leaves out the names of the steps. */
  isSmall?: boolean;
}

const WIDTH = 120;
const RADIUS = 4;

/** Drawing of how candidates multiply from step to step. */
export function ChainDrawing({ links, isSmall = false }: Props) {
  const height = isSmall ? 64 : 112;
  const drawing = drawChain(
    links.map((each) => each.count),
    WIDTH,
    height,
  );
  const words = links.map((each) => `${each.name} ${formatNumber(each.count)}`).join(", ");
  const columns = { gridTemplateColumns: `repeat(${links.length}, minmax(0, 1fr))` };
  return (
    <div role="img" aria-label={pipelinesTexts.chainLabel(words)} className="overflow-x-auto">
      <div
        className="mx-auto"
        style={{ maxWidth: `${links.length * (isSmall ? 8 : 10)}rem`, minWidth: `${links.length * 3.5}rem` }}
      >
        <svg viewBox={`0 0 ${drawing.width} ${height}`} className="block h-auto w-full" aria-hidden="true">
          {drawing.lines.map(({ from, to }, index) => (
            <path
              key={index}
              d={`M ${from.x} ${from.y} C ${(from.x + to.x) / 2} ${from.y}, ${(from.x + to.x) / 2} ${to.y}, ${to.x} ${to.y}`}
              fill="none"
              stroke="var(--line-strong)"
              strokeOpacity={0.55}
              strokeWidth={1.25}
            />
          ))}
          {drawing.columns.map((dots, step) =>
            dots.map((dot, index) => (
              <circle
                key={`${step} ${index}`}
                cx={dot.x}
                cy={dot.y}
                r={Math.min(RADIUS, (height / dots.length) * 0.4)}
                fill={step === links.length - 1 ? "var(--accent)" : dot.isLast ? "var(--panel)" : "var(--text)"}
                stroke={dot.isLast && step < links.length - 1 ? "var(--line-strong)" : "none"}
              />
            )),
          )}
        </svg>
        <div className="grid" style={columns} aria-hidden="true">
          {links.map((each, index) => (
            <div key={index} className="grid min-w-0 justify-items-center gap-0.5 px-1 text-center">
              <span className={classes("num flex items-center gap-1 font-[600]", isSmall ? "text-s" : "text-l")}>
                {formatNumber(each.count)}
                {each.hasGate && <CircleCheckBig size={isSmall ? 12 : 14} className="text-warn" />}
                {each.best != null && <Trophy size={isSmall ? 12 : 14} className="text-muted" />}
              </span>
              {!isSmall && <span className="w-full truncate text-xs text-muted">{each.name}</span>}
            </div>
          ))}
        </div>
      </div>
    </div>
  );
}
