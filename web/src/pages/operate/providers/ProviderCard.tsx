import { type ReactNode, useState } from "react";
import { api } from "@/api/client";
import { keys } from "@/api/keys";
import { Badge, Button, duration, Time, type Tone } from "@/design";
import { ConfirmDialog } from "@/parts/ConfirmDialog";
import { notifyDone } from "@/parts/notify";
import { useAction } from "@/parts/useAction";
import { useRole } from "@/parts/useRole";
import { providersTexts as texts } from "@/texts/providers";
import type { Provider } from "./queries";

const TONES: Record<Provider["state"], Tone> = { closed: "ok", open: "bad", half_open: "warn" };

/** Whether jobs are sent to the provider, and the evidence. */
export function ProviderCard({ provider }: { provider: Provider }) {
  const [isConfirming, setConfirming] = useState(false);
  const { mayOperate } = useRole();
  const reset = useReset(provider.name, () => setConfirming(false));
  const isClosed = provider.state === "closed";
  return (
    <section aria-label={provider.name} className="panel grid h-full content-start gap-4 p-5">
      <div className="flex flex-wrap items-start justify-between gap-3">
        <div className="min-w-0">
          <h2 className="break-words">{provider.name}</h2>
          <p className="text-s text-muted">{texts.finish[provider.finish] ?? provider.finish}</p>
        </div>
        <Badge tone={TONES[provider.state]}>{texts.states[provider.state]}</Badge>
      </div>
      <dl className="num grid grid-cols-[auto_1fr] gap-x-6 gap-y-1.5 text-s">
        <Fact name={texts.failures}>{provider.failures}</Fact>
        <Fact name={texts.openCalls}>{provider.open_calls}</Fact>
        {provider.open_until && (
          <Fact name={texts.nextTry}>
            <Time at={provider.open_until} />
            {provider.pause_seconds != null && `, ${texts.pause.toLowerCase()} ${duration(provider.pause_seconds)}`}
          </Fact>
        )}
        {(provider.failed_dispatches ?? []).length > 0 && (
          <Fact name={texts.evidence}>{(provider.failed_dispatches ?? []).join(", ")}</Fact>
        )}
        <Fact name={texts.lastError}>
          {provider.last_error ? (
            <>
              <span className="[overflow-wrap:anywhere]">{provider.last_error}</span>
              {provider.last_error_at && (
                <span className="text-muted">
                  {" "}
                  <Time at={provider.last_error_at} />
                </span>
              )}
            </>
          ) : (
            texts.noError
          )}
        </Fact>
      </dl>
      {provider.open_for && <p className="text-s text-muted">{texts.onlyTenant}.</p>}
      {mayOperate && !isClosed && (
        <Button
          className="justify-self-start"
          aria-label={texts.resetOf(provider.name)}
          onClick={() => setConfirming(true)}
        >
          {texts.reset}
        </Button>
      )}
      {isConfirming && (
        <ConfirmDialog
          title={texts.resetTitle(provider.name)}
          text={texts.resetText}
          action={texts.reset}
          keep={texts.keep}
          busy={reset.isPending}
          onConfirm={() => reset.mutate()}
          onClose={() => setConfirming(false)}
        />
      )}
    </section>
  );
}

function Fact({ name, children }: { name: string; children: ReactNode }) {
  return (
    <>
      <dt className="text-muted">{name}</dt>
      <dd className="min-w-0">{children}</dd>
    </>
  );
}

function useReset(name: string, onDone: () => void) {
  return useAction({
    mutationFn: () => api.POST("/api/admin/providers/{provider}/reset", { params: { path: { provider: name } } }),
    onSuccess: () => notifyDone(texts.wasReset(name)),
    changes: [keys.operatedProviders],
    onEnd: onDone,
  });
}
