import { Link } from "@tanstack/react-router";
import { GitFork } from "lucide-react";
import { Button } from "@/design/Button";
import { Empty } from "@/design/Empty";
import { runNotFoundTexts } from "@/texts/run-not-found";

export function RunNotFound() {
  return (
    <Empty
      isPage
      icon={<GitFork size={20} />}
      title={runNotFoundTexts.title}
      text={runNotFoundTexts.text}
      action={
        <Button asChild>
          <Link to="/runs">{runNotFoundTexts.toRuns}</Link>
        </Button>
      }
    />
  );
}
