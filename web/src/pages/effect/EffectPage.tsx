import { PageHead } from "@/design";
import { useTitle } from "@/parts/useTitle";

export function EffectPage() {
  useTitle("Effect");
  return <PageHead title="Effect" />;
}
