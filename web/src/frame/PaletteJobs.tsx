import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { ListVideo } from "lucide-react";
import { useDeferredValue } from "react";
import { StatusBadge } from "@/design/StatusBadge";
import { Time } from "@/design/Time";
import { paletteTexts } from "@/texts/frame";
import { foundJobsQuery, isJobId } from "./found-jobs";
import { PaletteGroup, PaletteItem } from "./PaletteItem";

/** Jobs whose prompt, effect or file contains the words, and the job with this id. */
export function PaletteJobs({ typed, onChoose }: { typed: string; onChoose: (action: () => unknown) => () => void }) {
  const navigate = useNavigate();
  const words = useDeferredValue(typed.trim());
  const { data } = useQuery(foundJobsQuery(words));
  const open = (id: string) => onChoose(() => navigate({ to: "/jobs/$id", params: { id } }));
  if (isJobId(words)) {
    return (
      <PaletteGroup heading={paletteTexts.jobs}>
        <PaletteItem value={`job ${words}`} found={typed} icon={<ListVideo size={16} />} onSelect={open(words)}>
          {paletteTexts.openJob(words)}
        </PaletteItem>
      </PaletteGroup>
    );
  }
  if (!data?.length) return null;
  return (
    <PaletteGroup heading={paletteTexts.jobs}>
      {data.map((job) => (
        <PaletteItem
          key={job.id}
          value={`job ${job.id}`}
          found={typed}
          icon={<ListVideo size={16} />}
          onSelect={open(job.id)}
        >
          <span className="grid min-w-0 grow py-1">
            <span className="truncate">{job.prompt || job.input_name || job.title}</span>
            <span className="text-xs text-muted">
              {job.title} · <Time at={job.submitted_at} />
            </span>
          </span>
          <StatusBadge status={job.status} />
        </PaletteItem>
      ))}
    </PaletteGroup>
  );
}
