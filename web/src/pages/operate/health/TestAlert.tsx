import { useMutation } from "@tanstack/react-query";
import { BellRing } from "lucide-react";
import { api, data } from "@/api/client";
import { Button } from "@/design";
import { ProblemPanel } from "@/parts/ProblemPanel";
import { TextWithCode } from "@/parts/TextWithCode";
import { testAlertTexts as texts } from "@/texts/health";

/** Sends a test message to every recipient of alerts. */
export function TestAlert() {
  const send = useMutation({ mutationFn: () => data(api.POST("/api/admin/alerts/test")) });
  return (
    <section aria-label={texts.title} className="panel mt-6 flex flex-wrap items-start justify-between gap-4 p-5">
      <div className="min-w-0 grow basis-80">
        <h2>{texts.title}</h2>
        <p className="mt-1 max-w-prose text-muted">{texts.text}</p>
        <div role="status" className="mt-2 max-w-prose [overflow-wrap:anywhere] empty:mt-0">
          {send.data &&
            (send.data.recipients.length > 0 ? (
              texts.sent(send.data.recipients.map(nameOf).join(", "))
            ) : (
              <TextWithCode text={texts.noRecipient} />
            ))}
        </div>
        {send.isError && <ProblemPanel error={send.error} />}
      </div>
      <Button busy={send.isPending} icon={<BellRing size={16} />} onClick={() => send.mutate()}>
        {texts.send}
      </Button>
    </section>
  );
}

function nameOf(recipient: string): string {
  return recipient === "webhook" ? texts.webhook : recipient;
}
