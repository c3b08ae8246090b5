import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useRef, useState } from "react";
import { api, data } from "@/api/client";
import { IdempotencyKey } from "@/api/idempotency";
import { keys } from "@/api/keys";
import { explain, fieldReason } from "@/api/problems";
import type { Schemas } from "@/api/types";
import { Button, Dialog, Field, formatTokens, Input } from "@/design";
import { notifyDone } from "@/parts/notify";
import { creditTexts as texts } from "@/texts/users";
import { amountOf } from "./amounts";
import { userWalletQuery } from "./queries";

/** One user action is one credit, however often the request is sent: see IdempotencyKey. */
export function CreditDialog({ user, onClose }: { user: Schemas["User"]; onClose: () => void }) {
  const [typed, setTyped] = useState("");
  const [reason, setReason] = useState("");
  const wallet = useQuery(userWalletQuery(user.id));
  const credit = useCredit(user, onClose);
  const isSent = useRef(false);
  const amount = amountOf(typed);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    // A second click can come before the busy button is drawn.
    if (amount === null || isSent.current) return;
    isSent.current = true;
    credit.mutate({ amount, reason: reason.trim() }, { onError: () => (isSent.current = false) });
  };
  const amountReason =
    fieldReason(credit.error, "amount") ?? (typed.trim() !== "" && amount === null ? texts.amountProblem : null);
  const reasonReason = fieldReason(credit.error, "reason");
  const balance = wallet.data?.balance;
  return (
    <Dialog open onOpenChange={(open) => !open && onClose()} title={texts.title(user.email)}>
      <form onSubmit={submit} className="grid gap-4" noValidate>
        <Field label={texts.amount} error={amountReason}>
          <Input
            inputMode="numeric"
            autoComplete="off"
            value={typed}
            autoFocus
            maxLength={20}
            onChange={(event) => setTyped(event.target.value)}
          />
        </Field>
        <Field label={texts.reason} hint={texts.reasonHint} error={reasonReason}>
          <Input
            value={reason}
            autoComplete="off"
            maxLength={200}
            onChange={(event) => setReason(event.target.value)}
          />
        </Field>
        {balance !== undefined && (
          <dl className="num grid grid-cols-[1fr_auto] gap-y-1 rounded-s border bg-bg px-4 py-3">
            <dt className="text-muted">{texts.now}</dt>
            <dd className="text-right">{formatTokens(balance)}</dd>
            <dt className="text-muted">{texts.after}</dt>
            <dd className="text-right font-[550]">{formatTokens(balance + (amount ?? 0))}</dd>
          </dl>
        )}
        {credit.error && !amountReason && !reasonReason && (
          <p role="alert" className="text-s text-bad">
            {explain(credit.error)}
          </p>
        )}
        <Button type="submit" look="go" busy={credit.isPending} disabled={amount === null || !reason.trim()}>
          {amount === null ? texts.addNothing : texts.add(formatTokens(amount))}
        </Button>
      </form>
    </Dialog>
  );
}

function useCredit(user: Schemas["User"], onDone: () => void) {
  const client = useQueryClient();
  const idempotencyKey = useRef(new IdempotencyKey());
  return useMutation({
    mutationFn: (body: { amount: number; reason: string }) =>
      data(
        api.POST("/api/admin/users/{user_id}/credits", {
          params: { path: { user_id: user.id }, header: { "idempotency-key": idempotencyKey.current.of(body) } },
          body,
        }),
      ),
    onSuccess: async ({ balance, replayed }) => {
      void notifyDone((replayed ? texts.replayed : texts.done)(formatTokens(balance)));
      onDone();
      await client.invalidateQueries({ queryKey: keys.userWallet(user.id) });
      await client.invalidateQueries({ queryKey: keys.wallet });
    },
    // The dialog closes after a success and its key with it, so a later click cannot send it again.
    onError: (error) => idempotencyKey.current.settle(error),
  });
}
