import { type FormEvent, useState } from "react";
import { Button, Dialog, Field, Input } from "@/design";
import { startOf } from "@/parts/job/all-jobs-filters";
import { localOf, utcOf } from "@/parts/local-times";
import { allJobsTexts as texts } from "@/texts/all-jobs";

interface Props {
  from?: string;
  until?: string;
  onApply: (times: { from: string | undefined; until: string | undefined }) => void;
  onClose: () => void;
}

export function RangeDialog({ from, until, onApply, onClose }: Props) {
  const [start, setStart] = useState(() => localOf(from ?? startOf("hour", new Date())));
  const [end, setEnd] = useState(() => localOf(until));
  const isWrong = start !== "" && end !== "" && end <= start;
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (isWrong) return;
    onApply({ from: utcOf(start), until: utcOf(end) });
    onClose();
  };
  return (
    <Dialog onClose={onClose} title={texts.rangeTitle} text={texts.rangeText}>
      <form onSubmit={submit} className="grid gap-4">
        <Field label={texts.from}>
          <Input type="datetime-local" value={start} onChange={(event) => setStart(event.target.value)} />
        </Field>
        <Field label={texts.until} hint={texts.untilHint} error={isWrong ? texts.untilWrong : null}>
          <Input type="datetime-local" value={end} onChange={(event) => setEnd(event.target.value)} />
        </Field>
        <div className="flex flex-wrap justify-end gap-2">
          <Button onClick={onClose}>{texts.keepRange}</Button>
          <Button look="go" type="submit" disabled={isWrong}>
            {texts.applyRange}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
