import { PageHead } from "@/design";
import { useTitle } from "@/parts/useTitle";

export function JobPage() {
  useTitle("Job");
  return <PageHead title="Job" />;
}
