import { useState } from "react";
import { type Choice, Select } from "@/design";
import { type AllJobsSearch, startOf } from "@/parts/job/all-jobs-filters";
import { SPANS, type Span } from "@/parts/job/statuses";
import { allJobsTexts } from "@/texts/all-jobs";
import { rangeWords } from "./filter-words";
import { RangeDialog } from "./RangeDialog";

type Times = Pick<AllJobsSearch, "from" | "until">;
type Value = "unset" | "range" | "custom" | Span;

interface Props {
  search: AllJobsSearch;
  /** Text of the button without times. */
  unset: string;
  onChange: (times: Times) => void;
  className?: string;
}

/** "Last hour" becomes the start time of this hour, so a link to the page keeps showing these jobs. */
export function TimeRange({ search, unset, onChange, className }: Props) {
  const [isChoosing, setChoosing] = useState(false);
  const words = rangeWords(search.from, search.until);
  const choices: Choice<Value>[] = [
    { value: "unset", label: unset },
    ...SPANS.map((value) => ({ value, label: allJobsTexts.spans[value] })),
    { value: "custom", label: allJobsTexts.customRange },
    ...(words ? [{ value: "range" as const, label: words }] : []),
  ];
  const choose = (value: Value) => {
    if (value === "custom") setChoosing(true);
    else if (value === "unset") onChange({ from: undefined, until: undefined });
    else if (value !== "range") onChange({ from: startOf(value, new Date()), until: undefined });
  };
  return (
    <>
      <Select
        label={allJobsTexts.timeLabel}
        className={className}
        value={words ? "range" : "unset"}
        choices={choices}
        onChange={choose}
      />
      {isChoosing && <RangeDialog {...search} onApply={onChange} onClose={() => setChoosing(false)} />}
    </>
  );
}
