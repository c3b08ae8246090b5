import { AudioLines, Clapperboard, FileText, ImageIcon, Sparkles } from "lucide-react";
import { useState } from "react";
import type { JobSummary } from "@/api/types";
import { Still } from "./Still";
import { stillOf } from "./shown";
import { useLessMotion } from "./useLessMotion";

const ICONS = { image: ImageIcon, video: Clapperboard, audio: AudioLines, text: FileText, other: FileText };

/**
 * A small image of the job's result, or of its input until then. Clips play under the pointer, unless the system asks
 * for less motion.
 */
export function JobThumb({ job }: { job: Pick<JobSummary, "output" | "input" | "medium" | "status" | "kind"> }) {
  const [isOver, setOver] = useState(false);
  const wantsLessMotion = useLessMotion();
  const file = job.output ?? job.input;
  const clip = job.output?.preview_url;
  const Icon = job.medium ? ICONS[job.medium] : Sparkles;
  return (
    <span
      onPointerEnter={() => setOver(true)}
      onPointerLeave={() => setOver(false)}
      className="relative grid h-13 w-21 shrink-0 place-items-center overflow-hidden rounded-s border bg-hover text-muted"
    >
      <Still still={file && stillOf(file, "small")} file={file} alt="" className={job.output ? "" : "opacity-50"}>
        <Icon size={20} strokeWidth={1.6} aria-hidden />
      </Still>
      {isOver && clip && !wantsLessMotion && (
        <video
          src={clip}
          muted
          autoPlay
          loop
          playsInline
          aria-hidden
          tabIndex={-1}
          className="absolute inset-0 size-full object-cover"
        />
      )}
    </span>
  );
}
