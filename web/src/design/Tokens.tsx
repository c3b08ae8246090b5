import { commonTexts } from "@/texts/common";
import { formatNumber } from "@/texts/plurals";

export function formatTokens(amount: number): string {
  return commonTexts.tokens(formatNumber(amount), amount);
}

export function Tokens({ amount, className }: { amount: number; className?: string }) {
  return <span className={`num whitespace-nowrap ${className ?? ""}`}>{formatTokens(amount)}</span>;
}
