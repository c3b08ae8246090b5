import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { api, data } from "@/api/client";
import { explain } from "@/api/problems";
import { Button } from "@/design/Button";
import { signInTexts } from "@/texts/sign-in";

/**
 * Requests a link for a new password. The response is the same for every e-mail address, with an account or without.
 */
export function ForgotPassword({ email }: { email: string }) {
  const ask = useMutation({ mutationFn: () => data(api.POST("/api/password-resets", { body: { email } })) });
  const [wasEmpty, setWasEmpty] = useState(false);
  const message = !email && wasEmpty ? signInTexts.emailFirst : ask.error ? explain(ask.error) : ask.data?.message;
  return (
    <div className="grid justify-items-start gap-1">
      <Button
        look="quiet"
        size="s"
        className="-ml-2.5"
        busy={ask.isPending}
        onClick={() => (email ? ask.mutate() : setWasEmpty(true))}
      >
        {signInTexts.forgot}
      </Button>
      <p role="status" className="text-s text-muted">
        {message}
      </p>
    </div>
  );
}
