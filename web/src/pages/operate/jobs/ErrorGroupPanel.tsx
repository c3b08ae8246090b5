import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { X } from "lucide-react";
import { Button, formatNumber, Time } from "@/design";
import { allJobsTexts } from "@/texts/all-jobs";
import { errorGroupQuery } from "./queries";

/** The error that filters the list. */
export function ErrorGroupPanel({ fingerprint }: { fingerprint: string }) {
  const { data } = useQuery(errorGroupQuery(fingerprint));
  const navigate = useNavigate({ from: "/operate/jobs" });
  return (
    <section className="panel mb-4 flex items-start gap-3 border-l-4 border-l-bad p-4">
      <div className="min-w-0 grow">
        <p className="font-[550] break-words">{data ? data.example.message : allJobsTexts.ofError(fingerprint)}</p>
        {data && (
          <p className="num mt-1 flex flex-wrap gap-x-4 text-s text-muted">
            <span>{allJobsTexts.group(formatNumber(data.jobs) + (data.is_partial ? "+" : ""), data.tenants)}</span>
            <span>
              {allJobsTexts.firstSeen} <Time at={data.first_seen_at} />
            </span>
            <span>
              {allJobsTexts.lastSeen} <Time at={data.last_seen_at} />
            </span>
          </p>
        )}
      </div>
      <Button
        look="quiet"
        size="icon"
        className="-mt-1 -mr-1"
        aria-label={allJobsTexts.clearError}
        onClick={() => void navigate({ search: (now) => ({ ...now, error: undefined }), replace: true })}
        icon={<X size={16} />}
      />
    </section>
  );
}
