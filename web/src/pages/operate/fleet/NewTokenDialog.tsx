import { type FormEvent, useState } from "react";
import { explain, fieldReason } from "@/api/problems";
import { Button, CopyButton, Dialog, Field, Input } from "@/design";
import { fleetTexts } from "@/texts/fleets";
import { useCreateToken } from "./useTokens";

const texts = fleetTexts.tokens;

export function NewTokenDialog({ fleetId, onClose }: { fleetId: number; onClose: () => void }) {
  const [name, setName] = useState("");
  const create = useCreateToken(fleetId);
  if (create.data) return <ShownToken token={create.data.token} onClose={onClose} />;
  const reason = fieldReason(create.error, "name");
  const submit = (event: FormEvent) => {
    event.preventDefault();
    create.mutate(name.trim());
  };
  return (
    <Dialog open onOpenChange={(open) => !open && onClose()} title={texts.createTitle}>
      <form onSubmit={submit} className="grid gap-4" noValidate>
        <Field label={texts.name} hint={texts.nameHint} error={reason}>
          <Input value={name} maxLength={200} autoFocus onChange={(event) => setName(event.target.value)} />
        </Field>
        {create.error && !reason && (
          <p role="alert" className="text-s text-bad">
            {explain(create.error)}
          </p>
        )}
        <Button type="submit" look="go" busy={create.isPending}>
          {texts.create}
        </Button>
      </form>
    </Dialog>
  );
}

/** Shows the token once, with the command that uses it. */
export function ShownToken({ token, onClose }: { token: string; onClose: () => void }) {
  const command = `FLEET_SECRET=${token} callsheet worker --url ${window.location.origin}`;
  return (
    <Dialog
      open
      onOpenChange={(open) => !open && onClose()}
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
