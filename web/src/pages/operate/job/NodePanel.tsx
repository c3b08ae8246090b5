import { X } from "lucide-react";
import { Button } from "@/design";
import type { GraphNode } from "@/parts/graph/graph";
import { operatorJobTexts as texts } from "@/texts/operator-job";
import type { NodeTimes } from "./node-marks";
import { spentTime } from "./waterfall";

const MAX_VALUE_LENGTH = 2_000;

export function NodePanel({
  node,
  times,
  onClose,
}: {
  node: GraphNode;
  times: NodeTimes | undefined;
  onClose: () => void;
}) {
  return (
    <section className="panel p-5" aria-label={texts.nodeInputs(node.title)}>
      <div className="mb-3 flex items-start justify-between gap-4">
        <div className="min-w-0">
          <h3 className="[overflow-wrap:anywhere]">{node.title}</h3>
          <p className="num text-s text-muted">
            {[`#${node.id}`, node.classType, ranOf(times)].filter(Boolean).join(" · ")}
          </p>
        </div>
        <Button
          look="quiet"
          size="icon"
          aria-label={texts.close}
          icon={<X size={16} />}
          onClick={onClose}
          className="-mt-1.5 -mr-2"
        />
      </div>
      {node.inputs.length === 0 ? (
        <p className="text-s text-muted">{texts.noInputs}</p>
      ) : (
        <dl className="grid grid-cols-[auto_minmax(0,1fr)] gap-x-6 gap-y-2 text-s">
          {node.inputs.map((input) => (
            <div key={input.name} className="contents">
              <dt className="text-muted">{input.name}</dt>
              <dd className="[overflow-wrap:anywhere] whitespace-pre-wrap">
                {input.from ? texts.from(input.from.node, input.from.slot) : shown(input.value)}
              </dd>
            </div>
          ))}
        </dl>
      )}
    </section>
  );
}

function ranOf(times: NodeTimes | undefined): string {
  if (times === undefined) return "";
  if (times.runs === 0) return texts.cached;
  return times.runs === 1
    ? texts.ran(spentTime(times.milliseconds))
    : texts.ranTimes(spentTime(times.milliseconds), times.runs);
}

function shown(value: unknown): string {
  const text = typeof value === "string" ? value : (JSON.stringify(value) ?? "");
  return text.length > MAX_VALUE_LENGTH ? `${text.slice(0, MAX_VALUE_LENGTH)}…` : text;
}
