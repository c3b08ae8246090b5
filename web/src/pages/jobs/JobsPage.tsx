import { PageHead } from "@/design";
import { useTitle } from "@/parts/useTitle";

export function JobsPage() {
  useTitle("Jobs");
  return <PageHead title="Jobs" />;
}
