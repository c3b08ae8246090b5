import { Link2, MoreHorizontal, Share2, SlidersHorizontal, Trash2 } from "lucide-react";
import { useState } from "react";
import type { Job, JobSummary } from "@/api/types";
import { Button, copyText, Menu, MenuItem } from "@/design";
import { ConfirmDialog } from "@/parts/ConfirmDialog";
import { DownloadButton } from "@/parts/DownloadButton";
import { LinkButton } from "@/parts/LinkButton";
import { notify } from "@/parts/notify";
import { ShareDialog } from "@/parts/ShareDialog";
import { jobTexts } from "@/texts/job";
import { useDeleteJob } from "./useJobActions";

/** Actions for a job that has ended. */
export function JobActions({ job, summary }: { job: Job; summary: JobSummary }) {
  const [isRemoving, setRemoving] = useState(false);
  const [isSharing, setSharing] = useState(false);
  const outputs = (job.outputs ?? []).filter((output) => output.url);
  const copyLink = () =>
    void copyText(window.location.href).then(
      () => notify(jobTexts.linkCopied),
      () => notify(jobTexts.linkNotCopied),
    );
  return (
    <>
      {outputs.length > 0 && <DownloadButton job={job} look="go" className="max-sm:w-full" />}
      <RunAgain summary={summary} isFirst={outputs.length === 0} />
      {outputs.length > 0 && (
        <Button className="max-sm:grow" onClick={() => setSharing(true)} icon={<Share2 size={16} aria-hidden />}>
          {jobTexts.share}
        </Button>
      )}
      <Menu trigger={<Button size="icon" aria-label={jobTexts.more} icon={<MoreHorizontal size={18} aria-hidden />} />}>
        <MenuItem onSelect={copyLink} icon={<Link2 size={15} aria-hidden />}>
          {jobTexts.copyLink}
        </MenuItem>
        <MenuItem onSelect={() => setRemoving(true)} icon={<Trash2 size={15} aria-hidden />} danger>
          {jobTexts.remove}
        </MenuItem>
      </Menu>
      {isSharing && (
        <ShareDialog
          jobId={job.id}
          hasInput={Boolean(summary.input)}
          hasPrompt={Boolean(summary.prompt)}
          onClose={() => setSharing(false)}
        />
      )}
      {isRemoving && <RemoveDialog id={job.id} onClose={() => setRemoving(false)} />}
    </>
  );
}

function RunAgain({ summary, isFirst }: { summary: JobSummary; isFirst: boolean }) {
  const inner = (
    <>
      <SlidersHorizontal size={16} aria-hidden />
      <span>
        {jobTexts.again} <span className="max-lg:sr-only">{jobTexts.withChanges}</span>
      </span>
    </>
  );
  const look = isFirst && summary.status === "completed" ? "go" : "plain";
  if (summary.effect_slug) {
    return (
      <LinkButton
        look={look}
        className="max-sm:grow"
        to="/effects/$slug"
        params={{ slug: summary.effect_slug }}
        search={{ from: summary.id }}
      >
        {inner}
      </LinkButton>
    );
  }
  if (!summary.task_id) return null;
  return (
    <LinkButton look={look} className="max-sm:grow" to="/tasks/new" search={{ from: summary.id }}>
      {inner}
    </LinkButton>
  );
}

function RemoveDialog({ id, onClose }: { id: string; onClose: () => void }) {
  const remove = useDeleteJob(id);
  return (
    <ConfirmDialog
      danger
      title={jobTexts.removeTitle}
      text={jobTexts.removeText}
      action={jobTexts.remove}
      keep={jobTexts.keep}
      busy={remove.isPending}
      onConfirm={remove.mutate}
      onClose={onClose}
    />
  );
}
