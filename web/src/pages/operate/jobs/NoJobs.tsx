import { ListTree, SearchX } from "lucide-react";
import { Empty } from "@/design";
import { type AllJobsSearch, isFiltered } from "@/parts/job/all-jobs-filters";
import { LinkButton } from "@/parts/LinkButton";
import { allJobsTexts } from "@/texts/all-jobs";

export function NoJobs({ search }: { search: AllJobsSearch }) {
  if (!isFiltered(search))
    return <Empty icon={<ListTree size={20} />} title={allJobsTexts.empty} text={allJobsTexts.emptyText} />;
  return (
    <Empty
      icon={<SearchX size={20} />}
      title={allJobsTexts.noneFound}
      text={allJobsTexts.noneFoundText}
      action={<LinkButton to="/operate/jobs">{allJobsTexts.clear}</LinkButton>}
    />
  );
}
