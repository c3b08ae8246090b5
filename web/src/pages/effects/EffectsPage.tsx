import { PageHead } from "@/design";
import { useTitle } from "@/parts/useTitle";

export function EffectsPage() {
  useTitle("Effects");
  return <PageHead title="Effects" />;
}
