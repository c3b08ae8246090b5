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
  const request = useMutation({ mutationFn: () => data(api.POST("/api/password-resets", { body: { email } })) });
  const [wasEmpty, setWasEmpty] = useState(false);
  const message =
    !email && wasEmpty ? signInTexts.emailFirst : request.error ? explain(request.error) : request.data?.message;
  return (
    <div className="grid justify-items-start gap-1">
      <Button
        look="quiet"
        size="s"
        className="-ml-2.5"
        busy={request.isPending}
        onClick={() => (email ? request.mutate() : setWasEmpty(true))}
      >
        {signInTexts.forgot}
      </Button>
      <p role="status" className="text-s text-muted">
        {message}
      </p>
    </div>
  );
}
