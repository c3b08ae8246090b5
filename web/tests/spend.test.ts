import { expect, test } from "vitest";
import { hasPrices, money } from "@/pages/operate/providers/spend";

const none = { calls: 0, completed: 0, failed: 0, tokens: 0 };

test("small amounts keep the digits that matter, and an unknown price is no amount", () => {
  expect(money(1234.5, "USD")).toBe("$1,234.50");
  expect(money(0.0042, "EUR")).toBe("€0.0042");
  expect(money(0, "USD")).toBe("$0.00");
  expect(money(null, "USD")).toBeNull();
});

test("costs are shown where the price of a provider is known", () => {
  const of = (price: number | null) => ({
    currency: "USD",
    providers: [{ provider: "replicate", price_per_call: price, last_24h: none, last_30d: none }],
  });
  expect(hasPrices(of(0))).toBe(true);
  expect(hasPrices(of(null))).toBe(false);
});
