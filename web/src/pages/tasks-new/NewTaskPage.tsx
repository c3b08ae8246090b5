import { PageHead } from "@/design";
import { useTitle } from "@/parts/useTitle";

export function NewTaskPage() {
  useTitle("New task");
  return <PageHead title="New task" />;
}
