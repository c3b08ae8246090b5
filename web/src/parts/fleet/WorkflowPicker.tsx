import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { Schemas } from "@/api/types";
import { Badge, Checkbox, Input } from "@/design";
import { Pending } from "@/parts/Pending";
import { Refusal } from "@/parts/Refusal";
import { assignableWorkflowsQuery } from "@/parts/workflow/queries";
import { fleetsTexts as texts } from "@/texts/fleets";

interface Props {
  value: readonly string[];
  onChange: (slugs: string[]) => void;
  error?: string | null;
}

type Choice = Pick<Schemas["WorkflowSummary"], "slug" | "name" | "is_active">;

// A shorter list needs no search.
const MANY = 5;

/** Choice of the workflows for the workers of a fleet. */
export function WorkflowPicker({ value, onChange, error }: Props) {
  const workflows = useQuery(assignableWorkflowsQuery);
  const [words, setWords] = useState("");
  const chosen = new Set(value);
  // Workflows of tasks are assigned to fleets but are not in the catalog.
  const [assigned] = useState(value);
  const all: Choice[] = workflows.data ? [...workflows.data, ...others(assigned, workflows.data)] : [];
  const found = all.filter((each) => `${each.slug} ${each.name}`.toLowerCase().includes(words.trim().toLowerCase()));
  const toggle = (slug: string) =>
    onChange(chosen.has(slug) ? value.filter((each) => each !== slug) : [...value, slug]);
  return (
    <fieldset className="grid min-w-0 gap-2">
      <legend className="mb-1.5 text-s font-[550]">{texts.workflows}</legend>
      {all.length > MANY && (
        <Input
          type="search"
          value={words}
          maxLength={200}
          aria-label={texts.searchWorkflows}
          placeholder={texts.searchWorkflows}
          onChange={(event) => setWords(event.target.value)}
        />
      )}
      {!workflows.data ? (
        <Pending query={workflows} className="h-24" />
      ) : found.length === 0 ? (
        <p className="text-s text-muted">{all.length === 0 ? texts.noWorkflows : texts.noneFound}</p>
      ) : (
        <div className="max-h-56 overflow-y-auto rounded-s border">
          {found.map((each) => (
            <label
              key={each.slug}
              className="flex min-h-9 touch:min-h-11 cursor-pointer items-center gap-3 px-3 py-1.5 hover:bg-hover"
            >
              <Checkbox checked={chosen.has(each.slug)} onChange={() => toggle(each.slug)} />
              <span className="min-w-0 grow [overflow-wrap:anywhere]">{each.slug}</span>
              {!each.is_active && <Badge>{texts.inactive}</Badge>}
            </label>
          ))}
        </div>
      )}
      <Refusal error={error} />
    </fieldset>
  );
}

function others(assigned: readonly string[], known: readonly Choice[]): Choice[] {
  return assigned
    .filter((slug) => known.every((each) => each.slug !== slug))
    .map((slug) => ({ slug, name: slug, is_active: true }));
}
