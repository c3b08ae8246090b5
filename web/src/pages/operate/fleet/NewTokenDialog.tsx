import { Button, CopyButton, Dialog } from "@/design";
import { FormDialog } from "@/parts/form/FormDialog";
import { FormField } from "@/parts/form/FormField";
import { useForm } from "@/parts/form/useForm";
import { fleetTexts } from "@/texts/fleets";
import { useCreateToken } from "./useTokens";

const texts = fleetTexts.tokens;

export function NewTokenDialog({ fleetId, onClose }: { fleetId: number; onClose: () => void }) {
  const create = useCreateToken(fleetId);
  const form = useForm({ saved: { name: "" }, save: create, body: ({ name }) => name.trim() });
  if (create.data) return <ShownToken token={create.data.token} onClose={onClose} />;
  return (
    <FormDialog form={form} title={texts.createTitle} action={texts.create} onClose={onClose}>
      <FormField form={form} name="name" label={texts.name} hint={texts.nameHint} maxLength={200} autoFocus />
    </FormDialog>
  );
}

/** Shows the token once, with the command that uses it. */
export function ShownToken({ token, onClose }: { token: string; onClose: () => void }) {
  const command = `FLEET_SECRET=${token} callsheet worker --url ${window.location.origin}`;
  return (
    <Dialog
      onClose={onClose}
      title={texts.shown}
      text={texts.shownText}
      wide
      actions={<Button onClick={onClose}>{texts.done}</Button>}
    >
      <div className="grid gap-3">
        <Line text={token} label={texts.copyToken} />
        <Line text={command} label={texts.copyCommand} />
      </div>
    </Dialog>
  );
}

function Line({ text, label }: { text: string; label: string }) {
  return (
    <div className="flex items-center gap-2 rounded-s border bg-bg p-3">
      <code className="min-w-0 grow break-all">{text}</code>
      <CopyButton text={text} label={label} />
    </div>
  );
}
