import type { ReactNode } from "react";
import { workflowsTexts } from "@/texts/workflows";
import type { NodeChange, ValueChange, WorkflowDiff } from "./diff";
import { shownValue } from "./exact";

const texts = workflowsTexts.diff;

/** Changes between two states of a workflow: each value before and after. */
export function DiffView({ diff }: { diff: WorkflowDiff }) {
  const { nodes, properties, settings } = diff;
  return (
    <div className="grid gap-4" role="group" aria-label={texts.label}>
      <Names title={texts.nodesAdded} names={nodes.added.map(nodeName)} sign="+" />
      <Names title={texts.nodesRemoved} names={nodes.removed.map(nodeName)} sign="−" />
      {nodes.changed.length > 0 && (
        <Part title={texts.nodesChanged}>
          {nodes.changed.map((each) => (
            <Changes key={each.id} title={nodeName(each)} changes={each.changes} />
          ))}
        </Part>
      )}
      <Names title={texts.propertiesAdded} names={properties.added} sign="+" />
      <Names title={texts.propertiesRemoved} names={properties.removed} sign="−" />
      {properties.changed.length > 0 && (
        <Part title={texts.propertiesChanged}>
          {properties.changed.map((each) => (
            <Changes key={each.key} title={each.key} changes={each.changes} />
          ))}
        </Part>
      )}
      {properties.isMoved && <p>{texts.propertiesMoved}</p>}
      {settings.length > 0 && (
        <Part title={texts.settings}>
          <Changes changes={settings.map((each) => ({ ...each, name: texts.names[each.name] ?? each.name }))} />
        </Part>
      )}
    </div>
  );
}

/** Summary in a few words: "2 nodes, 1 property". */
export function diffSummary({ nodes, properties, settings }: WorkflowDiff): string {
  const count = nodes.added.length + nodes.removed.length + nodes.changed.length;
  const ofProperties =
    properties.added.length + properties.removed.length + properties.changed.length + (properties.isMoved ? 1 : 0);
  const parts = [
    count > 0 && texts.count.nodes(count),
    ofProperties > 0 && texts.count.properties(ofProperties),
    settings.length > 0 && texts.count.settings(settings.length),
  ];
  return texts.summary(parts.filter((part) => part !== false));
}

function nodeName({ title, id }: NodeChange): string {
  return texts.node(title, id);
}

function Part({ title, children }: { title: string; children: ReactNode }) {
  return (
    <section className="grid gap-2">
      <h3 className="text-s font-[550] text-muted">{title}</h3>
      {children}
    </section>
  );
}

function Names({ title, names, sign }: { title: string; names: readonly string[]; sign: "+" | "−" }) {
  if (names.length === 0) return null;
  return (
    <Part title={title}>
      <ul className="grid gap-1">
        {names.map((name) => (
          <li key={name} className="flex gap-2 [overflow-wrap:anywhere]">
            <span aria-hidden className={sign === "+" ? "text-ok" : "text-bad"}>
              {sign}
            </span>
            {name}
          </li>
        ))}
      </ul>
    </Part>
  );
}

function Changes({ title, changes }: { title?: string; changes: readonly ValueChange[] }) {
  return (
    <div className="rounded-s border px-3 py-2.5">
      {title !== undefined && <p className="mb-1.5 font-[550] [overflow-wrap:anywhere]">{title}</p>}
      <dl className="grid gap-1.5 text-s">
        {changes.map((each) => (
          <div key={each.name} className="grid gap-x-3 sm:grid-cols-[minmax(7rem,12rem)_1fr]">
            <dt className="text-muted [overflow-wrap:anywhere]">{each.name}</dt>
            <dd className="[overflow-wrap:anywhere]">
              <Value value={each.before} className="text-muted line-through decoration-bad" />
              <span className="mx-2 text-muted" aria-hidden>
                →
              </span>
              <span className="sr-only"> {texts.becomes} </span>
              <Value value={each.after} className="text-ok" />
            </dd>
          </div>
        ))}
      </dl>
    </div>
  );
}

const MAX_LENGTH = 400;

function Value({ value, className }: { value: unknown; className: string }) {
  if (value === undefined || value === null || value === "")
    return <span className="text-muted italic">{texts.absent}</span>;
  const text = shownValue(value);
  return (
    <code className={`whitespace-pre-wrap ${className}`}>
      {text.length > MAX_LENGTH ? `${text.slice(0, MAX_LENGTH)}…` : text}
    </code>
  );
}
