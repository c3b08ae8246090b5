import { GitFork } from "lucide-react";
import { Empty } from "@/design/Empty";
import { LinkButton } from "@/parts/LinkButton";
import { runNotFoundTexts } from "@/texts/run-not-found";

export function RunNotFound() {
  return (
    <Empty
      isPage
      icon={<GitFork size={20} />}
      title={runNotFoundTexts.title}
      text={runNotFoundTexts.text}
      action={<LinkButton to="/runs">{runNotFoundTexts.toRuns}</LinkButton>}
    />
  );
}
