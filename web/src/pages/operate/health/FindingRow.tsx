import type { Schemas } from "@/api/types";
import { Badge, type Tone } from "@/design";
import { healthTexts as texts } from "@/texts/health";

type Finding = Schemas["HealthFinding"];
const TONES: Record<Finding["status"], Tone> = { ok: "ok", warning: "warn", problem: "bad" };

export function FindingRow({ finding }: { finding: Finding }) {
  return (
    <li className="grid gap-x-5 gap-y-1.5 px-5 py-3.5 sm:grid-cols-[6.5rem_minmax(0,1fr)]">
      <div>
        <Badge tone={TONES[finding.status]}>{texts.statuses[finding.status]}</Badge>
      </div>
      <div className="min-w-0 [overflow-wrap:anywhere]">
        <p>
          <span className="font-[550]">{finding.part.charAt(0).toUpperCase() + finding.part.slice(1)}:</span>{" "}
          {finding.message}
        </p>
        {finding.advice && (
          <p className="mt-1 text-s text-muted">
            <span className="font-[550] text-text">{texts.whatToDo}:</span> {finding.advice}
          </p>
        )}
      </div>
    </li>
  );
}
