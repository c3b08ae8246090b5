import { useNavigate, useSearch } from "@tanstack/react-router";
import { PageHead, Segments } from "@/design";
import { VIEWS, type View } from "@/parts/job/all-jobs-filters";
import { useTitle } from "@/parts/useTitle";
import { allJobsTexts } from "@/texts/all-jobs";
import { BulkActionsView } from "./BulkActionsView";
import { ErrorsView } from "./ErrorsView";
import { JobsView } from "./JobsView";

const CHOICES = VIEWS.map((value) => ({ value, label: allJobsTexts.views[value] }));

export function AllJobsPage() {
  useTitle(allJobsTexts.title);
  const search = useSearch({ from: "/framed/operator/operate/jobs" });
  const navigate = useNavigate({ from: "/operate/jobs" });
  const view: View = search.view ?? "jobs";
  // A filter stays when the view changes: the errors of a tenant, then its jobs.
  const show = (chosen: View) =>
    void navigate({ search: (now) => ({ ...now, view: chosen === "jobs" ? undefined : chosen }) });
  return (
    <>
      <PageHead
        title={allJobsTexts.title}
        text={allJobsTexts.text}
        actions={<Segments label={allJobsTexts.viewLabel} value={view} choices={CHOICES} onChange={show} />}
      />
      {view === "errors" ? (
        <ErrorsView search={search} />
      ) : view === "actions" ? (
        <BulkActionsView />
      ) : (
        <JobsView search={search} />
      )}
    </>
  );
}
