import { Link } from "@tanstack/react-router";
import { Clapperboard, SearchX } from "lucide-react";
import { Button, Empty } from "@/design";
import { isFiltered, type JobsSearch } from "@/parts/job/filters";
import { jobsTexts } from "@/texts/jobs";

export function JobsEmpty({ search }: { search: JobsSearch }) {
  if (isFiltered(search)) {
    return (
      <Empty
        icon={<SearchX size={20} />}
        title={jobsTexts.noneFound}
        text={jobsTexts.noneFoundText}
        action={
          <Button asChild>
            <Link to="/jobs">{jobsTexts.clear}</Link>
          </Button>
        }
      />
    );
  }
  return (
    <Empty
      icon={<Clapperboard size={20} />}
      title={jobsTexts.emptyTitle}
      text={jobsTexts.emptyText}
      action={
        <Button look="go" asChild>
          <Link to="/effects">{jobsTexts.emptyAction}</Link>
        </Button>
      }
    />
  );
}
