import type { ProviderSpending } from "./queries";

/** Whether any provider has a price per call. Without one the column of costs is hidden. */
export function hasPrices(spend: ProviderSpending): boolean {
  return spend.providers.some((each) => each.price_per_call != null);
}

/** Formats an amount of money; null if the price is unknown. Small amounts keep their significant digits. */
export function money(amount: number | null | undefined, currency: string): string | null {
  if (amount == null) return null;
  const digits =
    amount > 0 && amount < 1 ? { maximumSignificantDigits: 2 } : { minimumFractionDigits: 2, maximumFractionDigits: 2 };
  return new Intl.NumberFormat("en", { style: "currency", currency, ...digits }).format(amount);
}
