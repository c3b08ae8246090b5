const numbers = new Intl.NumberFormat("en");

export function formatTokens(amount: number): string {
  return `${numbers.format(amount)} ${amount === 1 ? "token" : "tokens"}`;
}

export function Tokens({ amount, className }: { amount: number; className?: string }) {
  return <span className={`num whitespace-nowrap ${className ?? ""}`}>{formatTokens(amount)}</span>;
}
