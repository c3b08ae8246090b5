import { Link } from "@tanstack/react-router";
import { ListTree, SearchX } from "lucide-react";
import { Button, Empty } from "@/design";
import { type AllJobsSearch, isFiltered } from "@/parts/job/all-jobs-filters";
import { allJobsTexts } from "@/texts/all-jobs";

export function NoJobs({ search }: { search: AllJobsSearch }) {
  if (!isFiltered(search))
    return <Empty icon={<ListTree size={20} />} title={allJobsTexts.empty} text={allJobsTexts.emptyText} />;
  return (
    <Empty
      icon={<SearchX size={20} />}
      title={allJobsTexts.noneFound}
      text={allJobsTexts.noneFoundText}
      action={
        <Button asChild>
          <Link to="/operate/jobs">{allJobsTexts.clear}</Link>
        </Button>
      }
    />
  );
}
