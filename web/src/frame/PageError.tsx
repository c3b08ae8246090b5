import { type ErrorComponentProps, useRouter } from "@tanstack/react-router";
import { TriangleAlert } from "lucide-react";
import { useEffect } from "react";
import { ApiError, NetworkError } from "@/api/problems";
import { Button } from "@/design/Button";
import { Empty } from "@/design/Empty";
import { ProblemPanel } from "@/parts/ProblemPanel";
import { problemTexts } from "@/texts/problems";

const AGAIN_MS = 3_000;

/** Error boundary of every page. It shows a refusal in the words of the server and a bug in our own words. */
export function PageError({ error, reset }: ErrorComponentProps) {
  const router = useRouter();
  const retry = () => {
    reset();
    void router.invalidate();
  };
  const isPassing = error instanceof NetworkError || (error instanceof ApiError && error.status >= 500);
  useEffect(() => {
    if (!isPassing) return;
    const timer = setTimeout(retry, AGAIN_MS);
    return () => clearTimeout(timer);
  });
  if (isPassing || error instanceof ApiError) {
    return (
      <div className="mx-auto w-full max-w-lg p-4 pt-16">
        <ProblemPanel error={error} onRetry={retry} isPage />
      </div>
    );
  }
  return (
    <Empty
      icon={<TriangleAlert size={20} />}
      title={problemTexts.pageFailed}
      text={problemTexts.pageFailedText}
      action={<Button onClick={() => window.location.reload()}>{problemTexts.reload}</Button>}
    />
  );
}
