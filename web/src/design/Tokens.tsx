import { commonTexts } from "@/texts/common";

const numbers = new Intl.NumberFormat("en");

export function formatTokens(amount: number): string {
  return commonTexts.tokens(numbers.format(amount), amount);
}

export function Tokens({ amount, className }: { amount: number; className?: string }) {
  return <span className={`num whitespace-nowrap ${className ?? ""}`}>{formatTokens(amount)}</span>;
}
