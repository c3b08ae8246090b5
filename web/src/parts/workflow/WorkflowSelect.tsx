import { useQuery } from "@tanstack/react-query";
import { Select } from "@/design";
import { workflowChoicesQuery } from "./queries";

interface Props {
  /** Slug of the workflow; empty if none is chosen. */
  value: string;
  disabled?: boolean;
  onChange: (slug: string) => void;
}

/** Choice of one workflow of the catalog. A workflow that is no longer there stays a choice. */
export function WorkflowSelect({ value, disabled, onChange }: Props) {
  const { data: workflows = [] } = useQuery(workflowChoicesQuery);
  const known = workflows.map(({ slug, name }) => ({ value: slug, label: name === slug ? slug : `${name} (${slug})` }));
  const isKnown = value === "" || known.some((each) => each.value === value);
  const choices = isKnown ? known : [{ value, label: value }, ...known];
  return <Select value={value} disabled={disabled} choices={choices} onChange={onChange} />;
}
