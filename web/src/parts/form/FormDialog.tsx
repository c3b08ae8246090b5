import type { ReactNode } from "react";
import { Button, Dialog } from "@/design";
import { Refusal } from "@/parts/Refusal";
import type { Form } from "./useForm";

interface Props {
  form: Pick<Form<object>, "submit" | "forget" | "refusal" | "isBusy">;
  title: string;
  text?: ReactNode;
  wide?: boolean;
  /** Text of the button that sends the form. */
  action: ReactNode;
  disabled?: boolean;
  /** Text of the button that cancels. Without it, the button that sends has the whole width. */
  cancel?: string;
  /** A button between these two. */
  other?: ReactNode;
  /** The browser checks the fields, for example `min` and `required`. */
  isChecked?: boolean;
  onClose: () => void;
  children: ReactNode;
}

/** A dialog with one form. It shows the refusal that belongs to no field. */
export function FormDialog({
  form,
  title,
  text,
  wide,
  action,
  disabled,
  cancel,
  other,
  isChecked = false,
  onClose,
  children,
}: Props) {
  const send = (
    <Button type="submit" look="go" busy={form.isBusy} disabled={disabled}>
      {action}
    </Button>
  );
  return (
    <Dialog onClose={onClose} title={title} text={text} wide={wide}>
      <form
        onSubmit={form.submit}
        onChange={form.forget}
        noValidate={!isChecked}
        className="grid grid-cols-[minmax(0,1fr)] gap-4"
      >
        {children}
        <Refusal error={form.refusal} />
        {cancel ? (
          <div className="flex flex-wrap justify-end gap-2">
            <Button onClick={onClose}>{cancel}</Button>
            {other}
            {send}
          </div>
        ) : (
          send
        )}
      </form>
    </Dialog>
  );
}
