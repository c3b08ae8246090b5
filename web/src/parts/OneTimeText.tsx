import { CopyButton } from "@/design";
import { commonTexts } from "@/texts/common";

/** A link or a password that is shown once, with a copy button. */
export function OneTimeText({ label, text }: { label: string; text: string }) {
  return (
    <div className="grid gap-1.5">
      <div className="flex items-center justify-between gap-3">
        <span className="text-s font-[550]">{label}</span>
        <CopyButton text={text} label={`${commonTexts.copy} ${label.toLowerCase()}`} word={commonTexts.copy} />
      </div>
      <pre className="rounded-s border bg-bg p-3 [overflow-wrap:anywhere] whitespace-pre-wrap">
        <code>{text}</code>
      </pre>
    </div>
  );
}
