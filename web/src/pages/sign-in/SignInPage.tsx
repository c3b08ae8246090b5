import { useQuery } from "@tanstack/react-query";
import { useSearch } from "@tanstack/react-router";
import { type FormEvent, useState } from "react";
import { explain } from "@/api/problems";
import { Button, Field, Input } from "@/design";
import icon from "@/icon.svg";
import { useTitle } from "@/parts/useTitle";
import { formTexts } from "@/texts/form";
import { frameTexts } from "@/texts/frame";
import { signInTexts } from "@/texts/sign-in";
import { DemoEntry } from "./DemoEntry";
import { ForgotPassword } from "./ForgotPassword";
import { offeredQuery } from "./queries";
import { useSignIn } from "./useSignIn";

export function SignInPage() {
  useTitle(signInTexts.title);
  const { ended, used } = useSearch({ from: "/sign-in" });
  const [email, setEmail] = useState("");
  const [password, setPassword] = useState("");
  const [isChecked, setChecked] = useState(false);
  const missing = (value: string) => (isChecked && !value ? formTexts.required : null);
  const { data: offered } = useQuery(offeredQuery);
  const signIn = useSignIn();
  const submit = (event: FormEvent) => {
    event.preventDefault();
    setChecked(true);
    if (email && password) signIn.mutate({ email, password });
  };
  return (
    <main className="grid min-h-dvh content-center px-4 py-10">
      <div className="appear mx-auto w-full max-w-sm">
        <div className="mb-6 flex items-center gap-3">
          <img src={icon} alt="" width={36} height={36} />
          <span className="text-xl font-[650] tracking-tight">{frameTexts.product}</span>
        </div>
        <form onSubmit={submit} className="panel grid gap-4 p-6" noValidate>
          <div>
            <h1 className="text-xl">{signInTexts.title}</h1>
            <p className="mt-1 text-muted">
              {ended ? signInTexts.sessionEnded : used ? signInTexts.linkUsed : signInTexts.text}
            </p>
          </div>
          {offered && <DemoEntry email={offered} />}
          <Field label={signInTexts.email} error={missing(email)}>
            <Input
              type="email"
              name="email"
              autoComplete="username"
              autoFocus={!offered}
              required
              value={email}
              onChange={(event) => setEmail(event.target.value)}
            />
          </Field>
          <Field
            label={signInTexts.password}
            error={missing(password) ?? (signIn.error ? explain(signIn.error) : null)}
          >
            <Input
              type="password"
              name="password"
              autoComplete="current-password"
              required
              value={password}
              onChange={(event) => setPassword(event.target.value)}
            />
          </Field>
          <Button type="submit" look={offered ? "plain" : "go"} busy={signIn.isPending}>
            {signInTexts.submit}
          </Button>
        </form>
        <div className="mt-4 grid gap-2">
          <ForgotPassword email={email} />
          <p className="text-s text-muted">{signInTexts.noAccount}</p>
        </div>
      </div>
    </main>
  );
}
