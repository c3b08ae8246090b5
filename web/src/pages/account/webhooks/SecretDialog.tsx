import { Button, Dialog } from "@/design";
import { OneTimeText } from "@/parts/OneTimeText";
import { webhookTexts as texts } from "@/texts/webhooks";

/** A new secret, which the control plane shows only once. */
export function SecretDialog({
  title,
  text,
  secret,
  onClose,
}: {
  title: string;
  text: string;
  secret: string;
  onClose: () => void;
}) {
  return (
    <Dialog onClose={onClose} title={title} text={text} wide actions={<Button onClick={onClose}>{texts.done}</Button>}>
      <OneTimeText label={texts.secret} text={secret} />
    </Dialog>
  );
}
