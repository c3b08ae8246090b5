import { Clapperboard, SearchX } from "lucide-react";
import { Empty } from "@/design";
import { isFiltered, type JobsSearch } from "@/parts/job/filters";
import { LinkButton } from "@/parts/LinkButton";
import { jobsTexts } from "@/texts/jobs";

export function JobsEmpty({ search }: { search: JobsSearch }) {
  if (isFiltered(search)) {
    return (
      <Empty
        icon={<SearchX size={20} />}
        title={jobsTexts.noneFound}
        text={jobsTexts.noneFoundText}
        action={<LinkButton to="/jobs">{jobsTexts.clear}</LinkButton>}
      />
    );
  }
  return (
    <Empty
      icon={<Clapperboard size={20} />}
      title={jobsTexts.emptyTitle}
      text={jobsTexts.emptyText}
      action={
        <LinkButton look="go" to="/effects">
          {jobsTexts.emptyAction}
        </LinkButton>
      }
    />
  );
}
