import type { Schemas } from "@/api/types";
import { Section } from "@/parts/Section";
import { workerTexts } from "@/texts/workers";

/** Assigned workflows that the worker cannot run, and what its engines lack. */
export function CannotRun({ workflows }: { workflows: readonly Schemas["CannotRun"][] }) {
  return (
    <Section title={workerTexts.cannotRun}>
      <ul className="panel divide-y">
        {workflows.map((each) => (
          <li key={each.workflow} className="px-5 py-3">
            <span className="font-[550]">{each.workflow}</span>
            <p className="text-s text-muted [overflow-wrap:anywhere]">
              {each.lacks.map((lack) => `${lack.kind} ${lack.name}`).join(", ")}
            </p>
          </li>
        ))}
      </ul>
    </Section>
  );
}
