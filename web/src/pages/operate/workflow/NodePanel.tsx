import { CircleCheck, Link2, Plus, X } from "lucide-react";
import { Badge, Button, Menu, MenuItem } from "@/design";
import type { GraphNode, NodeInput } from "@/parts/graph/graph";
import { type Draft, type GraphInput, propertiesIn, withOutput, withProperty } from "@/parts/workflow/draft";
import { shownValue } from "@/parts/workflow/exact";
import type { WorkflowProposal } from "@/parts/workflow/queries";
import { workflowsTexts } from "@/texts/workflows";

type Change = (update: (draft: Draft) => Draft) => void;

interface Props {
  node: GraphNode;
  draft: Draft;
  proposal: WorkflowProposal | undefined;
  /** null for users who cannot edit. */
  change: Change | null;
  onClose: () => void;
}

/** One node: its inputs, which can become properties, and whether its file is the result. */
export function NodePanel({ node, draft, proposal, change, onClose }: Props) {
  return (
    <section className="panel appear p-4 sm:p-5" aria-label={workflowsTexts.node(node.title, node.id)}>
      <div className="mb-3 flex items-start justify-between gap-3">
        <div className="min-w-0">
          <h2 className="[overflow-wrap:anywhere]">{workflowsTexts.node(node.title, node.id)}</h2>
          <code className="text-s text-muted [overflow-wrap:anywhere]">{node.classType}</code>
        </div>
        <Button
          look="quiet"
          size="icon"
          aria-label={workflowsTexts.close}
          icon={<X size={18} />}
          className="-mt-1.5 -mr-2"
          onClick={onClose}
        />
      </div>
      <Result node={node} draft={draft} proposal={proposal} change={change} />
      <h3 className="mt-4 mb-1 text-s font-[550] text-muted">{workflowsTexts.inputs}</h3>
      {node.inputs.length === 0 ? (
        <p className="text-muted">{workflowsTexts.noInputs}</p>
      ) : (
        <ul className="divide-y">
          {node.inputs.map((input) => (
            <Input
              key={input.name}
              input={input}
              draft={draft}
              choice={proposal?.inputs.find((each) => each.node_id === node.id && each.name === input.name)}
              change={change}
            />
          ))}
        </ul>
      )}
    </section>
  );
}

function Result({ node, draft, proposal, change }: Omit<Props, "onClose">) {
  const outputs = proposal?.outputs;
  if (draft.output_node_id === node.id) {
    return (
      <div className="flex flex-wrap items-center justify-between gap-2 rounded-s bg-ok-soft px-3 py-2 text-s">
        <span className="flex items-center gap-2 text-ok">
          <CircleCheck size={16} aria-hidden />
          {workflowsTexts.isResult}
        </span>
        {change && (
          <Button size="s" onClick={() => change((now) => withOutput(now, null, outputs))}>
            {workflowsTexts.useAllFiles}
          </Button>
        )}
      </div>
    );
  }
  if (change === null) return null;
  return (
    <Button
      size="s"
      icon={<CircleCheck size={14} />}
      onClick={() => change((now) => withOutput(now, node.id, outputs))}
    >
      {workflowsTexts.useAsResult}
    </Button>
  );
}

interface InputProps {
  input: NodeInput;
  draft: Draft;
  choice: GraphInput | undefined;
  change: Change | null;
}

function Input({ input, draft, choice, change }: InputProps) {
  const set = input.from ? [] : propertiesIn(draft, input.value);
  return (
    <li className="flex flex-wrap items-center justify-between gap-x-4 gap-y-1.5 py-2.5">
      <div className="min-w-0 flex-1 basis-40">
        <span className="font-[550] [overflow-wrap:anywhere]">{input.name}</span>
        {input.from ? (
          <span className="flex items-center gap-1.5 text-s text-muted">
            <Link2 size={13} aria-hidden />
            {workflowsTexts.linked(input.from.node)}
          </span>
        ) : (
          <code className="line-clamp-3 text-s whitespace-pre-wrap text-muted [overflow-wrap:anywhere]">
            {shownValue(input.value)}
          </code>
        )}
      </div>
      {set.length > 0 ? (
        <Badge tone="run">{workflowsTexts.setBy(set.map((each) => each.key).join(", "))}</Badge>
      ) : (
        change && choice && <MakeProperty choice={choice} change={change} />
      )}
    </li>
  );
}

function MakeProperty({ choice, change }: { choice: GraphInput; change: Change }) {
  const [only] = choice.types;
  const label = workflowsTexts.makeProperty(choice.name);
  if (choice.types.length === 1 && only !== undefined) {
    return (
      <Button
        size="s"
        icon={<Plus size={14} />}
        aria-label={label}
        onClick={() => change((now) => withProperty(now, choice, only))}
      >
        {workflowsTexts.asType}
      </Button>
    );
  }
  return (
    <Menu
      trigger={
        <Button size="s" icon={<Plus size={14} />} aria-label={label}>
          {workflowsTexts.asType}
        </Button>
      }
    >
      {choice.types.map((type) => (
        <MenuItem key={type} onSelect={() => change((now) => withProperty(now, choice, type))}>
          {workflowsTexts.types[type]}
        </MenuItem>
      ))}
    </Menu>
  );
}
