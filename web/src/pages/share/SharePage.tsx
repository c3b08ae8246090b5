import { PageHead } from "@/design";
import { useTitle } from "@/parts/useTitle";

export function SharePage() {
  useTitle("Shared result");
  return <PageHead title="Shared result" />;
}
