import { Braces } from "lucide-react";
import { useMemo } from "react";
import { CopyButton, Empty } from "@/design";
import type { AdminJob } from "@/parts/job/queries";
import { operatorJobTexts as texts } from "@/texts/operator-job";

// A browser lays out a text of this length at once. A text of megabytes takes seconds.
const MAX_CHARACTERS = 200_000;

/** The payload of the worker, as the API shows it to this role. */
export function PayloadTab({ payload }: { payload: AdminJob["payload"] }) {
  const text = useMemo(() => (payload ? JSON.stringify(payload, null, 2) : ""), [payload]);
  if (!payload) return <Empty icon={<Braces size={20} />} title={texts.hidden} text={texts.hiddenText} />;
  if (Object.keys(payload).length === 0) return <p className="text-muted">{texts.deletedPayload}</p>;
  return (
    <div className="grid gap-3">
      <div className="flex items-center justify-between gap-4">
        <p className="text-s text-muted">
          {text.length > MAX_CHARACTERS && texts.payloadCut(`${Math.round(text.length / 1000)} kB`)}
        </p>
        <CopyButton text={text} label={texts.copyPayload} word={texts.copyPayload} />
      </div>
      <pre
        tabIndex={0}
        aria-label={texts.payload}
        role="region"
        className="panel max-h-[70vh] overflow-auto p-4 font-mono text-xs"
      >
        {text.slice(0, MAX_CHARACTERS)}
      </pre>
    </div>
  );
}
