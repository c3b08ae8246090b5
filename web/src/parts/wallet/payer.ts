import type { Payer } from "@/api/types";

/** Whose wallet pays. While it is not known, the usual one. */
export function payerOf(wallet: { paid_by?: Payer } | undefined): Payer {
  return wallet?.paid_by ?? "user";
}

export function otherPayer(payer: Payer): Payer {
  return payer === "user" ? "tenant" : "user";
}
