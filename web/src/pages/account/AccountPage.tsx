import { PageHead } from "@/design";
import { useTitle } from "@/parts/useTitle";

export function AccountPage() {
  useTitle("Account");
  return <PageHead title="Account" />;
}
