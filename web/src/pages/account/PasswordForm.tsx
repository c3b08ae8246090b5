import { useMutation, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { api } from "@/api/client";
import { keys } from "@/api/keys";
import { explain, fieldReason } from "@/api/problems";
import { Button, Field, Input } from "@/design";
import { notify } from "@/parts/notify";
import { securityTexts } from "@/texts/account";

const MIN_LENGTH = 10;

export function PasswordForm() {
  const [current, setCurrent] = useState("");
  const [next, setNext] = useState("");
  const client = useQueryClient();
  const change = useMutation({
    mutationFn: () => api.POST("/api/me/password", { body: { current_password: current, new_password: next } }),
    onSuccess: () => {
      setCurrent("");
      setNext("");
      void notify(securityTexts.changed);
      void client.invalidateQueries({ queryKey: keys.sessions });
    },
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    change.mutate();
  };
  const nextReason = fieldReason(change.error, "new_password");
  const reason =
    fieldReason(change.error, "current_password") ?? (change.error && !nextReason ? explain(change.error) : null);
  return (
    <section>
      <h2>{securityTexts.password}</h2>
      <p className="mb-4 text-muted">{securityTexts.passwordText}</p>
      <form onSubmit={submit} className="panel grid max-w-md gap-4 p-5" noValidate>
        <Field label={securityTexts.current} error={reason}>
          <Input
            type="password"
            autoComplete="current-password"
            value={current}
            onChange={(event) => setCurrent(event.target.value)}
          />
        </Field>
        <Field label={securityTexts.next} hint={securityTexts.nextHint} error={nextReason}>
          <Input
            type="password"
            autoComplete="new-password"
            value={next}
            onChange={(event) => setNext(event.target.value)}
          />
        </Field>
        <Button
          type="submit"
          busy={change.isPending}
          disabled={!current || next.length < MIN_LENGTH}
          className="justify-self-start"
        >
          {securityTexts.change}
        </Button>
      </form>
    </section>
  );
}
