import { Link } from "@tanstack/react-router";
import { SearchX } from "lucide-react";
import { Button } from "@/design/Button";
import { Empty } from "@/design/Empty";
import { useTitle } from "@/parts/useTitle";
import { jobTexts } from "@/texts/job";

export function JobNotFound() {
  useTitle(jobTexts.notFound);
  return (
    <Empty
      icon={<SearchX size={20} />}
      title={jobTexts.notFound}
      text={jobTexts.notFoundText}
      isPage
      action={
        <Button asChild>
          <Link to="/jobs">{jobTexts.allJobs}</Link>
        </Button>
      }
    />
  );
}
