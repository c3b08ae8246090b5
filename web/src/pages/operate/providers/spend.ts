import type { ProviderSpending } from "./queries";

/** Whether the price of a call is known for any provider. Without one there is no column of costs. */
export function hasPrices(spend: ProviderSpending): boolean {
  return spend.providers.some((each) => each.price_per_call != null);
}

/** An amount of money, or null if the price is not known. Small amounts keep the digits that matter. */
export function money(amount: number | null | undefined, currency: string): string | null {
  if (amount == null) return null;
  const digits =
    amount > 0 && amount < 1 ? { maximumSignificantDigits: 2 } : { minimumFractionDigits: 2, maximumFractionDigits: 2 };
  return new Intl.NumberFormat("en", { style: "currency", currency, ...digits }).format(amount);
}
