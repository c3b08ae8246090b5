import type { Schemas } from "@/api/types";
import { Checkbox } from "@/design";
import { Refusal } from "@/parts/Refusal";
import { webhookTexts as texts } from "@/texts/webhooks";

type Event = Schemas["WebhookEvent"];

const GROUPS: readonly [string, readonly Event[]][] = [
  [
    texts.eventGroups.job,
    ["job.accepted", "job.started", "job.completed", "job.failed", "job.canceled", "job.expired"],
  ],
  [texts.eventGroups.batch, ["batch.finished"]],
  [texts.eventGroups.run, ["candidate.created", "run.gate", "run.finished"]],
  [texts.eventGroups.tokens, ["wallet.low", "budget.reached"]],
];

/** The events that an endpoint gets. */
export function EventChoice({
  value,
  onChange,
  error,
}: {
  value: readonly Event[];
  onChange: (events: Event[]) => void;
  error: string | null;
}) {
  return (
    <fieldset className="grid gap-3">
      <legend className="mb-1.5 text-s font-[550]">{texts.events}</legend>
      {GROUPS.map(([group, events]) => (
        <div key={group} className="grid gap-1">
          <span className="text-s text-muted">{group}</span>
          <div className="grid gap-x-4 sm:grid-cols-2">
            {events.map((event) => (
              <label key={event} className="flex min-h-11 cursor-pointer items-center gap-3 sm:min-h-8">
                <Checkbox
                  checked={value.includes(event)}
                  onChange={({ target }) =>
                    onChange(target.checked ? [...value, event] : value.filter((each) => each !== event))
                  }
                />
                <span className="min-w-0">
                  <code className="text-s">{event}</code>
                  <span className="block text-xs text-muted">{texts.eventNames[event]}</span>
                </span>
              </label>
            ))}
          </div>
        </div>
      ))}
      <Refusal error={value.length === 0 ? texts.needsEvent : error} />
    </fieldset>
  );
}
