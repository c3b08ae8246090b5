import { useQuery } from "@tanstack/react-query";
import * as fields from "@/api/fields";
import { Button, Dialog, Field, Select, Switch } from "@/design";
import { useForm } from "@/parts/form/useForm";
import { Refusal } from "@/parts/Refusal";
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
  const links = useQuery(shareLinksQuery(jobId));
  const create = useCreateLink(jobId);
  const form = useForm({
    saved: {
      expires_in_days: "30" as Days,
      show_input: fields.CreateShareLink.show_input.default,
      show_prompt: fields.CreateShareLink.show_prompt.default,
    },
    save: create,
    body: (values) => ({ ...values, expires_in_days: Number(values.expires_in_days) }),
  });
  const { expires_in_days, show_input, show_prompt } = form.values;
  return (
    <Dialog onClose={onClose} title={shareTexts.title} text={shareTexts.text}>
      {create.data ? (
        <NewLink url={create.data.url} onAnother={create.reset} />
      ) : (
        <form onSubmit={form.submit} className="grid gap-4">
          <Field label={shareTexts.ends} error={form.reasonOf("expires_in_days")}>
            <Select value={expires_in_days} choices={DAYS} onChange={(days) => form.set({ expires_in_days: days })} />
          </Field>
          {hasInput && (
            <Option
              label={shareTexts.showInput}
              hint={shareTexts.showInputHint}
              isOn={show_input}
              onChange={(isOn) => form.set({ show_input: isOn })}
            />
          )}
          {hasPrompt && (
            <Option
              label={shareTexts.showPrompt}
              isOn={show_prompt}
              onChange={(isOn) => form.set({ show_prompt: isOn })}
            />
          )}
          <Refusal error={form.refusal} />
          <Button type="submit" look="go" busy={form.isBusy}>
            {shareTexts.create}
          </Button>
        </form>
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
