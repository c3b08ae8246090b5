import { ListTree } from "lucide-react";
import type { AllJobsSearch } from "@/parts/job/all-jobs-filters";
import { LinkButton } from "@/parts/LinkButton";
import { useRole } from "@/parts/useRole";
import { commonTexts } from "@/texts/common";

/** Link to the jobs of a thing, in the list of all tenants. Tenant admins cannot open that list. */
export function JobsLink({ search, size = "m" }: { search: AllJobsSearch; size?: "s" | "m" }) {
  const { me } = useRole();
  if (!me || me.role === "tenant_admin") return null;
  return (
    <LinkButton size={size} to="/operate/jobs" search={search}>
      <ListTree size={16} aria-hidden />
      {commonTexts.itsJobs}
    </LinkButton>
  );
}
