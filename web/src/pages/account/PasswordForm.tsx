import { api } from "@/api/client";
import * as fields from "@/api/fields";
import { keys } from "@/api/keys";
import { Button } from "@/design";
import { FormField } from "@/parts/form/FormField";
import { useForm } from "@/parts/form/useForm";
import { notify } from "@/parts/notify";
import { Refusal } from "@/parts/Refusal";
import { useSave } from "@/parts/useAction";
import { securityTexts as texts } from "@/texts/account";

export function PasswordForm() {
  const form = useForm({
    saved: { current_password: "", new_password: "" },
    save: useSave({
      mutationFn: (body: { current_password: string; new_password: string }) => api.POST("/api/me/password", { body }),
      changes: [keys.sessions],
      onSuccess: () => notify(texts.changed),
    }),
    body: (values) => values,
  });
  const { current_password, new_password } = form.values;
  const isTooShort = new_password.length < fields.ChangePasswordRequest.new_password.minLength;
  return (
    <section>
      <h2>{texts.password}</h2>
      <p className="mb-4 text-muted">{texts.passwordText}</p>
      <form onSubmit={form.submit} className="panel grid max-w-md gap-4 p-5" noValidate>
        <FormField
          form={form}
          name="current_password"
          label={texts.current}
          type="password"
          autoComplete="current-password"
        />
        <FormField
          form={form}
          name="new_password"
          label={texts.next}
          hint={texts.nextHint}
          type="password"
          autoComplete="new-password"
        />
        <Refusal error={form.refusal} />
        <Button
          type="submit"
          busy={form.isBusy}
          disabled={!current_password || isTooShort}
          className="justify-self-start"
        >
          {texts.change}
        </Button>
      </form>
    </section>
  );
}
