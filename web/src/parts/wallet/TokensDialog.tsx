import { useQuery } from "@tanstack/react-query";
import { useRef } from "react";
import { IdempotencyKey } from "@/api/idempotency";
import { keys } from "@/api/keys";
import { formatTokens } from "@/design";
import { FormDialog } from "@/parts/form/FormDialog";
import { FormField } from "@/parts/form/FormField";
import { useForm } from "@/parts/form/useForm";
import { notifyDone } from "@/parts/notify";
import { useSave } from "@/parts/useAction";
import { creditTexts, debitTexts, amountTexts as texts } from "@/texts/wallets";
import { amountOf, amountProblem, balanceAfter } from "./amounts";
import { type Movement, moveTokens, ownedWalletQuery, type WalletOwner } from "./owners";

const TEXTS = { credit: creditTexts, debit: debitTexts } as const;

interface Props {
  owner: WalletOwner;
  kind: Movement;
  onClose: () => void;
}

/** One user action moves tokens once, however often the request is sent: see IdempotencyKey. */
export function TokensDialog({ owner, kind, onClose }: Props) {
  const wallet = useQuery(ownedWalletQuery(owner));
  const balance = wallet.data?.balance;
  const form = useForm({
    saved: { amount: "", reason: "" },
    save: useMovement(owner, kind, onClose),
    body: ({ amount, reason }) => ({ amount: amountOf(amount) ?? 0, reason: reason.trim() }),
    check: (values) => ({ amount: amountProblem(values.amount, balance, kind) }),
  });
  const amount = amountOf(form.values.amount);
  const own = TEXTS[kind];
  return (
    <FormDialog
      form={form}
      title={own.title(owner.name)}
      action={amount === null ? own.sendNothing : own.send(formatTokens(amount))}
      disabled={amount === null || !form.isValid || !form.values.reason.trim()}
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
        hint={own.reasonHint}
        autoComplete="off"
        maxLength={200}
      />
      {balance !== undefined && (
        <dl className="num grid grid-cols-[1fr_auto] gap-y-1 rounded-s border bg-bg px-4 py-3">
          <dt className="text-muted">{texts.now}</dt>
          <dd className="text-right">{formatTokens(balance)}</dd>
          <dt className="text-muted">{texts.after}</dt>
          <dd className="text-right font-[550]">
            {formatTokens(form.isValid ? balanceAfter(balance, amount, kind) : balance)}
          </dd>
        </dl>
      )}
    </FormDialog>
  );
}

function useMovement(owner: WalletOwner, kind: Movement, onDone: () => void) {
  const idempotencyKey = useRef(new IdempotencyKey());
  return useSave({
    mutationFn: (body: { amount: number; reason: string }) =>
      moveTokens(owner, kind, body, idempotencyKey.current.of(body)),
    changes: [keys.ownedWallet(owner.kind, owner.id), keys.allTenantFigures, keys.wallet],
    onSuccess: ({ balance, replayed }) => {
      void notifyDone(TEXTS[kind][replayed ? "replayed" : "done"](formatTokens(balance)));
      onDone();
    },
    // The dialog closes after a success and its key with it, so a later click cannot send it again.
    onError: (error) => idempotencyKey.current.settle(error),
  });
}
