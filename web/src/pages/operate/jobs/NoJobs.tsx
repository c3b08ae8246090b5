import { Link } from "@tanstack/react-router";
import { ListTree, SearchX } from "lucide-react";
import { Button, Empty } from "@/design";
import { allJobsTexts } from "@/texts/all-jobs";
import { type AllJobsSearch, isFiltered } from "./filters";

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
