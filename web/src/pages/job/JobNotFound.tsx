import { SearchX } from "lucide-react";
import { Empty } from "@/design/Empty";
import { LinkButton } from "@/parts/LinkButton";
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
      action={<LinkButton to="/jobs">{jobTexts.allJobs}</LinkButton>}
    />
  );
}
