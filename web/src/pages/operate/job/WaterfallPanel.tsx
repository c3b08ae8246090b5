import { useNavigate, useSearch } from "@tanstack/react-router";
import { Button, Select } from "@/design";
import type { Graph } from "@/parts/graph/graph";
import { operatorJobTexts as texts } from "@/texts/operator-job";
import { WaterfallTable } from "./WaterfallTable";
import { attemptsOf, MAX_NODES, nodesIn, rangeOf, rowsOf, shortDuration, ticksOf, type Waterfall } from "./waterfall";

const WHOLE = "whole";

/** All spans on one time axis, for the whole job or for one attempt. */
export function WaterfallPanel({ waterfall, graph }: { waterfall: Waterfall; graph: Graph | null }) {
  const { attempt, all = false } = useSearch({ from: "/framed/operator/operate/jobs/$id" });
  const navigate = useNavigate({ from: "/operate/jobs/$id" });
  const attempts = attemptsOf(waterfall);
  const range = rangeOf(waterfall, attempt);
  const rows = rowsOf(waterfall, range, graph, all);
  const nodes = nodesIn(waterfall, range);
  const leftOut = waterfall.nodes_left_out ?? 0;
  const total = shortDuration(
    Math.max(
      0,
      (waterfall.ended_at ? Date.parse(waterfall.ended_at) : Date.parse(waterfall.now)) -
        Date.parse(waterfall.started_at),
    ),
  );
  return (
    <section className="panel p-5">
      <div className="mb-4 flex flex-wrap items-end justify-between gap-3">
        <div>
          <h2>{texts.waterfall}</h2>
          <p className="num text-s text-muted">
            {waterfall.ended_at ? texts.waterfallText(total) : texts.waterfallSoFar(total)}
          </p>
        </div>
        {attempts.length > 0 && (
          <Select
            label={texts.shown}
            className="w-44"
            value={attempts.some((span) => span.attempt === attempt) ? String(attempt) : WHOLE}
            choices={[
              { value: WHOLE, label: texts.whole },
              ...attempts.map((span) => ({ value: String(span.attempt), label: texts.attempt(span.attempt ?? 1) })),
            ]}
            onChange={(chosen) =>
              void navigate({
                search: (before) => ({ ...before, attempt: chosen === WHOLE ? undefined : Number(chosen) }),
                replace: true,
                resetScroll: false,
              })
            }
          />
        )}
      </div>
      <WaterfallTable rows={rows} ticks={ticksOf(range)} start={range.start} />
      <div className="num mt-3 flex flex-wrap items-center gap-3 text-s text-muted">
        {nodes > MAX_NODES && (
          <Button
            size="s"
            onClick={() =>
              void navigate({
                search: (before) => ({ ...before, all: all ? undefined : true }),
                replace: true,
                resetScroll: false,
              })
            }
          >
            {all ? texts.fewNodes : texts.allNodes(nodes)}
          </Button>
        )}
        {leftOut > 0 && <span>{texts.leftOut(leftOut)}</span>}
        {waterfall.status === "completed" && graph !== null && nodes === 0 && <span>{texts.noNodes}</span>}
      </div>
    </section>
  );
}
