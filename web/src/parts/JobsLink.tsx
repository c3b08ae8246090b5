import { Link } from "@tanstack/react-router";
import { ListTree } from "lucide-react";
import { Button } from "@/design";
import type { AllJobsSearch } from "@/parts/job/all-jobs-filters";
import { useRole } from "@/parts/useRole";
import { commonTexts } from "@/texts/common";

/** Link to the jobs of a thing, in the list of all tenants. Tenant admins cannot open that list. */
export function JobsLink({ search, size = "m" }: { search: AllJobsSearch; size?: "s" | "m" }) {
  const { me } = useRole();
  if (!me || me.role === "tenant_admin") return null;
  return (
    <Button asChild size={size}>
      <Link to="/operate/jobs" search={search}>
        <ListTree size={16} aria-hidden />
        {commonTexts.itsJobs}
      </Link>
    </Button>
  );
}
