import { useQuery } from "@tanstack/react-query";
import { Coins, Undo2 } from "lucide-react";
import { useState } from "react";
import { api, data } from "@/api/client";
import { keys } from "@/api/keys";
import type { Schemas, Wallet } from "@/api/types";
import { Button, Skeleton } from "@/design";
import { ConfirmDialog } from "@/parts/ConfirmDialog";
import { notifyDone } from "@/parts/notify";
import { useReason } from "@/parts/ProblemPanel";
import { Section } from "@/parts/Section";
import { useSave } from "@/parts/useAction";
import { useRole } from "@/parts/useRole";
import { OwnedWallet } from "@/parts/wallet/OwnedWallet";
import { type Movement, ownedWalletQuery, type WalletOwner } from "@/parts/wallet/owners";
import { otherPayer, payerOf } from "@/parts/wallet/payer";
import { TokensDialog } from "@/parts/wallet/TokensDialog";
import { creditTexts, debitTexts, payerTexts as texts } from "@/texts/wallets";

/** The wallet of a tenant, and whether its users pay from it. */
export function TenantWallet({ tenant }: { tenant: Schemas["Tenant"] }) {
  const owner: WalletOwner = { kind: "tenant", id: tenant.id, name: tenant.name, tenant: tenant.id };
  const [dialog, setDialog] = useState<"payer" | Movement | null>(null);
  const { mayOperate } = useRole();
  const read = useQuery(ownedWalletQuery(owner));
  const wallet = read.data;
  const reason = useReason(read);
  const close = () => setDialog(null);
  return (
    <div className="grid max-w-5xl grid-cols-[minmax(0,1fr)] gap-6">
      {/* The wallet below says why it could not be read. */}
      {(wallet || !reason) && (
        <Section
          title={texts.title}
          actions={
            mayOperate &&
            wallet && <Button onClick={() => setDialog("payer")}>{texts.change[otherPayer(payerOf(wallet))]}</Button>
          }
        >
          {wallet ? <p className="max-w-prose">{texts.now[payerOf(wallet)]}</p> : <Skeleton className="h-5 w-72" />}
        </Section>
      )}
      <OwnedWallet
        owner={owner}
        actions={
          mayOperate && (
            <>
              <Button icon={<Coins size={16} aria-hidden />} onClick={() => setDialog("credit")}>
                {creditTexts.sendNothing}
              </Button>
              <Button icon={<Undo2 size={16} aria-hidden />} onClick={() => setDialog("debit")}>
                {debitTexts.sendNothing}
              </Button>
            </>
          )
        }
      />
      {dialog === "payer" && wallet && <PayerDialog owner={owner} wallet={wallet} onClose={close} />}
      {(dialog === "credit" || dialog === "debit") && <TokensDialog owner={owner} kind={dialog} onClose={close} />}
    </div>
  );
}

function PayerDialog({ owner, wallet, onClose }: { owner: WalletOwner; wallet: Wallet; onClose: () => void }) {
  // The wallet is read again while the question is open, which must not turn it around.
  const [payer] = useState(otherPayer(payerOf(wallet)));
  const change = useSave({
    mutationFn: () =>
      data(
        api.PATCH("/api/admin/tenants/{tenant_id}/wallet", {
          params: { path: { tenant_id: owner.id } },
          body: { paid_by: payer },
        }),
      ),
    changes: [keys.ownedWallet("tenant", owner.id), keys.wallet],
    onSuccess: () => notifyDone(texts.done[payer]),
    onDone: onClose,
  });
  return (
    <ConfirmDialog
      title={texts.question[payer](owner.name)}
      text={texts.newJobs[payer]}
      action={texts.change[payer]}
      busy={change.isPending}
      error={change.error}
      onConfirm={() => change.mutate()}
      onClose={onClose}
    >
      <div className="grid gap-3 text-muted">
        <p>{texts.runningJobs}</p>
        <p>{texts.noMove}</p>
        {payer === "tenant" && wallet.balance === 0 && <p className="text-warn">{texts.nothingLeft}</p>}
      </div>
    </ConfirmDialog>
  );
}
