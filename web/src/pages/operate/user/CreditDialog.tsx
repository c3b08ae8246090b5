import { useQuery } from "@tanstack/react-query";
import { useRef } from "react";
import { api, data } from "@/api/client";
import { IdempotencyKey } from "@/api/idempotency";
import { keys } from "@/api/keys";
import type { Schemas } from "@/api/types";
import { formatTokens } from "@/design";
import { FormDialog } from "@/parts/form/FormDialog";
import { FormField } from "@/parts/form/FormField";
import { useForm } from "@/parts/form/useForm";
import { notifyDone } from "@/parts/notify";
import { useSave } from "@/parts/useAction";
import { creditTexts as texts } from "@/texts/users";
import { amountOf } from "./amounts";
import { userWalletQuery } from "./queries";

/** One user action is one credit, however often the request is sent: see IdempotencyKey. */
export function CreditDialog({ user, onClose }: { user: Schemas["User"]; onClose: () => void }) {
  const wallet = useQuery(userWalletQuery(user.id));
  const form = useForm({
    saved: { amount: "", reason: "" },
    save: useCredit(user, onClose),
    body: ({ amount, reason }) => ({ amount: amountOf(amount) ?? 0, reason: reason.trim() }),
    check: (values) => ({
      amount: values.amount.trim() !== "" && amountOf(values.amount) === null && texts.amountProblem,
    }),
  });
  const amount = amountOf(form.values.amount);
  const balance = wallet.data?.balance;
  return (
    <FormDialog
      form={form}
      title={texts.title(user.email)}
      action={amount === null ? texts.addNothing : texts.add(formatTokens(amount))}
      disabled={amount === null || !form.values.reason.trim()}
      onClose={onClose}
    >
      <FormField
        form={form}
        name="amount"
        label={texts.amount}
        inputMode="numeric"
        autoComplete="off"
        autoFocus
        maxLength={20}
      />
      <FormField
        form={form}
        name="reason"
        label={texts.reason}
        hint={texts.reasonHint}
        autoComplete="off"
        maxLength={200}
      />
      {balance !== undefined && (
        <dl className="num grid grid-cols-[1fr_auto] gap-y-1 rounded-s border bg-bg px-4 py-3">
          <dt className="text-muted">{texts.now}</dt>
          <dd className="text-right">{formatTokens(balance)}</dd>
          <dt className="text-muted">{texts.after}</dt>
          <dd className="text-right font-[550]">{formatTokens(balance + (amount ?? 0))}</dd>
        </dl>
      )}
    </FormDialog>
  );
}

function useCredit(user: Schemas["User"], onDone: () => void) {
  const idempotencyKey = useRef(new IdempotencyKey());
  return useSave({
    mutationFn: (body: { amount: number; reason: string }) =>
      data(
        api.POST("/api/admin/users/{user_id}/credits", {
          params: { path: { user_id: user.id }, header: { "idempotency-key": idempotencyKey.current.of(body) } },
          body,
        }),
      ),
    changes: [keys.userWallet(user.id), keys.wallet],
    onSuccess: ({ balance, replayed }) => {
      void notifyDone((replayed ? texts.replayed : texts.done)(formatTokens(balance)));
      onDone();
    },
    // The dialog closes after a success and its key with it, so a later click cannot send it again.
    onError: (error) => idempotencyKey.current.settle(error),
  });
}
