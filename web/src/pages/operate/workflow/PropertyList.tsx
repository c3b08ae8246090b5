import { ListPlus } from "lucide-react";
import { useState } from "react";
import { fieldReason } from "@/api/problems";
import { Empty } from "@/design";
import { changedProperty, type Draft, movedProperty, withoutProperty } from "@/parts/workflow/draft";
import { workflowsTexts } from "@/texts/workflows";
import { PropertyCard } from "./PropertyCard";

interface Props {
  draft: Draft;
  /** null for users who cannot edit. */
  change: ((update: (draft: Draft) => Draft) => void) | null;
  refused: unknown;
}

export function PropertyList({ draft, change, refused }: Props) {
  // The index is the React key, because a property's key changes while the user types.
  const [open, setOpen] = useState<number | null>(null);
  const problem = fieldReason(refused, "properties");
  return (
    <section>
      <h2>{workflowsTexts.properties}</h2>
      <p className="mt-0.5 mb-3 text-s text-muted">{workflowsTexts.propertiesText}</p>
      {problem && (
        <p role="alert" className="mb-3 text-s text-bad">
          {problem}
        </p>
      )}
      {draft.properties.length === 0 ? (
        <div className="panel">
          <Empty
            icon={<ListPlus size={20} />}
            title={workflowsTexts.noPropertiesYet}
            text={change ? workflowsTexts.noPropertiesYetText : undefined}
          />
        </div>
      ) : (
        <ol className="grid gap-2">
          {draft.properties.map((property, index) => (
            <PropertyCard
              key={index}
              property={property}
              index={index}
              count={draft.properties.length}
              graph={draft.graph}
              isOpen={open === index}
              onToggle={() => setOpen(open === index ? null : index)}
              refused={refused}
              actions={
                change && {
                  change: (values) => change((now) => changedProperty(now, index, values)),
                  move: (by) => {
                    change((now) => movedProperty(now, index, by));
                    setOpen(open === index ? index + by : null);
                  },
                  remove: () => {
                    change((now) => withoutProperty(now, index));
                    setOpen(null);
                  },
                }
              }
            />
          ))}
        </ol>
      )}
    </section>
  );
}
