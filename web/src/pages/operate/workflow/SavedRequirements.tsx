import type { Schemas } from "@/api/types";
import { requirementsTexts as texts } from "@/texts/requirements";

/** All requirements of the saved workflow: names in the graph, and added ones. */
export function SavedRequirements({ required }: { required: Schemas["Required"] }) {
  const rows = [
    [texts.nodeClassList, (required.node_classes ?? []).join(", ") || texts.nothing],
    [
      texts.modelList,
      (required.models ?? [])
        .map((each) => (each.sha256 ? `${each.name} (${texts.withHash})` : each.name))
        .join(", ") || texts.nothing,
    ],
    [texts.version, required.engine_version ?? texts.anyVersion],
  ];
  return (
    <section className="panel p-4 sm:p-5">
      <h2>{texts.saved}</h2>
      <dl className="mt-3 grid gap-3 text-s">
        {rows.map(([name, value]) => (
          <div key={name}>
            <dt className="text-muted">{name}</dt>
            <dd className="[overflow-wrap:anywhere]">{value}</dd>
          </div>
        ))}
      </dl>
    </section>
  );
}
