import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { explain, fieldReason } from "@/api/problems";
import { Button, Dialog, Field, Select, Switch } from "@/design";
import { shareTexts } from "@/texts/share";
import { NewLink } from "./share/NewLink";
import { ShareLinks } from "./share/ShareLinks";
import { shareLinksQuery, useCreateLink } from "./share/shares";

interface Props {
  jobId: string;
  /** Whether there is an input to compare the result with. */
  hasInput: boolean;
  hasPrompt: boolean;
  onClose: () => void;
}
type Days = keyof typeof shareTexts.days;
const DAYS = Object.entries(shareTexts.days).map(([value, label]) => ({ value: value as Days, label }));

/** Creates, lists and revokes public links to a result. */
export function ShareDialog({ jobId, hasInput, hasPrompt, onClose }: Props) {
  const [days, setDays] = useState<Days>("30");
  const [showsInput, setShowsInput] = useState(true);
  const [showsPrompt, setShowsPrompt] = useState(false);
  const links = useQuery(shareLinksQuery(jobId));
  const create = useCreateLink(jobId);
  const submit = () =>
    create.mutate({ expires_in_days: Number(days), show_input: showsInput, show_prompt: showsPrompt });
  const lifeReason = fieldReason(create.error, "expires_in_days");
  return (
    <Dialog onClose={onClose} title={shareTexts.title} text={shareTexts.text}>
      {create.data ? (
        <NewLink url={create.data.url} onAnother={create.reset} />
      ) : (
        <div className="grid gap-4">
          <Field label={shareTexts.ends} error={lifeReason}>
            <Select value={days} choices={DAYS} onChange={setDays} />
          </Field>
          {hasInput && (
            <Option
              label={shareTexts.showInput}
              hint={shareTexts.showInputHint}
              isOn={showsInput}
              onChange={setShowsInput}
            />
          )}
          {hasPrompt && <Option label={shareTexts.showPrompt} isOn={showsPrompt} onChange={setShowsPrompt} />}
          {create.error && !lifeReason && (
            <p role="alert" className="text-s text-bad">
              {explain(create.error)}
            </p>
          )}
          <Button look="go" busy={create.isPending} onClick={submit}>
            {shareTexts.create}
          </Button>
        </div>
      )}
      {links.data && links.data.length > 0 && <ShareLinks jobId={jobId} links={links.data} />}
    </Dialog>
  );
}

function Option({
  label,
  hint,
  isOn,
  onChange,
}: {
  label: string;
  hint?: string;
  isOn: boolean;
  onChange: (isOn: boolean) => void;
}) {
  return (
    <div className="flex items-center justify-between gap-4">
      <div>
        <div className="text-s font-[550]">{label}</div>
        {hint && <div className="text-s text-muted">{hint}</div>}
      </div>
      <Switch checked={isOn} onChange={onChange} label={label} />
    </div>
  );
}
