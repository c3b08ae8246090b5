import { CopyButton } from "@/design";
import { keyTexts } from "@/texts/account";

/** A new key, and a command that uses it. */
export function NewKey({ apiKey, path = "/api/wallet" }: { apiKey: string; path?: string }) {
  const curl = `curl -H 'Authorization: Bearer ${apiKey}' ${window.location.origin}${path}`;
  return (
    <div className="grid gap-4">
      <Code label={keyTexts.key} text={apiKey} copyLabel={keyTexts.copyKey} />
      <Code label={keyTexts.tryIt} text={curl} copyLabel={keyTexts.copyCurl} />
    </div>
  );
}

function Code({ label, text, copyLabel }: { label: string; text: string; copyLabel: string }) {
  return (
    <div className="grid gap-1.5">
      <div className="flex items-center justify-between">
        <span className="text-s font-[550]">{label}</span>
        <CopyButton text={text} label={copyLabel} word={copyLabel} />
      </div>
      <pre className="rounded-s border bg-bg p-3 [overflow-wrap:anywhere] whitespace-pre-wrap">
        <code>{text}</code>
      </pre>
    </div>
  );
}
