import { Link } from "@tanstack/react-router";
import { GitFork } from "lucide-react";
import { Button } from "@/design/Button";
import { Empty } from "@/design/Empty";
import { runTexts } from "@/texts/runs";

export function RunNotFound() {
  return (
    <Empty
      isPage
      icon={<GitFork size={20} />}
      title={runTexts.notFound}
      text={runTexts.notFoundText}
      action={
        <Button asChild>
          <Link to="/runs">{runTexts.toRuns}</Link>
        </Button>
      }
    />
  );
}
